// SPDX-License-Identifier: Apache-2.0
// The prefix index: which block holds the K and V of which token run. A node is one full block and is named by the
// block itself; its parent holds the tokens before it. Children are found through one hash table over (what precedes,
// own tokens), and a hit compares the tokens, so different content is never taken for equal.
//
// Why one block a node instead of compressed runs: blocks are the unit of sharing and eviction, so a longer run would
// be split and joined all the time; matching then modifies nothing and every cost is O(blocks). See
// docs/decisions/0001.
//
// Namespaces: nodes of different salts never match (adapters, tenants). Source: Zheng et al. 2024 (RadixAttention);
// keys chain as in vLLM's prefix cache.
// THREAD: the engine thread only.   Must not know: references, eviction order (KvBlocks does).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"

namespace inflight {

// Hash of a block's tokens and of everything before them in its namespace; equal content, equal key, over evictions.
using PrefixKey = uint64_t;

// The key that a sequence's first block continues.
[[nodiscard]] PrefixKey root_key(uint64_t salt);
// The key of the block that holds `tokens` and follows `previous`.
[[nodiscard]] PrefixKey child_key(PrefixKey previous, std::span<const TokenId> tokens);

// Who computed a block: for strategies, never for matching.
struct NodeOwner {
  int32_t priority = 0;
  uint32_t tenant = 0;
};

// One cache line.
struct alignas(64) RadixNode {
  PrefixKey key = 0;
  uint64_t salt = 0;
  BlockId parent = kNoBlock;         // kNoBlock: it is a first block
  int32_t child_count = kNotStored;  // kNotStored: it is not in the tree
  int32_t depth = 0;                 // blocks before it
  int32_t hit_count = 0;             // requests that found it
  TimeNs created = 0;
  TimeNs last_use = 0;
  int64_t release_tick = 0;  // which release of a block it was that left it without references; 0: none yet
  NodeOwner owner;

  static constexpr int32_t kNotStored = -1;
  [[nodiscard]] bool stored() const { return child_count != kNotStored; }
};
static_assert(sizeof(RadixNode) == 64);

class RadixTree {
 public:
  RadixTree(int32_t block_count, int32_t block_token_count);

  // What a block of tokens is looked up by.
  struct Content {
    PrefixKey key = 0;
    uint64_t salt = 0;
    BlockId parent = kNoBlock;        // kNoBlock: none
    std::span<const TokenId> tokens;  // B tokens
  };

  // The node that holds just this content.   MODIFIES: nothing.   COST: O(B) on a hit.
  [[nodiscard]] std::optional<BlockId> find(const Content& content) const {
    const Place& place = table_[place_of(content)];
    if (place.block == kEmpty) return std::nullopt;
    return static_cast<BlockId>(place.block);
  }

  // Makes `block` the node of this content; false, and nothing is done, when another one is.
  // REQUIRES: the parent is in the tree, `block` is not.
  bool insert(const Content& content, BlockId block, const NodeOwner& owner, TimeNs now);

  // Takes a node out.  REQUIRES: it has no children.
  void remove(BlockId block);

  // `block` will soon be inserted with this key, or removed: what that touches on its way into the CPU's caches.
  void prefetch_insert(BlockId block, PrefixKey key) const {
    __builtin_prefetch(&table_[home(low_of(key))]);
    __builtin_prefetch(&nodes_[index(block)], 1);
    __builtin_prefetch(tokens(block).data(), 1);
  }
  // Removals go up a line of ancestors: two of them are on their way while the one below is worked on.
  void prefetch_remove(BlockId block) const {
    const RadixNode& node = nodes_[index(block)];
    if (node.parent == kNoBlock) return;
    const RadixNode& parent = nodes_[index(node.parent)];
    __builtin_prefetch(&table_[home(low_of(parent.key))], 1);
    if (parent.parent != kNoBlock) prefetch_release(parent.parent);
  }
  // The same before release().
  void prefetch_release(BlockId block) const { __builtin_prefetch(&nodes_[index(block)], 1); }

  void count_hit(BlockId block, int32_t priority, TimeNs now);
  // Its last reference goes.
  void release(BlockId block, TimeNs now, int64_t release_tick) {
    nodes_[index(block)].last_use = now;
    nodes_[index(block)].release_tick = release_tick;
  }

  [[nodiscard]] const RadixNode& node(BlockId block) const { return nodes_[index(block)]; }
  [[nodiscard]] bool contains(BlockId block) const { return nodes_[index(block)].stored(); }
  [[nodiscard]] bool is_leaf(BlockId block) const { return nodes_[index(block)].child_count == 0; }
  [[nodiscard]] std::span<const TokenId> tokens(BlockId block) const {
    const auto width = static_cast<size_t>(block_token_count_);
    return {tokens_.get() + index(block) * width, width};
  }
  [[nodiscard]] int32_t node_count() const { return node_count_; }
  [[nodiscard]] int32_t block_token_count() const { return block_token_count_; }

  // Throws InternalError unless parents, child counts and the hash table agree.   COST: O(blocks).
  void check_invariants() const;

 private:
  static constexpr int32_t kEmpty = -1;
  // A place of the table: with part of the key, so that probing seldom looks at nodes.
  struct Place {
    int32_t block = kEmpty;
    uint32_t key_low = 0;
  };
  [[nodiscard]] static size_t index(BlockId block) { return static_cast<size_t>(block); }
  // Tables have fewer than 2^32 places: the low half of a key decides.
  [[nodiscard]] size_t home(uint32_t key_low) const { return key_low & (table_.size() - 1); }
  [[nodiscard]] static uint32_t low_of(PrefixKey key) { return static_cast<uint32_t>(key); }
  [[nodiscard]] bool holds(BlockId block, const Content& content) const;
  // Where the table names the node of this content, or else the empty place in which it would.
  [[nodiscard]] size_t place_of(const Content& content) const {
    const uint32_t low = low_of(content.key);
    size_t i = home(low);
    for (; table_[i].block != kEmpty; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i].key_low == low && holds(static_cast<BlockId>(table_[i].block), content)) break;
    }
    return i;
  }

  int32_t block_token_count_;
  int32_t node_count_ = 0;
  std::vector<RadixNode> nodes_;       // by block
  std::unique_ptr<TokenId[]> tokens_;  // [N, B]; of stored nodes
  // Open addressing with linear probing over node keys; at most half full, so never allocated again.
  std::vector<Place> table_;
};

inline bool RadixTree::insert(const Content& content, BlockId block, const NodeOwner& owner, TimeNs now) {
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

inline void RadixTree::remove(BlockId block) {
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

}  // namespace inflight
