// SPDX-License-Identifier: Apache-2.0
// The blocks of K and V, and the slots of local layers (memory_plan.h: KvUnits): device buffers, and host memory for
// what was swapped out, where there are no slots. Moves are enqueued, in order with the steps. REQUIRES everywhere:
// block ids are in range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "base/clock.h"
#include "core/batch_plan.h"
#include "device/buffer.h"
#include "device/device.h"
#include "exec/memory_plan.h"

namespace inflight {

class KvStorage {
 public:
  KvStorage(Device& device, const ClExecutorOptions& options);

  // How long the copies between device and host of one plan take.
  class SwapTime {
   public:
    SwapTime() = default;  // of a plan without any: 0
    SwapTime(const Completion& before, const Completion& after)
        : begin_(before.completion_time()), end_(after.completion_time()) {}
    // REQUIRES: the step is done; once.   0 when the driver does not tell in time.
    [[nodiscard]] TimeNs take();

   private:
    std::future<TimeNs> begin_, end_;
  };

  // The plan's swap_out, swap_in and copies, in this order.
  [[nodiscard]] SwapTime move_blocks(const BatchPlan& plan);

  [[nodiscard]] const std::vector<Buffer<std::byte>>& chunks() const { return chunks_; }

 private:
  struct Place {
    DeviceMemory* memory;
    size_t offset;
  };
  [[nodiscard]] Place place(int64_t unit);
  [[nodiscard]] int64_t first_unit(BlockId block) const;
  void copy_units(int64_t from, int64_t to, int64_t count);
  [[nodiscard]] std::span<std::byte> host_block(BlockId block);

  Device& device_;
  size_t unit_bytes_, block_bytes_;
  KvUnits units_;
  int32_t block_count_;
  int32_t host_block_count_;
  int32_t units_a_chunk_;
  std::vector<Buffer<std::byte>> chunks_;
  std::vector<std::vector<std::byte>> host_blocks_;  // each allocated when it is first used
  Completion swapped_out_;                           // of the last block; those before it are done by then
};

}  // namespace inflight
