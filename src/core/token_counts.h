// SPDX-License-Identifier: Apache-2.0
// Which tokens a sequence has, and how often each was output: what its penalties look at. Kept from step to step, so
// that a long context is not counted again for every token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace inflight {

class TokenCounts {
 public:
  // prompt: how many tokens of the sequence are its prompt; `with_prompt` false: these are passed over.
  TokenCounts(size_t prompt, bool with_prompt) : prompt_(prompt), seen_(with_prompt ? 0 : prompt) {}

  // Counts what is new. known: all tokens, those of the last call first.   COST: O(new tokens).
  void advance(std::span<const TokenId> known) {
    for (; seen_ < known.size(); ++seen_) {
      const auto [place, is_new] = places_.try_emplace(known[seen_], tokens_.size());
      if (is_new) {
        tokens_.push_back(known[seen_]);
        counts_.push_back(0);
      }
      counts_[place->second] += seen_ >= prompt_ ? 1 : 0;
    }
  }
  // Each once, in order of appearance.
  [[nodiscard]] std::span<const TokenId> tokens() const { return tokens_; }
  // Of each: how often it was output; 0: it is in the prompt only.
  [[nodiscard]] std::span<const int32_t> counts() const { return counts_; }

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> counts_;
  std::unordered_map<TokenId, size_t> places_;  // in both
  size_t prompt_;
  size_t seen_;  // tokens of the sequence
};

}  // namespace inflight
