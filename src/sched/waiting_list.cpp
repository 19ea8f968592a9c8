// SPDX-License-Identifier: Apache-2.0
#include "sched/waiting_list.h"

#include "base/error.h"

namespace inflight {

WaitingList::Rank WaitingList::rank_of(const Sequence& sequence) {
  return {sequence.waiting_key.key0, sequence.waiting_key.key1, to_integer(sequence.request.id), sequence.choice};
}

void WaitingList::place(size_t index, Sequence* sequence, const Rank& rank) {
  heap_[index] = sequence;
  ranks_[index] = rank;
  sequence->waiting_index = static_cast<int32_t>(index);
}

void WaitingList::sift_up(size_t index) {
  Sequence* const moving = heap_[index];
  const Rank rank = ranks_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (rank >= ranks_[parent]) break;
    place(index, heap_[parent], ranks_[parent]);
    index = parent;
  }
  place(index, moving, rank);
}

void WaitingList::sift_down(size_t index) {
  Sequence* const moving = heap_[index];
  const Rank rank = ranks_[index];
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && ranks_[child + 1] < ranks_[child]) ++child;
    if (ranks_[child] >= rank) break;
    place(index, heap_[child], ranks_[child]);
    index = child;
  }
  place(index, moving, rank);
}

// Forgets the places of those that have left the line.   COST: O(n).
void WaitingList::close_up() {
  if (begin_ == 0) return;
  heap_.erase(heap_.begin(), heap_.begin() + static_cast<std::ptrdiff_t>(begin_));
  ranks_.erase(ranks_.begin(), ranks_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  for (size_t i = 0; i < heap_.size(); ++i) heap_[i]->waiting_index = static_cast<int32_t>(i);
}

// The line becomes a heap, which it is.
void WaitingList::leave_line() {
  in_line_ = false;
  close_up();
}

void WaitingList::push(Sequence* sequence) {
  if (heap_.size() == heap_.capacity() && begin_ > heap_.size() / 2) close_up();  // instead of growing
  if (empty()) {
    heap_.clear();
    ranks_.clear();
    begin_ = 0;
    in_line_ = true;
  }
  const Rank rank = rank_of(*sequence);
  if (in_line_ && begin_ > 0 && rank < ranks_[begin_]) {  // back to the front, after a refusal
    place(--begin_, sequence, rank);
    return;
  }
  if (in_line_ && !empty() && rank < ranks_.back()) leave_line();
  heap_.push_back(sequence);
  ranks_.push_back(rank);
  if (in_line_) {
    sequence->waiting_index = static_cast<int32_t>(heap_.size()) - 1;
  } else {
    sift_up(heap_.size() - 1);
  }
}

void WaitingList::remove(Sequence* sequence) {
  const auto given = static_cast<size_t>(sequence->waiting_index);
  INFLIGHT_CHECK(given >= begin_ && given < heap_.size() && heap_[given] == sequence);
  if (in_line_ && given == begin_) {
    ++begin_;
    return;
  }
  if (in_line_) leave_line();
  const auto index = static_cast<size_t>(sequence->waiting_index);
  Sequence* const last = heap_.back();
  const Rank rank = ranks_.back();
  heap_.pop_back();
  ranks_.pop_back();
  if (last == sequence) return;
  place(index, last, rank);
  sift_up(index);
  sift_down(static_cast<size_t>(last->waiting_index));
}

Sequence* WaitingList::pop() {
  Sequence* const first = heap_[begin_];
  remove(first);
  return first;
}

void WaitingList::rebuild() {
  leave_line();
  for (size_t i = 0; i < heap_.size(); ++i) place(i, heap_[i], rank_of(*heap_[i]));
  for (size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
}

}  // namespace inflight
