// SPDX-License-Identifier: Apache-2.0
// All that happens to KV blocks: taking, sharing, storing, evicting. Joins the pool (who refers to a block), the radix
// tree (what it holds) and the eviction strategy (which stored one goes first).
//
// A sequence's block table, by half-open ranges of its blocks:
//   [0, published)       in the tree: shared with whoever has the same prefix; referenced, so never evicted
//   [published, size)    the sequence's own: still being filled, or full of tokens that the host does not know yet
// Its first blocks may be kNoBlock: behind a sliding window. Then all published ones are, so that the invariant holds.
// Freeing a sequence drops its references: published blocks become stored, the others free.
// With local slots (cache/local_slots.h) a sequence holds those of the blocks that its local layers read or write.
//
// Invariant: a stored block's descendants have no references (a table refers to every ancestor of its blocks), so every
// stored block can be evicted, leaves first.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/block_pool.h"
#include "cache/evict_policy.h"
#include "cache/eviction_queue.h"
#include "cache/local_slots.h"
#include "cache/radix_tree.h"
#include "core/attended_tokens.h"

namespace inflight {

class KvBlocks {
 public:
  struct Options {
    int32_t block_count = 0;
    int32_t block_token_count = 16;
    bool prefix_caching = true;
    int32_t local_window = 0;                             // ModelSpec's
    int32_t local_slots = 0;                              // 0: K and V of all layers lie in the blocks
    std::optional<uint64_t> shuffle_seed = std::nullopt;  // see BlockPool
  };
  // `policy` is borrowed and must outlive this object or be replaced with set_policy().
  KvBlocks(const Options& options, EvictPolicy& policy);

  // When what follows happens, and in which step of the scheduler (between two: the one before).
  void set_time(TimeNs now, uint64_t step);

  // Appends to `out` the blocks that hold the longest stored prefix of `tokens`, whole blocks only; keys[i] is the
  // PrefixKey of block i. At most keys.size() blocks.   MODIFIES: nothing but `out`.   COST: O(matched tokens).
  void match(uint64_t salt, std::span<const PrefixKey> keys, std::span<const TokenId> tokens,
             std::vector<BlockId>& out) const;

  // A request found the `blocks` of a match (from the root on): they are at least as important as it is. It is told
  // once, before share().
  void note_hits(std::span<const BlockId> blocks, int32_t priority);
  // A sequence uses the stored or referenced `blocks` of a match (from the root on) from now on; without prefix
  // caching, blocks that another sequence refers to. MODIFIES: references.
  void share(std::span<const BlockId> blocks);

  // Appends `count` blocks to `table`, evicting stored ones if need be; on false nothing changed.
  // REQUIRES: count >= 0.
  [[nodiscard]] bool try_extend(std::vector<BlockId>& table, int32_t count);

  // One full block of a sequence's table, with what it holds.
  struct FullBlock {
    int32_t index = 0;  // in the table
    RadixTree::Content content;
    NodeOwner owner;
  };
  // Makes table[full.index] findable; false when another block holds the same content already.
  // REQUIRES: the blocks before it are published, the last of them is its parent; its K and V are computed by a step
  // that is submitted before any step that uses them, or is the same.
  [[nodiscard]] bool try_publish(std::span<const BlockId> table, const FullBlock& full);

  // try_publish() of `block` under this key comes soon.
  void prefetch_publish(BlockId block, PrefixKey key) const { tree_.prefetch_insert(block, key); }

  // Puts the block that already holds the same content in the place of table[full.index], which goes back to the pool:
  // the bits are the same, by the determinism contract.
  // holds_slot: the sequence holds the old block's local slot, and from now on that of the other one.
  // REQUIRES: try_publish() gave false; no plan that was not submitted yet refers to the old block.
  void adopt_twin(std::vector<BlockId>& table, const FullBlock& full, bool holds_slot);

  // Drops one reference of every block and empties the table.
  void release(std::vector<BlockId>& table);
  // Drops one reference of each of table[first, end), which become kNoBlock: what comes later will not read them.
  // REQUIRES: of the published blocks all or none are in the range or were released before.
  void release_passed(std::vector<BlockId>& table, int32_t first, int32_t end);

