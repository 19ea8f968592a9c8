// SPDX-License-Identifier: Apache-2.0
// Goal: where some layers see the last tokens only, what they store takes as many slots as the windows of the running
// sequences touch, and prefix cache, further choices, guesses and preemption work all the same. Method: scripted cases;
// the oracle demands what every window reaches at every step, in blocks and in slots, and the world compares each
// request's tokens with those it gives alone.
// Covers: cache/local_slots.cpp, sched/scheduler_windows.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/expect_error.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

constexpr int32_t kLocalWindow = 10;
constexpr int32_t kBlockTokens = 4;

WorldOptions with_slots(int32_t sequences, int32_t blocks, int32_t slots) {
  WorldOptions world;
  world.config = {.max_num_seqs = sequences, .max_num_batched_tokens = 32, .max_model_len = 200, .max_requests = 4096};
  world.blocks = {
      .block_count = blocks, .block_token_count = kBlockTokens, .local_window = kLocalWindow, .local_slots = slots};
  return world;
}

// What the windows need, and nothing more.
int32_t least_slots(const WorldOptions& world) {
  return world.config.local_slots_needed(kLocalWindow, world.blocks.block_token_count);
}

// checklist 47: 4 sequences of 200 tokens hold 200 blocks, and slots for their windows and steps.
TEST(LocalSlots, WhatIsHeldDoesNotGrowWithTheSequence) {
  for (const bool prefix_caching : {false, true}) {
    for (const bool overlap : {false, true}) {
      WorldOptions options = with_slots(4, 220, 0);
      options.blocks.local_slots = least_slots(options);
      EXPECT_EQ(options.blocks.local_slots, 4 * (3 + 2) + 8);
      options.blocks.prefix_caching = prefix_caching;
      options.overlap = overlap;
      SchedulerWorld world(options);
      for (uint64_t seed = 1; seed <= 4; ++seed) world.add({.prompt = random_prompt(90, seed), .max_tokens = 100});
      int32_t blocks = 0, slots = 0;
      while (world.step()) {
        blocks = std::max(blocks, world.blocks().pool().referenced_count());
        slots = std::max(slots, world.blocks().local_slots().held_count());
        world.scheduler().check_invariants();
      }
      EXPECT_GT(blocks, 170);
      EXPECT_GE(slots, 4 * 3);
      EXPECT_LE(slots, options.blocks.local_slots);
      EXPECT_EQ(world.blocks().local_slots().held_count(), 0);
      for (uint64_t request = 1; request <= 4; ++request) EXPECT_EQ(world.record(request).finish, FinishReason::Length);
    }
  }
}

// What a prompt attends to: two of three layers see the window, one all that is before, whatever the chunk.
TEST(LocalSlots, AttentionIsTheMeanOfTheLayers) {
  for (const int32_t slots : {0, 60}) {
    for (const int32_t chunk : {1, 7, 0}) {
      WorldOptions options = with_slots(2, 60, slots);
      options.config.local_share = 2.0 / 3.0;
      options.config.long_prefill_token_threshold = chunk;
      SchedulerWorld world(options);
      world.add({.prompt = random_prompt(150, 1), .max_tokens = 1});
      world.run();
      int64_t seen = 0;
      for (int32_t position = 0; position < 150; ++position)
        seen += 2 * std::min(position + 1, kLocalWindow) + position + 1;
      const SchedulerStats& stats = world.scheduler().stats();
      EXPECT_LE(std::abs(2 * (3 * stats.attended_tokens - seen)), 3 * stats.steps) << slots << ' ' << chunk;
    }
  }
}

