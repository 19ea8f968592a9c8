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

std::span<const TokenId> RadixTree::tokens(BlockId block) const {
  const auto width = static_cast<size_t>(block_token_count_);
  return {tokens_.get() + index(block) * width, width};
}

bool RadixTree::holds(BlockId block, const Content& content) const {
  const RadixNode& node = nodes_[index(block)];
  return node.key == content.key && node.salt == content.salt && node.parent == content.parent &&
         std::ranges::equal(tokens(block), content.tokens);
}

bool RadixTree::insert(const Content& content, BlockId block, const NodeOwner& owner, TimeNs now) {
  Place& place = table_[place_of(content)];
  if (place.block != kEmpty) return false;
  RadixNode& node = nodes_[index(block)];
  INFLIGHT_CHECK(!node.stored());
  INFLIGHT_CHECK(content.tokens.size() == static_cast<size_t>(block_token_count_));
  int32_t depth = 0;
  if (content.parent != kNoBlock) {
    RadixNode& parent = nodes_[index(content.parent)];
    INFLIGHT_CHECK(parent.stored());
    ++parent.child_count;
    depth = parent.depth + 1;
  }
  node = {.key = content.key,
          .salt = content.salt,
          .parent = content.parent,
          .child_count = 0,
          .depth = depth,
          .created = now,
          .last_use = now,
          .owner = owner};
  std::memcpy(tokens_.get() + index(block) * content.tokens.size(), content.tokens.data(), content.tokens.size_bytes());
  place = {to_integer(block), low_of(content.key)};
  ++node_count_;
  return true;
}

void RadixTree::remove(BlockId block) {
  RadixNode& node = nodes_[index(block)];
  INFLIGHT_CHECK(node.child_count == 0);
  if (node.parent != kNoBlock) --nodes_[index(node.parent)].child_count;
  node.child_count = RadixNode::kNotStored;
  --node_count_;

  const size_t mask = table_.size() - 1;
  size_t hole = home(low_of(node.key));
  while (table_[hole].block != to_integer(block)) hole = (hole + 1) & mask;
  // Close the hole: an entry further on moves into it when its home does not lie between the two.
  for (size_t i = (hole + 1) & mask; table_[i].block != kEmpty; i = (i + 1) & mask) {
    const size_t wanted = home(table_[i].key_low);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      table_[hole] = table_[i];
      hole = i;
    }
  }
  table_[hole] = {};
}

void RadixTree::count_hit(BlockId block, TimeNs now) {
  ++nodes_[index(block)].hit_count;
  nodes_[index(block)].last_use = now;
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
