// SPDX-License-Identifier: Apache-2.0
// Where K and V of a block lie in the layers that see the last tokens only (ModelSpec::local_window). These layers need
// them while the window of some sequence reaches into the block, so they lie in a slot that the block has for that
// time, and there are fewer slots than blocks.
//
// A slot is in exactly one state:
//   free
//   held   by one sequence or several, whose window reaches into its block or soon will
//   kept   by none, for who finds the block's prefix later. The one that was held the longest time ago goes first.
// THREAD: the engine thread only.   Sources: SGLang's pool for sliding-window layers beside that for full attention,
// vLLM's hybrid KV cache manager.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace inflight {

class LocalSlots {
 public:
  static constexpr int32_t kNone = -1;

  // slot_count 0: no block has one.
  LocalSlots(int32_t block_count, int32_t slot_count);

  [[nodiscard]] bool has(BlockId block) const { return slot_of_[index(block)] != kNone; }
  // The slot of each block, or kNone.
  [[nodiscard]] std::span<const int32_t> by_block() const { return slot_of_; }

  // One sequence more holds the block's slot, which it gets if it has none.
  // REQUIRES: then, a slot that is not held.
  void hold(BlockId block);
  // One sequence less. The last one leaves the slot kept, or free.
  void let_go(BlockId block, bool keep);
  // `to`, which has none, gets the slot of `from` with all who hold it: the same K and V.
  void move(BlockId from, BlockId to);
  // What the block holds is gone.   REQUIRES: nobody holds its slot, if it has one.
  void drop(BlockId block);

  [[nodiscard]] int32_t slot_count() const { return static_cast<int32_t>(slots_.size()) - 1; }
  [[nodiscard]] int32_t held_count() const { return held_count_; }
  [[nodiscard]] int32_t holders(BlockId block) const { return has(block) ? slot(block).holders : 0; }

  // Throws InternalError unless blocks, slots and lists agree.   COST: O(blocks).
  void check_invariants() const;

 private:
  // Kept slots stand in a ring, from the one that goes first on; its head is behind the slots.
  struct Slot {
    BlockId block = kNoBlock;
    int32_t holders = 0;
    int32_t previous = kNone, next = kNone;
  };
  [[nodiscard]] static size_t index(BlockId block) { return static_cast<size_t>(block); }
  [[nodiscard]] const Slot& slot(BlockId block) const { return slots_[static_cast<size_t>(slot_of_[index(block)])]; }
  [[nodiscard]] int32_t head() const { return slot_count(); }
  [[nodiscard]] int32_t take();
  void link(int32_t place);    // as the last one
  void unlink(int32_t place);  // REQUIRES: it is kept

  std::vector<int32_t> slot_of_;  // by block
  std::vector<Slot> slots_;
  std::vector<int32_t> free_;
  int32_t held_count_ = 0;
};

}  // namespace inflight
