// SPDX-License-Identifier: Apache-2.0
// The sequences that wait, in the policy's order: a binary heap over (key0, key1, request id, choice) with each
// sequence knowing its place, so that any one can leave in O(log n). As long as they come and go in order (first come,
// first served) the heap is a line, and its first leaves in O(1). THREAD: the engine thread only.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sched/sequence.h"

namespace inflight {

class WaitingList {
 public:
  // Orders by sequence->waiting_key as it is now.   COST: O(1) in order, else O(log n).
  void push(Sequence* sequence);
  // REQUIRES: the sequence is in the list.   COST: O(log n).
  void remove(Sequence* sequence);
  // REQUIRES: not empty.   COST: O(1) in a line, else O(log n).
  Sequence* pop();
  // Restores the order after keys were changed in place.   COST: O(n).
  void rebuild();

  [[nodiscard]] bool empty() const { return heap_.size() == begin_; }
  [[nodiscard]] int32_t count() const { return static_cast<int32_t>(heap_.size() - begin_); }
  // In no particular order; element 0 is the first to go.
  [[nodiscard]] std::span<Sequence* const> sequences() const { return std::span(heap_).subspan(begin_); }

 private:
  void close_up();
  void leave_line();
  // What the order is made of, copied so that comparing touches no sequence.
  struct Rank {
    int64_t key0;
    int64_t key1;
    uint64_t request;
    int32_t choice;
    auto operator<=>(const Rank&) const = default;
  };
  [[nodiscard]] static Rank rank_of(const Sequence& sequence);
  void place(size_t index, Sequence* sequence, const Rank& rank);
  void sift_up(size_t index);
  void sift_down(size_t index);

  std::vector<Sequence*> heap_;  // a heap when begin_ is 0; in a line all of [begin_, size) is in order
  std::vector<Rank> ranks_;      // of heap_
  size_t begin_ = 0;
  bool in_line_ = true;
};

}  // namespace inflight
