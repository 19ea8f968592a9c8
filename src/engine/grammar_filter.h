// SPDX-License-Identifier: Apache-2.0
// A grammar as a token filter that also says which tokens must come, so that they need not be drawn one by one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/token_filter.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace inflight {

class GrammarFilter final : public TokenFilter {
 public:
  // LIFETIME: the tokenizer is borrowed.
  GrammarFilter(std::unique_ptr<GrammarMatcher> matcher, const Tokenizer& tokenizer)
      : matcher_(std::move(matcher)), tokenizer_(tokenizer) {}
  GrammarFilter(const GrammarFilter& other)
      : TokenFilter(other), matcher_(std::make_unique<GrammarMatcher>(*other.matcher_)), tokenizer_(other.tokenizer_) {}
  GrammarFilter& operator=(const GrammarFilter&) = delete;
  ~GrammarFilter() override = default;

  void allow(std::span<uint32_t> allowed) override { matcher_->allow(allowed); }
  void accept(TokenId token) override { matcher_->accept(token); }
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<GrammarFilter>(*this); }
  [[nodiscard]] std::unique_ptr<TokenFilter> ahead() override { return filter_ahead(); }
  [[nodiscard]] std::unique_ptr<GrammarFilter> filter_ahead() {
    return std::make_unique<GrammarFilter>(matcher_->matcher_ahead(), tokenizer_);
  }
  [[nodiscard]] GrammarMatcher& matcher() { return *matcher_; }
  // The forced text as the tokenizer cuts it, but for its last token: with what follows it might be another one.
  [[nodiscard]] std::vector<TokenId> take_forced() override;

 private:
  std::unique_ptr<GrammarMatcher> matcher_;
  const Tokenizer& tokenizer_;
};

}  // namespace inflight
