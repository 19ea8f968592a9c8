// SPDX-License-Identifier: Apache-2.0
// Covers: cache/host_tier.cpp
// Goal: prefixes that the device had to give up are found in host memory and copied back with the K and V they had.
// Method: the oracle knows what every slot, on the device and on the host, must hold; counters are compared with what
// the script implies.
#include "cache/host_tier.h"

#include <gtest/gtest.h>

#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

// Room for one request of 40 + 4 tokens and little more; blocks of 4.
WorldOptions small_device(int32_t host_cache_blocks) {
  WorldOptions world;
  world.config = {.max_num_seqs = 4,
                  .max_num_batched_tokens = 64,
                  .max_model_len = 64,
                  .max_requests = 4096,
                  .host_cache_blocks = host_cache_blocks};
  world.blocks = {.block_count = 16, .block_token_count = 4};
  return world;
}

void ask(SchedulerWorld& world, uint64_t prompt) {
  world.add({.prompt = random_prompt(40, prompt), .max_tokens = 4});
  world.run();
  world.scheduler().check_invariants();
}

// checklist 94: A is pushed out by B and C and comes back whole: 9 blocks, since the last token is always computed.
TEST(HostTier, BringsBackWhatTheDeviceGaveUp) {
  SchedulerWorld world(small_device(60));
  for (const uint64_t prompt : {1, 2, 3}) ask(world, prompt);
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_EQ(stats.cached_tokens, 0);
  EXPECT_GT(stats.offloaded_blocks, 10);
  const int64_t computed = stats.scheduled_tokens;
  ask(world, 1);
  EXPECT_EQ(stats.cached_tokens, 36);
  EXPECT_EQ(stats.host_cached_tokens, 36);
  EXPECT_EQ(stats.restored_blocks, 9);
  EXPECT_EQ(stats.scheduled_tokens - computed, 4 + 3);
  // Again at once: it is on the device.
  ask(world, 1);
  EXPECT_EQ(stats.cached_tokens, 72);
  EXPECT_EQ(stats.restored_blocks, 9);
}

// Each block is copied to the host once, however often it is evicted.
TEST(HostTier, CopiesABlockOnce) {
  SchedulerWorld world(small_device(200));
  for (int round = 0; round < 4; ++round) {
    for (const uint64_t prompt : {1, 2, 3}) ask(world, prompt);
  }
  // 43 tokens have K and V: 10 full blocks a prompt, and the last outputs are equal in every round.
  EXPECT_LE(world.scheduler().stats().offloaded_blocks, 30);
  EXPECT_GE(world.scheduler().stats().restored_blocks, 3 * 27 - 9);
}

// What the tier has no room for is computed again; the outputs stay right (SchedulerWorld).
TEST(HostTier, ForgetsWhatItHasNoRoomFor) {
  for (const int32_t blocks : {1, 5, 12, 25}) {
    SchedulerWorld world(small_device(blocks));
    for (int round = 0; round < 3; ++round) {
      for (const uint64_t prompt : {1, 2, 3, 4, 5}) ask(world, prompt);
    }
    EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
    EXPECT_GT(world.scheduler().stats().offloaded_blocks, 0);
  }
}

// checklist 94: the latency model decides: where a swapped block costs more than 4 tokens, nothing is copied back.
TEST(HostTier, ComputesAgainWhereThatIsFaster) {
  for (const bool copying_is_dear : {false, true}) {
    SchedulerWorld world(small_device(60));
    world.scheduler().set_latency_model(LatencyModel({1000.0, 100.0, 10.0, 0.0, 0.0, copying_is_dear ? 500.0 : 300.0}));
    for (const uint64_t prompt : {1, 2, 3, 1}) ask(world, prompt);
    EXPECT_EQ(world.scheduler().stats().restored_blocks, copying_is_dear ? 0 : 9);
  }
}

}  // namespace
}  // namespace inflight::test
