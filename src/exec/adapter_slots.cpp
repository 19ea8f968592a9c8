// SPDX-License-Identifier: Apache-2.0
#include "exec/adapter_slots.h"

#include <algorithm>

#include "base/error.h"
#include "ops/stage.h"

namespace inflight {

AdapterSlots::AdapterSlots(Device& device, const AdapterStore* store, int32_t count)
    : store_(store), slots_(static_cast<size_t>(count)) {
  if (count > 0) memory_ = Buffer<std::byte>(device, "adapters", slots_.size() * store_->slot_bytes());
}

int32_t AdapterSlots::slot_of(uint32_t adapter) {
  auto slot = std::ranges::find(slots_, adapter, &Slot::adapter);
  if (slot == slots_.end()) {
    slot = std::ranges::min_element(slots_, {}, &Slot::last_use);
    INFLIGHT_CHECK(slot != slots_.end() && slot->last_use != uses_);
    memory_.write(store_->find(adapter).bytes, static_cast<size_t>(slot - slots_.begin()) * store_->slot_bytes());
    slot->adapter = adapter;
  }
  slot->last_use = uses_;
  return static_cast<int32_t>(slot - slots_.begin());
}

std::span<const int32_t> AdapterSlots::place(const BatchPlan& plan) {
  ++uses_;
  of_entries_.assign(plan.entries.size(), kNone);
  // Those that are there first, so that none of them gives way to another one of this step.
  for (const BatchEntry& entry : plan.entries) {
    const auto slot = std::ranges::find(slots_, entry.adapter, &Slot::adapter);
    if (entry.adapter != 0 && slot != slots_.end()) slot->last_use = uses_;
  }
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    if (plan.entries[i].adapter != 0) of_entries_[i] = slot_of(plan.entries[i].adapter);
  }
  return of_entries_;
}

}  // namespace inflight
