// SPDX-License-Identifier: Apache-2.0
// The adapters in device memory: as many slots as adapters may be used in one step. One that a step needs and no slot
// holds is copied into the slot whose adapter has not been used for longest.
// THREAD: the engine thread only.   ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch_plan.h"
#include "device/buffer.h"
#include "exec/adapter_store.h"

namespace inflight {

class AdapterSlots {
 public:
  // count 0: no request may have an adapter; `store` may be null then.   LIFETIME: `store` is borrowed.
  AdapterSlots(Device& device, const AdapterStore* store, int32_t count);

  // The slot of each entry's adapter, kNone for those without one.   LIFETIME: until the next call.
  // REQUIRES: not more different adapters than slots; there is a lease on each.
  // COST: nothing without adapters; for each that is copied its bytes, and the wait for the steps in flight.
  [[nodiscard]] std::span<const int32_t> place(const BatchPlan& plan);

  [[nodiscard]] const DeviceMemory* memory() const { return slots_.empty() ? nullptr : &memory_.memory(); }

 private:
  [[nodiscard]] int32_t slot_of(uint32_t adapter);

  struct Slot {
    uint32_t adapter = 0;
    uint64_t last_use = 0;
  };
  const AdapterStore* store_;
  std::vector<Slot> slots_;
  Buffer<std::byte> memory_;
  std::vector<int32_t> of_entries_;
  uint64_t uses_ = 0;  // calls of place()
};

}  // namespace inflight
