// SPDX-License-Identifier: Apache-2.0
// The owner of all KV blocks: which are free, and how many block tables refer to each. Knows nothing of contents.
//
// A block is in exactly one state:
//   free        on the free list, no references
//   referenced  references >= 1
//   stored      no references, kept for its contents by the radix tree (hold/drop by KvBlocks)
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace inflight {

class BlockPool {
 public:
  // shuffle_seed: hand the blocks out in a random order, so that tests see scattered block tables; nullopt = ascending.
  BlockPool(int32_t block_count, std::optional<uint64_t> shuffle_seed);

  // Takes a free block with one reference; nullopt when none is free.   COST: O(1), whatever the occupancy.
  [[nodiscard]] std::optional<BlockId> try_take() {
    if (free_.empty()) return std::nullopt;
    const BlockId block = free_.back();
    free_.pop_back();
    references_[index(block)] = 1;
    ++referenced_count_;
    return block;
  }

  // One more reference to a referenced or stored block; returns true when it was the first.
  bool reference(BlockId block) {
    const bool first = ++references_[index(block)] == 1;
    if (first) ++referenced_count_;
    return first;
  }

  // One reference less. Returns true when none is left: the block is then stored until free() or reference().
  [[nodiscard]] bool dereference(BlockId block) {
    INFLIGHT_CHECK(references_[index(block)] > 0);
    const bool last = --references_[index(block)] == 0;
    if (last) --referenced_count_;
    return last;
  }

  // Puts a stored block on the free list.  REQUIRES: no references.
  void free(BlockId block) {
    INFLIGHT_CHECK(references_[index(block)] == 0);
    free_.push_back(block);
  }

  [[nodiscard]] int32_t references(BlockId block) const { return references_[index(block)]; }
  [[nodiscard]] int32_t block_count() const { return static_cast<int32_t>(references_.size()); }
  [[nodiscard]] int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  [[nodiscard]] int32_t referenced_count() const { return referenced_count_; }
  [[nodiscard]] int32_t stored_count() const { return block_count() - free_count() - referenced_count_; }

  // Throws InternalError unless states and counts agree.   COST: O(blocks), for tests and idle times.
  void check_invariants() const;

 private:
  [[nodiscard]] static size_t index(BlockId block) { return static_cast<size_t>(block); }

  std::vector<int32_t> references_;
  std::vector<BlockId> free_;  // a stack: the block freed last is likely still in the CPU's caches
  int32_t referenced_count_ = 0;
};

}  // namespace inflight
