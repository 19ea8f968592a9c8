// SPDX-License-Identifier: Apache-2.0
// Finds the tokens that are matched in the text before anything else: user-defined ones always, control ones
// ("<|im_end|>") where the caller trusts the text. Leftmost first, and the longest of those that begin at one place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/vocabulary.h"

namespace inflight {

class SpecialTokens {
 public:
  // Copies what it needs of `vocabulary`.
  explicit SpecialTokens(const Vocabulary& vocabulary);

  struct Match {
    size_t offset = 0;
    size_t length = 0;
    TokenId id = -1;
  };
  // The first match at or after `offset`.   COST: O(distance * longest token) at worst, O(distance) usually.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t offset, bool with_control) const;

 private:
  struct Node {
    TokenId user_defined = -1;
    TokenId control = -1;
  };
  [[nodiscard]] std::optional<Match> match_at(std::string_view text, size_t offset, bool with_control) const;

  std::vector<Node> nodes_;                          // a trie; 0 is the root
  std::unordered_map<uint64_t, uint32_t> children_;  // node * 256 + byte -> node
  std::array<bool, 256> begins_{};                   // whether a token begins with this byte
};

// The control tokens that texts spell, in their order.
[[nodiscard]] std::vector<TokenId> control_tokens_in(std::span<const std::string> texts, const Vocabulary& vocabulary);

}  // namespace inflight
