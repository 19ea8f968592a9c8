// SPDX-License-Identifier: Apache-2.0
// Which tokens may come, where that is a question of all tokens before: token filters (grammars), bad words, and
// min_tokens beside them; behind guesses, too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch_plan.h"
#include "core/token_filter.h"

namespace inflight {

// A sequence's filter as tokens come. What the filter forces follows without being drawn, or, where it was guessed, is
// the only token that may come.   ERRORS (all): those of the filter.
class FollowedFilter {
 public:
  // filter: null = any token may come. takes_forced: false lets every token be drawn.   LIFETIME: it is borrowed.
  FollowedFilter(TokenFilter* filter, bool takes_forced) : filter_(filter), takes_forced_(takes_forced) {}

  [[nodiscard]] bool any() const { return filter_ == nullptr; }
  void allow(std::span<uint32_t> allowed);
  void accept(TokenId token);
  // Tokens that must come next, which the filter has accepted.
  [[nodiscard]] std::span<const TokenId> forced() const { return std::span(forced_).subspan(next_); }

 private:
  TokenFilter* filter_;
  bool takes_forced_;
  std::vector<TokenId> forced_;
  size_t next_ = 0;  // of these
};

// A forced token's probability is not known, so where it counts every token is drawn.
[[nodiscard]] bool takes_forced(const SamplingParams& sampling);

// Finds the masks of a filtered entry's tokens (TokenHistory::allowed). A filter that leaves nothing else is obeyed: a
// text that is complete ends before min_tokens.
// filter: the sequence's, which stays as it is; null = any.   allowed: 1 + draft_token_count masks.
// Returns how many were found; nothing is known of the others.
// ERRORS: those of the filter, where it fails before the first guess.
[[nodiscard]] size_t find_allowed(const BatchEntry& entry, TokenFilter* filter, std::span<uint32_t> allowed);

}  // namespace inflight
