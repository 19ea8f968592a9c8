// SPDX-License-Identifier: Apache-2.0
#include "engine/reasoning_filter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace inflight {
namespace {

void set_token(std::span<uint32_t> mask, TokenId token, bool may_come) {
  const auto index = static_cast<uint32_t>(token);
  if (index / 32 >= mask.size()) return;
  const uint32_t bit = 1U << index % 32;
  mask[index / 32] = may_come ? mask[index / 32] | bit : mask[index / 32] & ~bit;
}

std::vector<ReasoningFilter::Way> clones_of(const std::vector<ReasoningFilter::Way>& ways) {
  std::vector<ReasoningFilter::Way> clones;
  for (const ReasoningFilter::Way& way : ways) clones.push_back(way.clone());
  return clones;
}

}  // namespace

ReasoningFilter::ReasoningFilter(Parts parts, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      end_mark_(std::move(parts.end_mark)),
      not_within_(std::move(parts.not_within)),
      watch_("", end_mark_, parts.begin.empty() ? AnswerBegin::Reasoning : AnswerBegin::Text),
      open_(std::move(parts.begin)),
      behind_(std::move(parts.behind)),
      mask_words_(static_cast<size_t>(div_ceil(vocabulary.size(), 32))) {}

ReasoningFilter::ReasoningFilter(const ReasoningFilter& other)
    : TokenFilter(other),
      vocabulary_(other.vocabulary_),
      end_mark_(other.end_mark_),
      not_within_(other.not_within_),
      watch_(other.watch_),
      open_(clones_of(other.open_)),
      behind_(clones_of(other.behind_)),
      mask_words_(other.mask_words_) {}

// Not a token that ends the mark and goes on: it would be drawn without the filter that holds behind it.
void ReasoningFilter::allow_reasoning(std::span<uint32_t> allowed) const {
  std::ranges::fill(allowed, ~0U);
  for (const TokenId token : not_within_) set_token(allowed, token, false);
  const std::string_view held = watch_.held();
  if (held.empty()) return;
  const std::string_view rest = std::string_view(end_mark_).substr(held.size());
  for (TokenId token = 0; token < vocabulary_.size(); ++token) {
    const std::string_view bytes = vocabulary_.bytes(token);
    const bool goes_on =
        bytes.starts_with(rest) && bytes.substr(rest.size()).find_first_not_of(" \t\r\n") != bytes.npos;
    if (goes_on) set_token(allowed, token, false);
  }
}

void ReasoningFilter::allow(std::span<uint32_t> allowed) {
  mask_words_ = allowed.size();
  if (watch_.is_within()) return allow_reasoning(allowed);
  if (open_.size() == 1 && open_[0].passed == open_[0].lead.size()) return open_[0].filter->allow(allowed);
  std::ranges::fill(allowed, 0U);
  for (Way& way : open_) {
    if (way.passed < way.lead.size()) {
      set_token(allowed, way.lead[way.passed], true);
      continue;
    }
    allowed_.resize(allowed.size());
    way.filter->allow(allowed_);
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] |= allowed_[i];
  }
}

// Whether the token is one of this way, which then has taken it.
bool ReasoningFilter::accepts(Way& way, TokenId token) {
  if (way.passed < way.lead.size()) return way.lead[way.passed++] == token;
  if (open_.size() > 1) {
    allowed_.resize(mask_words_);
    way.filter->allow(allowed_);
    const auto index = static_cast<uint32_t>(token);
    if ((allowed_.at(index / 32) >> index % 32 & 1U) == 0) return false;
  }
  way.filter->accept(token);
  return true;
}

void ReasoningFilter::accept(TokenId token) {
  if (watch_.is_within()) {
    if (vocabulary_.contains(token)) watch_.see(vocabulary_.bytes(token));
    if (!watch_.is_within()) open_ = std::move(behind_);
    return;
  }
  std::vector<Way> left;
  for (Way& way : open_) {
    if (accepts(way, token)) left.push_back(std::move(way));
  }
  INFLIGHT_CHECK(!left.empty());
  open_ = std::move(left);
  const bool begins =
      std::ranges::any_of(open_, [](const Way& way) { return way.filter == nullptr && way.passed == way.lead.size(); });
  if (begins) watch_ = ReasoningWatch("", end_mark_, AnswerBegin::Reasoning);
}

std::vector<TokenId> ReasoningFilter::take_forced() {
  if (watch_.is_within() || open_.size() != 1) return {};
  Way& way = open_[0];
  if (way.passed == way.lead.size()) return way.filter->take_forced();
  const std::vector<TokenId> rest(way.lead.begin() + static_cast<std::ptrdiff_t>(way.passed), way.lead.end());
  for (const TokenId token : rest) accept(token);
  return rest;
}

std::unique_ptr<TokenFilter> ReasoningFilter::ahead() {
  const bool settled = !watch_.is_within() && open_.size() == 1 && open_[0].passed == open_[0].lead.size();
  return settled ? open_[0].filter->ahead() : clone();
}

}  // namespace inflight
