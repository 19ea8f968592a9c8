// SPDX-License-Identifier: Apache-2.0
// The stored blocks that may be evicted now, by rank, with lazy deletion: an entry is valid while the block's stamp is
// the one it was queued with. Entries that come in rising order (least recently used) stand in a line, the others in a
// binary heap; the next victim is the smaller of the two fronts.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "cache/evict_policy.h"

namespace inflight {

class EvictionQueue {
 public:
  explicit EvictionQueue(int32_t block_count);

  // REQUIRES: the block is not queued.   COST: O(1) in rising order, else O(log candidates).
  void push(BlockId block, EvictKey key, int64_t release_tick);
  // The block is a candidate no more; does nothing when it is none.   COST: O(1).
  void withdraw(BlockId block);
  // Takes out the candidate with the smallest (key0, key1, release_tick).   COST: as push(), amortised.
  [[nodiscard]] std::optional<BlockId> try_pop();

  [[nodiscard]] bool contains(BlockId block) const { return stamps_[static_cast<size_t>(block)] % 2 != 0; }
  [[nodiscard]] int32_t count() const { return count_; }

 private:
  struct Entry {
    EvictKey key;
    int64_t release_tick;
    BlockId block;
    uint32_t stamp;
  };
  [[nodiscard]] bool valid(const Entry& entry) const {
    return stamps_[static_cast<size_t>(entry.block)] == entry.stamp;
  }
  void close_up();
  void drop_stale();

  std::vector<Entry> line_;  // rising from line_begin_ on
  size_t line_begin_ = 0;
  std::vector<Entry> heap_;
  std::vector<uint32_t> stamps_;  // by block: counts how often it came and went; odd = queued
  int32_t count_ = 0;
};

}  // namespace inflight
