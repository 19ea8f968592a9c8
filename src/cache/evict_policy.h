// SPDX-License-Identifier: Apache-2.0
// Which stored block goes first when blocks run out. A strategy ranks; KvBlocks owns the blocks and decides what may go
// at all (never a referenced block, never one with stored children). The base class is the built-in strategy: least
// recently used. plugin_host adapts loaded strategies to this interface.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace inflight {

struct EvictKey {
  int64_t key0 = 0;
  int64_t key1 = 0;
};

// Learns which blocks can be found; see KvBlocks::add_observer().
class TreeObserver {
 public:
  TreeObserver() = default;
  TreeObserver(const TreeObserver&) = delete;
  TreeObserver& operator=(const TreeObserver&) = delete;
  virtual ~TreeObserver() = default;
  virtual void on_insert(BlockId block) = 0;
  virtual void on_evict(BlockId block) = 0;  // its node still names parent and key
};

class EvictPolicy {
 public:
  EvictPolicy() = default;
  EvictPolicy(const EvictPolicy&) = delete;
  EvictPolicy& operator=(const EvictPolicy&) = delete;
  virtual ~EvictPolicy() = default;

  // When what follows happens, and in which step; the same step may come many times.
  virtual void set_time(TimeNs /*now*/, uint64_t /*step*/) {}

  // What happened to stored blocks, in order; blocks of one call are given from the root towards the leaf.
  virtual void on_insert(std::span<const BlockId> /*blocks*/) {}   // can be found from now on
  virtual void on_hit(std::span<const BlockId> /*blocks*/) {}      // a request found them
  virtual void on_pin(std::span<const BlockId> /*blocks*/) {}      // references 0 -> 1
  virtual void on_release(std::span<const BlockId> /*blocks*/) {}  // references 1 -> 0
  virtual void on_evict(BlockId /*block*/) {}                      // gone, whoever decided it

  // True: the strategy keeps its own order and is asked with pick(). False: it gives keys with rank().
  [[nodiscard]] virtual bool keeps_order() const { return false; }

  // rank() gives keys of the strategy's own. When that changes, every evictable block is ranked again.
  [[nodiscard]] virtual bool ranks() const { return false; }

  // The keys of a block that has become evictable; the smallest (key0, key1) goes first, ties by time of release.
  // `release_tick` counts releases, so returning it is LRU.
  [[nodiscard]] virtual EvictKey rank(BlockId /*block*/, int64_t release_tick) { return {release_tick, 0}; }

  // Appends blocks to `out`, first to go first, about `need` of them; none when it knows none.
  virtual void pick(int32_t /*need*/, std::vector<BlockId>& /*out*/) {}
};

}  // namespace inflight
