// SPDX-License-Identifier: Apache-2.0
// Copies of blocks and slots: each unit goes to its place, also where a slot's lie in two buffers.
// Covers: exec/kv_storage.cpp
#include "exec/kv_storage.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/pretended_device.h"

namespace inflight {
namespace {

TEST(KvStorage, CopiesSlotsThatLieInTwoBuffers) {
  ClExecutorOptions options{.kv = {.head_count = 7, .local_head_count = 5, .head_size = 16}, .kv_block_count = 2};
  options.local_slots_min = 2;
  Device device = Device::open({});
  test::info_of(device).allocation_bytes_max = 2 * options.kv.bytes_per_block();
  KvStorage storage(device, options);
  // Units of slots 0 and 1: 0 to 4, 5 to 9; of blocks 0 and 1: 10 and 11, 12 and 13; four in a buffer.
  const size_t unit_bytes = options.kv.bytes_per_unit();
  ASSERT_EQ(storage.chunks().size(), 4U);
  std::vector<std::byte> units(16 * unit_bytes);
  for (size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::byte>(i / unit_bytes + 1);
  const auto each_chunk = [&](auto&& move) {
    size_t at = 0;
    for (const Buffer<std::byte>& chunk : storage.chunks()) {
      move(chunk, std::span(units).subspan(at, chunk.size()));
      at += chunk.size();
    }
    EXPECT_EQ(at, 14 * unit_bytes);
  };
  each_chunk([](const Buffer<std::byte>& chunk, std::span<std::byte> part) {
    const_cast<Buffer<std::byte>&>(chunk).write(part, 0);
  });
  const std::vector<int32_t> slots = {0, 1};
  BatchPlan plan;
  plan.local_slots = slots;
  plan.copies.push_back({.from = BlockId{0}, .to = BlockId{1}});
  (void)storage.move_blocks(plan);
  device.finish();
  each_chunk([](const Buffer<std::byte>& chunk, std::span<std::byte> part) { chunk.read(part, 0); });
  const int expected[] = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 11, 12, 11, 12};
  for (size_t i = 0; i < 14 * unit_bytes; ++i) {
    ASSERT_EQ(static_cast<int>(units[i]), expected[i / unit_bytes]) << "unit " << i / unit_bytes;
  }
}

}  // namespace
}  // namespace inflight
