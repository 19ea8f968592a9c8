// SPDX-License-Identifier: Apache-2.0
// How much of each waiting sequence's prompt is stored, always up to date. Matching 10^4 prompts at every step would
// cost milliseconds; instead every waiting sequence hangs on the tree where its match ends: when the block it wants
// next is published it moves down, when the block it ends at is evicted it moves up. COST: O(1) a change and watcher
// concerned.
//
// Writes Sequence::stored_prefix_block_count and stored_prefix_end; policies that look at prefixes read them.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cache/kv_blocks.h"
#include "sched/sequence.h"

namespace inflight {

class PrefixWatch final : public TreeObserver {
 public:
  // LIFETIME: `blocks` is borrowed.
  explicit PrefixWatch(const KvBlocks& blocks);

  // REQUIRES: the sequence waits; until remove() its keys and tokens may only be appended to, which is not looked at.
  // COST: O(matched blocks).
  void add(Sequence& sequence);
  // Does nothing when the sequence is not watched.
  void remove(Sequence& sequence);
  void clear();

  void on_insert(BlockId block) override;
  void on_evict(BlockId block) override;

  // Throws InternalError unless every watched match is what KvBlocks::match() finds.   COST: O(watched tokens).
  void check_invariants() const;

 private:
  // Links of the two lists that a watched sequence is in; by slot. -1 = none.
  struct Links {
    Sequence* sequence = nullptr;  // null: not watched
    int32_t wanted = 0;            // blocks that could be matched; fixed when it is added
    int32_t next_at_end = -1, previous_at_end = -1;
    int32_t next_wanting = -1, previous_wanting = -1;
  };
  [[nodiscard]] bool wants_more(const Sequence& sequence) const;
  [[nodiscard]] std::optional<BlockId> find_next(const Sequence& sequence) const;
  int32_t& end_head(const Sequence& sequence);
  void link(Sequence& sequence);
  void unlink(Sequence& sequence);
  void advance(Sequence& sequence);

  const KvBlocks& blocks_;
  std::vector<Links> links_;                        // by slot
  std::vector<int32_t> ends_at_block_;              // by block: first slot whose match ends there
  int32_t ends_at_root_ = -1;                       // first slot without a match
  std::unordered_map<PrefixKey, int32_t> wanting_;  // first slot that wants the block of this key next
  std::vector<Sequence*> moving_;                   // scratch
};

}  // namespace inflight
