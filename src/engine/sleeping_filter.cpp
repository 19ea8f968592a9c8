// SPDX-License-Identifier: Apache-2.0
#include "engine/sleeping_filter.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace inflight {

SleepingFilter::SleepingFilter(std::unique_ptr<GrammarFilter> grammar, const Vocabulary& vocabulary,
                               std::string trigger, bool at_begin, std::optional<ReasoningWatch> reasoning)
    : begin_(std::make_unique<const GrammarFilter>(*grammar)),
      following_(std::move(grammar)),
      vocabulary_(vocabulary),
      trigger_(std::move(trigger)),
      at_begin_(at_begin),
      reasoning_(std::move(reasoning)) {}

SleepingFilter::SleepingFilter(const SleepingFilter& other)
    : TokenFilter(other),
      begin_(std::make_unique<const GrammarFilter>(*other.begin_)),
      following_(std::make_unique<GrammarFilter>(*other.following_)),
      vocabulary_(other.vocabulary_),
      trigger_(other.trigger_),
      at_begin_(other.at_begin_),
      reasoning_(other.reasoning_),
      state_(other.state_),
      text_(other.text_),
      missed_(other.missed_) {}

bool SleepingFilter::see(TokenId token) {
  if (state_ == State::Waking) {
    state_ = following_->matcher().try_accept(token) ? State::Awake : State::Asleep;
    if (state_ == State::Asleep) following_ = std::make_unique<GrammarFilter>(*begin_);
    missed_ = at_begin_;
    return false;
  }
  if (reasoning_ && vocabulary_.contains(token) && reasoning_->see(vocabulary_.bytes(token))) {
    text_.clear();
    missed_ = false;
    return false;
  }
  if (missed_ || !vocabulary_.contains(token)) return false;
  text_ += vocabulary_.bytes(token);
  if (at_begin_) text_.erase(0, text_.find_first_not_of(" \t\r\n"));
  const size_t at = at_begin_ && !text_.starts_with(trigger_) ? text_.npos : text_.find(trigger_);
  if (at == text_.npos) {
    missed_ = at_begin_ && !trigger_.starts_with(text_);
    if (!at_begin_) text_.erase(0, text_.size() - std::min(text_.size(), trigger_.size() - 1));
    return false;
  }
  const std::string rest = text_.substr(at + trigger_.size());
  text_.clear();
  if (!rest.empty() && !following_->matcher().try_accept_text(rest)) {
    following_ = std::make_unique<GrammarFilter>(*begin_);
    missed_ = at_begin_;
    return false;
  }
  state_ = State::Waking;
  return true;
}

}  // namespace inflight
