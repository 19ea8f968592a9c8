// SPDX-License-Identifier: Apache-2.0
#include "exec/kv_storage.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace inflight {

KvStorage::KvStorage(Device& device, const ClExecutorOptions& options)
    : device_(device),
      unit_bytes_(options.kv.bytes_per_unit()),
      block_bytes_(options.kv.bytes_per_block()),
      units_(kv_units(options)),
      block_count_(options.kv_block_count),
      host_block_count_(options.host_block_count),
      units_a_chunk_(inflight::units_a_chunk(device.info(), options.kv)),
      host_blocks_(static_cast<size_t>(options.host_block_count)) {
  size_t to_populate = options.populate_bytes;
  for (int64_t first = 0; first < units_.count; first += units_a_chunk_) {
    const auto count = static_cast<size_t>(std::min<int64_t>(units_a_chunk_, units_.count - first));
    DeviceMemory& chunk = chunks_.emplace_back(device, "KV blocks", count * unit_bytes_).memory();
    chunk.populate(to_populate);
    to_populate -= std::min(to_populate, chunk.bytes());
  }
}

KvStorage::Place KvStorage::place(int64_t unit) {
  INFLIGHT_CHECK(unit >= 0 && unit < units_.count);
  return {.memory = &chunks_[static_cast<size_t>(unit / units_a_chunk_)].memory(),
          .offset = static_cast<size_t>(unit % units_a_chunk_) * unit_bytes_};
}

// A block's units are in one chunk.
int64_t KvStorage::first_unit(BlockId block) const {
  const int32_t index = to_integer(block);
  INFLIGHT_CHECK(index >= 0 && index < block_count_);
  return units_.first_block + int64_t{index} * units_.in_block;
}

// Those of a slot may lie in two chunks.
void KvStorage::copy_units(int64_t first_from, int64_t first_to, int64_t count) {
  while (count > 0) {
    const auto in_chunk = [&](int64_t unit) { return units_a_chunk_ - unit % units_a_chunk_; };
    const int64_t together = std::min({count, in_chunk(first_from), in_chunk(first_to)});
    const Place from = place(first_from), to = place(first_to);
    to.memory->copy_from(*from.memory, from.offset, to.offset, static_cast<size_t>(together) * unit_bytes_);
    first_from += together;
    first_to += together;
    count -= together;
  }
}

std::span<std::byte> KvStorage::host_block(BlockId block) {
  const int32_t index = to_integer(block);
  INFLIGHT_CHECK(index >= 0 && index < host_block_count_);
  std::vector<std::byte>& bytes = host_blocks_[static_cast<size_t>(index)];
  bytes.resize(block_bytes_);
  return bytes;
}

TimeNs KvStorage::SwapTime::take() {
  // The callbacks may run a little after the step's end; a driver that forgets one costs no more than this.
  constexpr std::chrono::milliseconds kPatience{100};
  if (!begin_.valid() || begin_.wait_for(kPatience) != std::future_status::ready ||
      end_.wait_for(kPatience) != std::future_status::ready) {
    return 0;
  }
  return std::max<TimeNs>(end_.get() - begin_.get(), 0);
}

KvStorage::SwapTime KvStorage::move_blocks(const BatchPlan& plan) {
  const bool swaps = !plan.swap_out.empty() || !plan.swap_in.empty();
  const Completion before = swaps ? device_.marker() : Completion();
  for (const SwapCopy& copy : plan.swap_out) {
    const Place from = place(first_unit(copy.device));
    swapped_out_ = from.memory->read_async(from.offset, host_block(copy.host));
  }
  // A driver for a device with memory of its own may take what is to be written when that is enqueued (NVIDIA's does):
  // it has to be there by then.
  if (!plan.swap_in.empty() && swapped_out_.valid() && !device_.info().host_memory) {
    swapped_out_.wait();
    swapped_out_ = Completion();
  }
  for (const SwapCopy& copy : plan.swap_in) {
    const Place to = place(first_unit(copy.device));
    to.memory->write_async(to.offset, host_block(copy.host));
  }
  SwapTime time = swaps ? SwapTime(before, device_.marker()) : SwapTime();
  for (const BlockCopy& copy : plan.copies) {
    copy_units(first_unit(copy.from), first_unit(copy.to), units_.in_block);
    if (units_.in_slot == 0) continue;
    const auto slot_unit = [&](BlockId block) {
      return int64_t{plan.local_slots[static_cast<size_t>(block)]} * units_.in_slot;
    };
    copy_units(slot_unit(copy.from), slot_unit(copy.to), units_.in_slot);
  }
  return time;
}

}  // namespace inflight
