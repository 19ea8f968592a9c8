// SPDX-License-Identifier: Apache-2.0
#include "text/token_trie.h"

#include <algorithm>

namespace inflight {
namespace {

constexpr size_t kTokenBytesMax = 1000;

}  // namespace

TokenTrie::TokenTrie(const Vocabulary& vocabulary) : nodes_(1) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const size_t size = vocabulary.bytes(id).size();
    if (!vocabulary.is_control(id) && size > 0 && size <= kTokenBytesMax) tokens_.push_back(id);
  }
  std::ranges::stable_sort(tokens_, [&](TokenId a, TokenId b) { return vocabulary.bytes(a) < vocabulary.bytes(b); });
  std::vector<size_t> path{0};  // nodes from the root to the last token's
  std::string_view before;
  for (size_t index = 0; index < tokens_.size(); ++index) {
    const std::string_view bytes = vocabulary.bytes(tokens_[index]);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(before, bytes).in1 - before.begin());
    for (; path.size() > shared + 1; path.pop_back()) nodes_[path.back()].end = static_cast<int32_t>(nodes_.size());
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      path.push_back(nodes_.size());
      nodes_.push_back({.byte = static_cast<uint8_t>(bytes[depth]), .depth = static_cast<uint16_t>(depth + 1)});
    }
    Node& node = nodes_[path.back()];
    if (node.tokens_begin == node.tokens_end) node.tokens_begin = static_cast<int32_t>(index);
    node.tokens_end = static_cast<int32_t>(index + 1);
    depth_max_ = std::max(depth_max_, static_cast<int32_t>(bytes.size()));
    before = bytes;
  }
  for (const size_t node : path) nodes_[node].end = static_cast<int32_t>(nodes_.size());
}

}  // namespace inflight
