// SPDX-License-Identifier: Apache-2.0
// A text that follows the one or the other of two grammars, such as calls of functions or a JSON document.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/token_filter.h"
#include "engine/grammar_filter.h"

namespace inflight {

class EitherFilter final : public TokenFilter {
 public:
  EitherFilter(std::unique_ptr<GrammarFilter> first, std::unique_ptr<GrammarFilter> second);
  EitherFilter(const EitherFilter& other);
  EitherFilter& operator=(const EitherFilter&) = delete;
  ~EitherFilter() override = default;

  void allow(std::span<uint32_t> allowed) override;
  void accept(TokenId token) override;
  [[nodiscard]] std::vector<TokenId> take_forced() override;
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<EitherFilter>(*this); }
  [[nodiscard]] std::unique_ptr<TokenFilter> ahead() override;

 private:
  explicit EitherFilter(std::vector<std::unique_ptr<GrammarFilter>> left) : left_(std::move(left)) {}

  std::vector<std::unique_ptr<GrammarFilter>> left_;  // that the text so far follows; one or two
  std::vector<uint32_t> allowed_;                     // scratch
};

}  // namespace inflight
