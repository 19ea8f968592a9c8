// SPDX-License-Identifier: Apache-2.0
#include "sched/waiting_list.h"

#include <tuple>

#include "base/error.h"

namespace inflight {
namespace {

bool goes_before(const Sequence* a, const Sequence* b) {
  return std::tie(a->waiting_key.key0, a->waiting_key.key1, a->request.id) <
         std::tie(b->waiting_key.key0, b->waiting_key.key1, b->request.id);
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

void WaitingList::push(Sequence* sequence) {
  heap_.push_back(sequence);
  sift_up(heap_.size() - 1);
}

void WaitingList::remove(Sequence* sequence) {
  const auto index = static_cast<size_t>(sequence->waiting_index);
  INFLIGHT_CHECK(index < heap_.size() && heap_[index] == sequence);
  Sequence* const last = heap_.back();
  heap_.pop_back();
  if (last == sequence) return;
  place(index, last);
  sift_up(index);
  sift_down(static_cast<size_t>(last->waiting_index));
}

Sequence* WaitingList::pop() {
  Sequence* const first = heap_.front();
  remove(first);
  return first;
}

void WaitingList::rebuild() {
  for (size_t i = 0; i < heap_.size(); ++i) place(i, heap_[i]);
  for (size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
}

}  // namespace inflight
