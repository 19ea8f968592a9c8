// SPDX-License-Identifier: Apache-2.0
// Prefixes that no longer fit the device, in host memory. When a stored block is evicted from the device, it and those
// of its ancestors that are not in the tier yet are copied there; the tier is a radix tree of its own, from the root
// on, with the same exact matching, and gives up its least recently used leaves. What is found there is copied back
// instead of computed again, where the scheduler's latency model says that this is faster.
//
// The bytes move by plans (SwapCopy): what take_copies() gives belongs into the plan that is being made, whose other
// work may reuse the blocks at once. THREAD: the engine thread only.   Source: HiRadixCache (SGLang); here the tier is
// inclusive and filled at eviction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_blocks.h"
#include "core/batch_plan.h"

namespace inflight {

class HostTier final : public TreeObserver {
 public:
  // Holds `block_count` blocks, whose ids in plans begin with `first_block`.   LIFETIME: `device` is borrowed; this is
  // to be one of its observers.
  HostTier(const KvBlocks& device, int32_t block_count, int32_t first_block);

  // Appends to `out` the plan's ids of the blocks that hold the longest prefix in the tier; as KvBlocks::match().
  void match(uint64_t salt, std::span<const PrefixKey> keys, std::span<const TokenId> tokens,
             std::vector<BlockId>& out) const;

  // The plan that is being made reads `blocks`, a match from the root on: they stay until begin_plan().
  void pin(std::span<const BlockId> blocks);
  void begin_plan(TimeNs now, uint64_t step);
  // Appends the copies to the host that evictions have asked for since the last call.
  void take_copies(std::vector<SwapCopy>& out);

  // Forgets everything it holds and the copies that were asked for.   REQUIRES: no plan is being made.
  void clear();

  void on_insert(BlockId /*block*/) override {}
  void on_evict(BlockId block) override;

  [[nodiscard]] const KvBlocks& blocks() const { return host_; }
  // Throws InternalError when an invariant is broken.   COST: O(blocks).
  void check_invariants() const;

 private:
  // Forgets which device block the host's copy is of.
  class CopyWatch final : public TreeObserver {
   public:
    explicit CopyWatch(HostTier& tier) : tier_(tier) {}
    void on_insert(BlockId /*block*/) override {}
    void on_evict(BlockId block) override { tier_.unlink_host(block); }

   private:
    HostTier& tier_;
  };
  void link(BlockId device, BlockId host);
  void unlink_host(BlockId host);
  void unlink_device(BlockId device);
  [[nodiscard]] bool keep(BlockId device, int32_t depth);
  [[nodiscard]] BlockId plan_id(BlockId host) const { return static_cast<BlockId>(to_integer(host) + first_block_); }
  [[nodiscard]] BlockId own_id(BlockId plan) const { return static_cast<BlockId>(to_integer(plan) - first_block_); }

  const KvBlocks& device_;
  int32_t first_block_;
  EvictPolicy lru_;
  CopyWatch watch_;
  KvBlocks host_;
  std::vector<BlockId> host_of_;    // by device block: its copy; kNoBlock: not known
  std::vector<BlockId> device_of_;  // by host block: the stored block that it is a copy of
  std::vector<SwapCopy> copies_;
  std::vector<BlockId> pinned_;
  std::vector<BlockId> path_, table_;  // scratch: a block's path from the root; the same in the tier
};

}  // namespace inflight
