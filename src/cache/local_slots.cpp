// SPDX-License-Identifier: Apache-2.0
#include "cache/local_slots.h"

#include <utility>

namespace inflight {

LocalSlots::LocalSlots(int32_t block_count, int32_t slot_count)
    : slot_of_(static_cast<size_t>(block_count), kNone), slots_(static_cast<size_t>(slot_count) + 1) {
  slots_.back().previous = slots_.back().next = head();
  free_.reserve(static_cast<size_t>(slot_count));
  for (int32_t i = slot_count; i-- > 0;) free_.push_back(i);
}

void LocalSlots::link(int32_t place) {
  Slot& end = slots_.back();
  slots_[static_cast<size_t>(end.previous)].next = place;
  slots_[static_cast<size_t>(place)].previous = end.previous;
  slots_[static_cast<size_t>(place)].next = head();
  end.previous = place;
}

void LocalSlots::unlink(int32_t place) {
  Slot& slot = slots_[static_cast<size_t>(place)];
  slots_[static_cast<size_t>(slot.previous)].next = slot.next;
  slots_[static_cast<size_t>(slot.next)].previous = slot.previous;
  slot.previous = slot.next = kNone;
}

int32_t LocalSlots::take() {
  if (free_.empty()) {
    const int32_t oldest = slots_.back().next;
    INFLIGHT_CHECK(oldest != head());
    drop(slots_[static_cast<size_t>(oldest)].block);
  }
  const int32_t place = free_.back();
  free_.pop_back();
  return place;
}

void LocalSlots::hold(BlockId block) {
  int32_t& place = slot_of_[index(block)];
  if (place == kNone) {
    place = take();
    slots_[static_cast<size_t>(place)].block = block;
  } else if (slot(block).holders == 0) {
    unlink(place);
  }
  if (++slots_[static_cast<size_t>(place)].holders == 1) ++held_count_;
}

void LocalSlots::let_go(BlockId block, bool keep) {
  const int32_t place = slot_of_[index(block)];
  INFLIGHT_CHECK(place != kNone && slot(block).holders > 0);
  if (--slots_[static_cast<size_t>(place)].holders > 0) return;
  --held_count_;
  link(place);
  if (!keep) drop(block);
}

void LocalSlots::move(BlockId from, BlockId to) {
  INFLIGHT_CHECK(has(from) && !has(to));
  const int32_t place = std::exchange(slot_of_[index(from)], kNone);
  slot_of_[index(to)] = place;
  slots_[static_cast<size_t>(place)].block = to;
}

void LocalSlots::drop(BlockId block) {
  const int32_t place = std::exchange(slot_of_[index(block)], kNone);
  if (place == kNone) return;
  INFLIGHT_CHECK(slots_[static_cast<size_t>(place)].holders == 0);
  unlink(place);
  slots_[static_cast<size_t>(place)].block = kNoBlock;
  free_.push_back(place);
}

void LocalSlots::check_invariants() const {
  int32_t held = 0, named = 0, kept = 0;
  for (int32_t i = 0; i < slot_count(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    held += slot.holders > 0;
    if (slot.block == kNoBlock) continue;
    ++named;
    INFLIGHT_CHECK(slot_of_[index(slot.block)] == i);
  }
  for (const int32_t place : slot_of_) named -= place != kNone;
  for (int32_t i = slots_.back().next; i != head(); i = slots_[static_cast<size_t>(i)].next) {
    INFLIGHT_CHECK(slots_[static_cast<size_t>(i)].holders == 0);
    ++kept;
  }
  INFLIGHT_CHECK(named == 0 && held == held_count_);
  INFLIGHT_CHECK(held + kept + static_cast<int32_t>(free_.size()) == slot_count());
}

}  // namespace inflight
