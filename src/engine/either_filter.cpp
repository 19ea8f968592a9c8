// SPDX-License-Identifier: Apache-2.0
#include "engine/either_filter.h"

#include "base/error.h"

namespace inflight {

EitherFilter::EitherFilter(std::unique_ptr<GrammarFilter> first, std::unique_ptr<GrammarFilter> second) {
  left_.push_back(std::move(first));
  left_.push_back(std::move(second));
}

EitherFilter::EitherFilter(const EitherFilter& other) : TokenFilter(other) {
  for (const auto& filter : other.left_) left_.push_back(std::make_unique<GrammarFilter>(*filter));
}

std::unique_ptr<TokenFilter> EitherFilter::ahead() {
  std::vector<std::unique_ptr<GrammarFilter>> left;
  for (const auto& filter : left_) left.push_back(filter->filter_ahead());
  return std::unique_ptr<EitherFilter>(new EitherFilter(std::move(left)));
}

void EitherFilter::allow(std::span<uint32_t> allowed) {
  left_.front()->allow(allowed);
  if (left_.size() == 1) return;
  allowed_.resize(allowed.size());
  left_.back()->allow(allowed_);
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] |= allowed_[i];
}

void EitherFilter::accept(TokenId token) {
  if (left_.size() == 1) return left_.front()->accept(token);
  std::erase_if(left_, [token](const auto& filter) { return !filter->matcher().try_accept(token); });
  INFLIGHT_CHECK(!left_.empty());
}

std::vector<TokenId> EitherFilter::take_forced() {
  return left_.size() == 1 ? left_.front()->take_forced() : std::vector<TokenId>();
}

}  // namespace inflight
