// SPDX-License-Identifier: Apache-2.0
// A vocabulary's tokens by their bytes: a prefix tree laid out in the order of a walk, so that a search which gives up
// at a node jumps over all that is below it. Each node knows what its subtree is made of, so that a state which reads
// all of that takes the subtree's tokens without looking at them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace inflight {

// The bytes that grammars know a token by: those of its text; a control token's spelling stands between two that no
// text has, so that no text is taken for it. Empty: of no use in a grammar.
inline constexpr char kControlBegin = '\xFF', kControlEnd = '\xFE';
[[nodiscard]] std::string grammar_bytes(const Vocabulary& vocabulary, TokenId token);

class TokenTrie {
 public:
  struct Node {
    uint32_t below = 0;        // kinds of what the tokens below have behind this node
    int32_t end = 0;           // behind the last node below this one
    int32_t tokens_begin = 0;  // tokens()[tokens_begin, tokens_end) are this node's, those below come next
    int32_t tokens_end = 0;
    uint16_t depth = 0;   // the root's is 0; a node's token has `depth` bytes
    uint16_t height = 0;  // bytes that the longest token below has more
    uint8_t byte = 0;
  };

  // A bit for each kind of ASCII byte (kind_of()), one for characters beyond ASCII, or the beginning of one, and one
  // for bytes that are not UTF-8, which nodes within a character have too.
  static constexpr uint32_t kBeyondAscii = 1U << 30U;
  static constexpr uint32_t kNoText = 1U << 31U;
  // 0 to 29 for an ASCII byte: letters and digits by a few kinds, what JSON is made of each by its own.
  [[nodiscard]] static uint8_t kind_of(uint8_t ascii);

  // Of the tokens that have grammar_bytes(), 1,000 at most, but for those that end a text.
  TokenTrie(const Vocabulary& vocabulary, std::span<const TokenId> end_tokens);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }  // [0] is the root
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  // Bytes of tokens()[index].
  [[nodiscard]] uint16_t token_length(int32_t index) const { return lengths_[static_cast<size_t>(index)]; }
  // The end in tokens() of those of a node and of all below it.
  [[nodiscard]] int32_t subtree_tokens_end(const Node& node) const {
    const auto next = static_cast<size_t>(node.end);
    return next < nodes_.size() ? nodes_[next].tokens_begin : static_cast<int32_t>(tokens_.size());
  }
  [[nodiscard]] int32_t depth_max() const { return depth_max_; }

 private:
  void note_kinds(std::string_view bytes, const std::vector<size_t>& path);

  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<uint16_t> lengths_;  // of tokens_
  int32_t depth_max_ = 0;
};

}  // namespace inflight
