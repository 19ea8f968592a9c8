// SPDX-License-Identifier: Apache-2.0
// States of models whose sequences have one besides K and V (ModelSpec::has_state()): what is kept of them for later
// requests. K and V of a prefix can be had up to any block; its state only behind the blocks at which somebody left it.
// A place holds one state; which block of the radix tree it belongs to, is known here. When the block is evicted, the
// place is free; when places run out, the one that was used the longest time ago is.
// THREAD: the engine thread only.   Source: Pan et al. 2025 (Marconi), which keeps states where prefixes part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "cache/evict_policy.h"

namespace inflight {

class KeptStates final : public TreeObserver {
 public:
  KeptStates(int32_t block_count, int32_t place_count);

  struct Found {
    int32_t block_count = 0;
    int32_t place = -1;  // -1: none
  };
  // The longest prefix that ends with one of `blocks` (a match, from the root on) and whose state a step before `step`
  // has left.
  [[nodiscard]] Found find(std::span<const BlockId> blocks, uint64_t step) const;
  // `step` begins with the state of the place, which nobody else gets before.
  void use(int32_t place, uint64_t step) { places_[static_cast<size_t>(place)].used = step; }

  // A place in which `step` leaves a state; none: it uses them all.
  [[nodiscard]] std::optional<int32_t> take(uint64_t step);
  // The same, rather than any other the place of the state behind `block`, which is given up for it.
  [[nodiscard]] std::optional<int32_t> take_that_of(BlockId block, uint64_t step);
  // The state in a place that was taken is the one behind `block`, which is in the tree. If that has one already, the
  // place is free again.
  void keep(int32_t place, BlockId block);
  // Nobody keeps what was to be left there.
  void give_back(int32_t place) { free_.push_back(place); }

  void on_insert(BlockId /*block*/) override {}
  void on_evict(BlockId block) override;

  // COST: O(places), these two.
  [[nodiscard]] int32_t kept_count() const;
  // Places that were taken and are neither kept nor given back.
  [[nodiscard]] int32_t taken_count() const {
    return static_cast<int32_t>(places_.size() - free_.size()) - kept_count();
  }
  // Throws InternalError unless blocks and places agree.   COST: O(blocks).
  void check_invariants() const;

 private:
  struct Place {
    BlockId block = kNoBlock;  // whose state it holds
    uint64_t left = 0;         // the step that left it
    uint64_t used = 0;         // the last one that left it or begins with it
  };
  std::vector<Place> places_;
  std::vector<int32_t> free_;
  std::vector<int32_t> place_of_;  // of each block; -1: none
};

}  // namespace inflight
