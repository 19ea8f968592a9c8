// SPDX-License-Identifier: Apache-2.0
#include "cache/radix_tree.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace inflight {

PrefixKey root_key(uint64_t salt) { return XXH3_64bits(&salt, sizeof(salt)); }

PrefixKey child_key(PrefixKey previous, std::span<const TokenId> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), previous);
}

RadixTree::RadixTree(int32_t block_count, int32_t block_token_count)
    : block_token_count_(block_token_count),
      nodes_(static_cast<size_t>(block_count)),
      tokens_(std::make_unique_for_overwrite<TokenId[]>(static_cast<size_t>(block_count) *
                                                        static_cast<size_t>(block_token_count))),
      table_(std::bit_ceil(std::max<size_t>(2 * static_cast<size_t>(block_count), 16))) {}

bool RadixTree::holds(BlockId block, const Content& content) const {
  const RadixNode& node = nodes_[index(block)];
  return node.key == content.key && node.salt == content.salt && node.parent == content.parent &&
         std::ranges::equal(tokens(block), content.tokens);
}

void RadixTree::count_hit(BlockId block, int32_t priority, TimeNs now) {
  RadixNode& node = nodes_[index(block)];
  ++node.hit_count;
  node.last_use = now;
  node.owner.priority = std::min(node.owner.priority, priority);
}

void RadixTree::check_invariants() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int32_t stored = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const RadixNode& node = nodes_[i];
    if (!node.stored()) continue;
    ++stored;
    const auto block = static_cast<BlockId>(i);
    INFLIGHT_CHECK(find({node.key, node.salt, node.parent, tokens(block)}) == block);
    if (node.parent != kNoBlock) {
      const RadixNode& parent = nodes_[index(node.parent)];
      INFLIGHT_CHECK(parent.stored() && parent.depth + 1 == node.depth && parent.salt == node.salt);
      INFLIGHT_CHECK(node.key == child_key(parent.key, tokens(block)));
      ++children[index(node.parent)];
    } else {
      INFLIGHT_CHECK(node.depth == 0 && node.key == child_key(root_key(node.salt), tokens(block)));
    }
  }
  INFLIGHT_CHECK(stored == node_count_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    INFLIGHT_CHECK(!nodes_[i].stored() || nodes_[i].child_count == children[i]);
  }
}

}  // namespace inflight
