// SPDX-License-Identifier: Apache-2.0
// The stored blocks that may be evicted now, by rank, with lazy deletion: an entry is valid while the block's stamp is
// the one it was queued with. Entries that come in rising order (least recently used) stand in a line, and so does one
// that goes before all of them (the parent of who has just left) when there is a free place before the first; the
// others stand in a binary heap. The next victim is the smaller of the two fronts.
//
// THREAD: the engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/evict_policy.h"

namespace inflight {

class EvictionQueue {
 public:
  explicit EvictionQueue(int32_t block_count);

  // REQUIRES: the block is not queued.   COST: O(1) in rising order, else O(log candidates).
  void push(BlockId block, EvictKey key, int64_t release_tick);
  // The block is a candidate no more; does nothing when it is none.   COST: O(1).
  void withdraw(BlockId block) {
    if (!contains(block)) return;
    ++stamps_[static_cast<size_t>(block)];
    --count_;
  }
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
  // Whether `a` goes after `b`; std heaps keep the largest on top.
  static constexpr auto kLater = [](const auto& a, const auto& b) {
    return std::tie(a.key.key0, a.key.key1, a.release_tick) > std::tie(b.key.key0, b.key.key1, b.release_tick);
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

inline void EvictionQueue::push(BlockId block, EvictKey key, int64_t release_tick) {
  const auto i = static_cast<size_t>(block);
  INFLIGHT_CHECK(!contains(block));
  // Keeps the reserved sizes: never allocates.
  if (std::max(heap_.size(), line_.size()) >= 2 * stamps_.size()) drop_stale();
  ++count_;
  const Entry entry{key, release_tick, block, ++stamps_[i]};
  if (line_.empty() || kLater(entry, line_.back())) {
    constexpr size_t kWorthwhile = 64;
    if (line_begin_ > std::max(line_.size() / 2, kWorthwhile)) close_up();  // what is used stays in the CPU's caches
    line_.push_back(entry);
  } else if (line_begin_ > 0 && (line_begin_ == line_.size() || kLater(line_[line_begin_], entry))) {
    line_[--line_begin_] = entry;
  } else {
    heap_.push_back(entry);
    std::ranges::push_heap(heap_, kLater);
  }
}

inline std::optional<BlockId> EvictionQueue::try_pop() {
  for (;;) {
    const bool in_line = line_begin_ < line_.size();
    if (!in_line) {
      line_.clear();
      line_begin_ = 0;
      if (heap_.empty()) return std::nullopt;
    }
    Entry entry;
    if (in_line && (heap_.empty() || kLater(heap_.front(), line_[line_begin_]))) {
      entry = line_[line_begin_++];
    } else {
      std::ranges::pop_heap(heap_, kLater);
      entry = heap_.back();
      heap_.pop_back();
    }
    if (!valid(entry)) continue;
    withdraw(entry.block);
    return entry.block;
  }
}

}  // namespace inflight
