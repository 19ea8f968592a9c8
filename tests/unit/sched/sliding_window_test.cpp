// SPDX-License-Identifier: Apache-2.0
// Goal: with a sliding window of W tokens a sequence attends to the last W only and gives the blocks behind them back,
// and prefix cache, swapping and further choices work all the same. Method: scripted cases; the oracle demands every
// block that the window reaches at every step, and each request's tokens are compared with those it gives alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

constexpr int32_t kWindow = 24;
constexpr int32_t kWidth = 4;

WorldOptions windowed(int32_t slots, int32_t blocks, bool prefix_caching) {
  WorldOptions world;
  world.config = {.max_num_seqs = slots,
                  .max_num_batched_tokens = 128,
                  .max_model_len = 200,
                  .max_requests = 4096,
                  .sliding_window = kWindow};
  world.blocks = {.block_count = blocks, .block_token_count = kWidth, .prefix_caching = prefix_caching};
  return world;
}

// checklist 47: attention work is N W - W (W - 1) / 2 pairs whatever the chunk, N (N + 1) / 2 while N <= W.
TEST(SlidingWindow, AttendsToTheWindowOnly) {
  for (const int32_t chunk : {1, 7, 16, 24, 0}) {
    for (const int64_t count : {1, 23, 24, 25, 100}) {
      WorldOptions options = windowed(2, 60, true);
      options.config.long_prefill_token_threshold = chunk;
      SchedulerWorld world(options);
      world.add({.prompt = random_prompt(static_cast<int32_t>(count), 1), .max_tokens = 1});
      world.run();
      const int64_t pairs = count <= kWindow ? count * (count + 1) / 2 : count * kWindow - kWindow * (kWindow - 1) / 2;
      EXPECT_EQ(world.scheduler().stats().attended_tokens, pairs) << chunk << ' ' << count;
    }
  }
}

// checklist 47: what a sequence holds does not grow with it. Without the prefix cache that is the window and a step's
// tokens; with it, up to twice the window, since the shared beginning is given back as a whole.
TEST(SlidingWindow, GivesBackTheBlocksBehindIt) {
  for (const bool prefix_caching : {false, true}) {
    for (const bool overlap : {false, true}) {
      WorldOptions options = windowed(1, 60, prefix_caching);
      options.overlap = overlap;
      SchedulerWorld world(options);
      world.add({.prompt = random_prompt(3, 1), .max_tokens = 190});
      int32_t most = 0, last = 0;
      while (world.step()) {
        last = world.blocks().pool().referenced_count();
        most = std::max(most, last);
        world.scheduler().check_invariants();
        if (world.scheduler().running_count() == 0) break;
      }
      const int32_t window_blocks = kWindow / kWidth;
      EXPECT_GE(most, window_blocks);
      EXPECT_LE(most, prefix_caching ? 2 * window_blocks + 1 : window_blocks + 2);
      EXPECT_EQ(world.record(1).finish, FinishReason::Length);
    }
  }
}

// Blocks of the first W tokens are found again, also after their owner has gone past them; later ones are not.
TEST(SlidingWindow, SharesTheFirstWindowOfAPrompt) {
  SchedulerWorld world(windowed(4, 150, true));
  const std::vector<TokenId> prompt = random_prompt(90, 5);
  world.add({.prompt = prompt, .max_tokens = 60});
  for (int i = 0; i < 50; ++i) world.step();
  world.add({.prompt = prompt, .max_tokens = 4});
  world.run();
  EXPECT_EQ(world.scheduler().stats().cached_tokens, kWindow);
  world.add({.prompt = prompt, .max_tokens = 4});
  world.run();
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 2 * kWindow);
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
  world.blocks().clear_stored();
  EXPECT_EQ(world.blocks().pool().free_count(), 150);
}

// A pool that could not hold half of what the requests would need without a window.
TEST(SlidingWindow, SurvivesPreemption) {
  for (const auto mode : {PreemptMode::Recompute, PreemptMode::Swap}) {
    for (const bool prefix_caching : {false, true}) {
      WorldOptions options = windowed(12, 60, prefix_caching);
      options.config.preempt = mode;
      options.config.host_blocks = 300;
      SchedulerWorld world(options);
      for (uint64_t i = 0; i < 24; ++i)
        world.add({.prompt = random_prompt(10, i), .max_tokens = 120, .n = 1 + int(i % 3)});
      world.run();
      const SchedulerStats& stats = world.scheduler().stats();
      EXPECT_GT(stats.preemptions, 10);
      if (mode == PreemptMode::Swap) {
        EXPECT_GT(stats.swapped_in_blocks, 0);
        // Fewer blocks than what was computed of the victims would fill.
        EXPECT_EQ(stats.recomputed_tokens, 0);
      }
      EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
    }
  }
}

}  // namespace
}  // namespace inflight::test
