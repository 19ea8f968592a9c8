// SPDX-License-Identifier: Apache-2.0
// Which two symbols may be joined, to what, and how early: a hash table with open addressing, since BPE does little
// else than look pairs up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace inflight {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank = UINT32_MAX;  // lower first; UINT32_MAX: the two cannot be joined
    int32_t joined = -1;         // symbol
  };

  // For at most `count` merges.
  explicit MergeTable(size_t count = 0);

  // The first merge given for a pair holds.  REQUIRES: left, right >= 0; room as promised.
  void insert(int32_t left, int32_t right, Merge merge);
  [[nodiscard]] Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;  // left, right; UINT64_MAX: empty
    Merge merge;
  };
  // The slot that holds `pair`, or the empty one where it belongs.
  [[nodiscard]] size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half of them used
};

}  // namespace inflight
