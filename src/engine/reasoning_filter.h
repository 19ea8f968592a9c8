// SPDX-License-Identifier: Apache-2.0
// A filter that holds behind an answer's reasoning, which is free: until its end mark every token may come but those
// that would end the answer, or a message.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/token_filter.h"
#include "text/reasoning_format.h"
#include "text/vocabulary.h"

namespace inflight {

class ReasoningFilter final : public TokenFilter {
 public:
  // How the answer may go on: with these tokens, then as the filter says.
  struct Way {
    std::vector<TokenId> lead;
    std::unique_ptr<TokenFilter> filter;  // null: with reasoning
    size_t passed = 0;                    // of the lead

    [[nodiscard]] Way clone() const { return {lead, filter ? filter->clone() : nullptr, passed}; }
  };
  struct Parts {
    std::vector<Way> begin;   // none: the prompt has begun the reasoning
    std::vector<Way> behind;  // the reasoning; none of them has a null filter
    std::string end_mark;
    std::vector<TokenId> not_within;  // that may not come within the reasoning
  };
  // LIFETIME: vocabulary is borrowed.
  ReasoningFilter(Parts parts, const Vocabulary& vocabulary);
  ReasoningFilter(const ReasoningFilter& other);
  ReasoningFilter& operator=(const ReasoningFilter&) = delete;
  ~ReasoningFilter() override = default;

  void allow(std::span<uint32_t> allowed) override;
  void accept(TokenId token) override;
  [[nodiscard]] std::vector<TokenId> take_forced() override;
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<ReasoningFilter>(*this); }
  [[nodiscard]] std::unique_ptr<TokenFilter> ahead() override;

 private:
  void allow_reasoning(std::span<uint32_t> allowed) const;
  [[nodiscard]] bool accepts(Way& way, TokenId token);

  const Vocabulary& vocabulary_;
  const std::string end_mark_;
  const std::vector<TokenId> not_within_;
  ReasoningWatch watch_;            // within, while the answer is reasoning
  std::vector<Way> open_, behind_;  // that the text so far allows, and what follows the reasoning
  size_t mask_words_ = 0;
  std::vector<uint32_t> allowed_;  // scratch
};

}  // namespace inflight
