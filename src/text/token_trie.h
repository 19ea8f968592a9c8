// SPDX-License-Identifier: Apache-2.0
// A vocabulary's tokens by their bytes: a prefix tree laid out in the order of a walk, so that a search which gives up
// at a node jumps over all that is below it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace inflight {

class TokenTrie {
 public:
  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;        // the root's is 0; a node's token has `depth` bytes
    int32_t end = 0;           // behind the last node below this one
    int32_t tokens_begin = 0;  // tokens()[tokens_begin, tokens_end) are this node's
    int32_t tokens_end = 0;
  };

  // Of the tokens that text is made of: not control, unknown or unused ones, nor those of more than 1,000 bytes.
  explicit TokenTrie(const Vocabulary& vocabulary);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }  // [0] is the root
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  [[nodiscard]] int32_t depth_max() const { return depth_max_; }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  int32_t depth_max_ = 0;
};

}  // namespace inflight
