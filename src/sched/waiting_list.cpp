// SPDX-License-Identifier: Apache-2.0
#include "sched/waiting_list.h"

#include <tuple>

#include "base/error.h"

namespace inflight {
namespace {

bool goes_before(const Sequence* a, const Sequence* b) {
  return std::tie(a->waiting_key.key0, a->waiting_key.key1, a->request.id, a->choice) <
         std::tie(b->waiting_key.key0, b->waiting_key.key1, b->request.id, b->choice);
}

}  // namespace

void WaitingList::place(size_t index, Sequence* sequence) {
  heap_[index] = sequence;
  sequence->waiting_index = static_cast<int32_t>(index);
}

void WaitingList::sift_up(size_t index) {
  Sequence* const moving = heap_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (!goes_before(moving, heap_[parent])) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, moving);
}

void WaitingList::sift_down(size_t index) {
  Sequence* const moving = heap_[index];
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && goes_before(heap_[child + 1], heap_[child])) ++child;
    if (!goes_before(heap_[child], moving)) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, moving);
}

// Forgets the places of those that have left the line.   COST: O(n).
void WaitingList::close_up() {
  if (begin_ == 0) return;
  heap_.erase(heap_.begin(), heap_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  for (size_t i = 0; i < heap_.size(); ++i) place(i, heap_[i]);
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
    begin_ = 0;
    in_line_ = true;
  }
  if (in_line_ && begin_ > 0 && goes_before(sequence, heap_[begin_])) {  // back to the front, after a refusal
    place(--begin_, sequence);
    return;
  }
  if (in_line_ && !empty() && goes_before(sequence, heap_.back())) leave_line();
  heap_.push_back(sequence);
  if (in_line_) {
    place(heap_.size() - 1, sequence);
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
  heap_.pop_back();
  if (last == sequence) return;
  place(index, last);
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
  for (size_t i = 0; i < heap_.size(); ++i) place(i, heap_[i]);
  for (size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
}

}  // namespace inflight
