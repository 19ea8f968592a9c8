// SPDX-License-Identifier: Apache-2.0
// A grammar that holds only behind a text that the model may or may not write, such as what marks a call of a function.
// Until that text has come, tokens are drawn as if there were no filter: on the device, a step ahead. So the first
// token behind the text is drawn freely, always, and the grammar rules from the second one on; a first token that does
// not fit means that no call was meant, and the filter sleeps on.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/token_filter.h"
#include "engine/grammar_filter.h"
#include "text/reasoning_format.h"

namespace inflight {

class SleepingFilter final : public TokenFilter {
 public:
  // at_begin: the trigger counts only where it begins the answer, but for spaces.   reasoning: in which the trigger
  // does not count.   LIFETIME: vocabulary is borrowed.
  SleepingFilter(std::unique_ptr<GrammarFilter> grammar, const Vocabulary& vocabulary, std::string trigger,
                 bool at_begin, std::optional<ReasoningWatch> reasoning = std::nullopt);
  SleepingFilter(const SleepingFilter& other);
  SleepingFilter& operator=(const SleepingFilter&) = delete;
  ~SleepingFilter() override = default;

  [[nodiscard]] bool is_awake() const override { return state_ == State::Awake; }
  [[nodiscard]] bool see(TokenId token) override;
  void allow(std::span<uint32_t> allowed) override { following_->allow(allowed); }
  void accept(TokenId token) override { following_->accept(token); }
  [[nodiscard]] std::vector<TokenId> take_forced() override { return following_->take_forced(); }
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<SleepingFilter>(*this); }
  // REQUIRES: is_awake(), which it stays.
  [[nodiscard]] std::unique_ptr<TokenFilter> ahead() override { return following_->ahead(); }

 private:
  enum class State { Asleep, Waking, Awake };

  const std::unique_ptr<const GrammarFilter> begin_;  // as it was
  std::unique_ptr<GrammarFilter> following_;
  const Vocabulary& vocabulary_;
  const std::string trigger_;
  const bool at_begin_;
  std::optional<ReasoningWatch> reasoning_;
  State state_ = State::Asleep;
  std::string text_;     // that may become the trigger
  bool missed_ = false;  // at_begin: something else has begun the answer
};

}  // namespace inflight