  [[nodiscard]] bool has_local_slots() const { return options_.local_slots > 0; }
  [[nodiscard]] int32_t local_window() const { return options_.local_window; }
  // The first block of a sequence that its local layers read for the token behind `computed` ones.
  [[nodiscard]] int32_t first_local_block(int32_t computed) const {
    return first_attended(computed, options_.local_window) / options_.block_token_count;
  }
  // A sequence holds the slots of table[first, end) from now on, and no longer: what was computed in the local layers
  // is kept for who finds the block, if it is in the tree.
  // REQUIRES: has_local_slots(); of the first, that there are slots (SchedulerConfig::local_slots_needed()).
  void hold_slots(std::span<const BlockId> table, int32_t first, int32_t end);
  void let_go_of_slots(std::span<const BlockId> table, int32_t first, int32_t end);
  // With the first so many of `blocks` (a match, from the root on) a sequence can begin: the last of these, as far as
  // the window reaches back, have their slots.   COST: O(blocks).
  [[nodiscard]] size_t usable_count(std::span<const BlockId> blocks) const;

  // Blocks that can be had: free ones and stored ones.
  [[nodiscard]] int32_t available_count() const { return pool_.free_count() + pool_.stored_count(); }
  // Of `blocks`, those that share() would make unavailable.
  [[nodiscard]] int32_t stored_among(std::span<const BlockId> blocks) const;
  // Blocks that would come back if `table` were released.
  [[nodiscard]] int32_t freeable_count(std::span<const BlockId> table) const;

  // Who is told, from now until it is removed, of every block that can be found and of every one that no longer can.
  // LIFETIME: borrowed.
  void add_observer(TreeObserver& observer) { observers_.push_back(&observer); }
  void remove_observer(TreeObserver& observer) { std::erase(observers_, &observer); }

  // Evicts every stored block.
  void clear_stored();
  // Another strategy from now on; it learns of all that can be found in the order in which it came, then of what is
  // stored in the order in which it was released.
  void set_policy(EvictPolicy& policy);
  // The same to one that has heard of every stored block already.
  void hand_policy_to(EvictPolicy& policy);

  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  [[nodiscard]] const RadixTree& tree() const { return tree_; }
  [[nodiscard]] const LocalSlots& local_slots() const { return local_slots_; }
  [[nodiscard]] bool prefix_caching() const { return options_.prefix_caching; }
  [[nodiscard]] int32_t block_token_count() const { return options_.block_token_count; }
  [[nodiscard]] int64_t evicted_total() const { return evicted_total_; }

  // Throws InternalError unless pool, tree, queue and slots agree.   COST: O(blocks).
  void check_invariants() const;

 private:
  [[nodiscard]] bool try_evict_one();
  [[nodiscard]] std::optional<BlockId> next_victim();
  void evict(BlockId block);
  void enqueue_if_evictable(BlockId block);
  void drop_references(std::span<const BlockId> blocks);

  Options options_;
  EvictPolicy* policy_;
  bool ranked_;  // the keys in the queue are the strategy's own
  std::vector<TreeObserver*> observers_;
  BlockPool pool_;
  RadixTree tree_;
  EvictionQueue queue_;
  LocalSlots local_slots_;
  TimeNs now_ = 0;
  uint64_t step_ = 0;
  int64_t tick_ = 0;  // counts the releases of blocks
  int64_t evicted_total_ = 0;
  std::vector<BlockId> scratch_;  // blocks of one notification
  std::vector<BlockId> picked_;   // what an ordered strategy named in this step and is not used up; in reverse
};

inline bool KvBlocks::try_publish(std::span<const BlockId> table, const FullBlock& full) {
  const BlockId inserted[] = {table[static_cast<size_t>(full.index)]};
  if (!tree_.insert(full.content, inserted[0], full.owner, now_)) return false;
  policy_->on_insert(inserted);
  for (TreeObserver* const observer : observers_) observer->on_insert(inserted[0]);
  return true;
}

}  // namespace inflight