// Slots are kept behind a prompt: the same prompt, or one that goes on from the answer, is found. When others have
// taken the slots, its blocks are still there and found no more.
TEST(LocalSlots, PrefixesAreFoundWhereTheirLastWindowIsKept) {
  WorldOptions options = with_slots(1, 300, 0);
  options.blocks.local_slots = least_slots(options) + 6;
  SchedulerWorld world(options);
  const std::vector<TokenId> prompt = random_prompt(81, 5);
  const auto cached_by = [&](const std::vector<TokenId>& tokens) {
    const int64_t before = world.scheduler().stats().cached_tokens;
    world.add({.prompt = tokens, .max_tokens = 1});
    world.run();
    world.scheduler().check_invariants();
    return world.scheduler().stats().cached_tokens - before;
  };
  EXPECT_EQ(cached_by(prompt), 0);
  EXPECT_EQ(cached_by(prompt), 80);
  std::vector<TokenId> longer = prompt;
  for (const TokenId token : random_prompt(20, 6)) longer.push_back(token);
  EXPECT_EQ(cached_by(longer), 80);
  std::vector<TokenId> other = longer;  // parts from it behind 99 tokens: the whole blocks before
  other.back() = (other.back() + 1) % 64;
  EXPECT_EQ(cached_by(other), 100);
  EXPECT_EQ(cached_by(random_prompt(81, 7)), 0);
  const int32_t blocks = world.blocks().tree().node_count();
  EXPECT_EQ(cached_by(prompt), 0);
  EXPECT_EQ(world.blocks().tree().node_count(), blocks);             // computed again, held once
  std::vector<TokenId> branch(prompt.begin(), prompt.begin() + 42);  // what was computed again has its slots,
  branch.back() = (branch.back() + 1) % 64;
  EXPECT_EQ(cached_by(branch), 40);  // also what an earlier step than the last computed
  EXPECT_EQ(cached_by(prompt), 80);
}

// Of a match that goes beyond the last kept window, the part up to there is used.
TEST(LocalSlots, AMatchEndsWhereItsWindowIsKept) {
  EvictPolicy lru;
  KvBlocks blocks({.block_count = 20, .block_token_count = 4, .local_window = 9, .local_slots = 12}, lru);
  std::vector<BlockId> table;
  ASSERT_TRUE(blocks.try_extend(table, 8));
  blocks.hold_slots(table, 0, 8);
  EXPECT_EQ(blocks.usable_count(table), 8U);
  blocks.let_go_of_slots(table, 5, 6);  // not in the tree: nobody could find it
  // The window of token 4 n begins at 4 n - 8: two blocks before it.
  EXPECT_EQ(blocks.first_local_block(24), 4);
  EXPECT_EQ(blocks.usable_count(table), 8U);
  EXPECT_EQ(blocks.usable_count(std::span(table).first(7)), 5U);
  EXPECT_EQ(blocks.usable_count(std::span(table).first(6)), 5U);
  blocks.let_go_of_slots(table, 0, 5);
  EXPECT_EQ(blocks.usable_count(std::span(table).first(7)), 0U);
  EXPECT_EQ(blocks.usable_count(table), 8U);
  blocks.let_go_of_slots(table, 6, 8);
  EXPECT_EQ(blocks.usable_count(table), 0U);
  blocks.check_invariants();
}

// Choices share the prompt's window with the first, which goes on meanwhile.
TEST(LocalSlots, ChoicesShareTheWindowOfTheirPrompt) {
  for (const bool prefix_caching : {false, true}) {
    for (const bool overlap : {false, true}) {
      WorldOptions options = with_slots(4, 220, 0);
      options.blocks.local_slots = least_slots(options);
      options.blocks.prefix_caching = prefix_caching;
      options.overlap = overlap;
      SchedulerWorld world(options);
      world.add({.prompt = random_prompt(50, 3), .max_tokens = 60, .n = 6});
      world.run();
      world.scheduler().check_invariants();
      EXPECT_GT(world.executor().copied_block_count(), 0);
      EXPECT_GE(world.scheduler().stats().cached_tokens, 3 * 49);
      EXPECT_EQ(world.blocks().local_slots().held_count(), 0);
    }
  }
}

// A recording may hold anything.
TEST(LocalSlots, SettingsThatCannotWorkAreRefused) {
  WorldOptions options = with_slots(4, 220, 0);
  const int32_t least = options.blocks.local_slots = least_slots(options);
  EXPECT_NO_THROW(SchedulerWorld{options});
  options.blocks.local_slots = least - 1;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "local_slots is 27, allowed: 28 to",
                        [&] { SchedulerWorld{options}; });
  options.blocks.local_slots = least;
  options.config.host_blocks = 10;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "without sliding_window", [&] { SchedulerWorld{options}; });
  options.config.host_blocks = 0;
  options.config.sliding_window = 20;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "without sliding_window", [&] { SchedulerWorld{options}; });
}

}  // namespace
}  // namespace inflight::test
