// SPDX-License-Identifier: Apache-2.0
// Goal: preemption takes the right victim, as little as needed, loses nothing, and never ends in a livelock.
// Method: scripted cases; outputs are compared with the request alone by SchedulerWorld.
// Covers: sched/scheduler_preemption.cpp
#include <gtest/gtest.h>

#include "base/rng.h"
#include "sched/recompute_tax.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions small_world(int32_t slots, int32_t blocks) {
  WorldOptions world;
  world.config = {
      .max_num_seqs = slots, .max_num_batched_tokens = 128, .max_model_len = blocks * 4, .max_requests = 4096};
  world.blocks = {.block_count = blocks, .block_token_count = 4, .prefix_caching = false};
  return world;
}

uint64_t first_preempted(SchedulerWorld& world) {
  while (world.scheduler().stats().preemptions == 0) {
    world.step();
  }
  for (const auto& [id, record] : world.records()) {
    if (record.preemptions > 0) return id;
  }
  return 0;
}

// checklist 60, 61: at 30 % of what would be needed all requests finish with the tokens they give alone, in every mode.
TEST(Preemption, EverybodyFinishesUnderPressure) {
  for (const auto mode : {PreemptMode::Recompute, PreemptMode::Swap, PreemptMode::Auto}) {
    for (const bool overlap : {false, true}) {
      WorldOptions options = small_world(16, 60);
      options.config.preempt = mode;
      options.config.host_blocks = 200;
      options.overlap = overlap;
      SchedulerWorld world(options);
      for (uint64_t i = 0; i < 40; ++i) world.add({.prompt = random_prompt(16, i), .max_tokens = 34});
      world.run();
      EXPECT_GT(world.scheduler().stats().preemptions, 10);
      EXPECT_EQ(world.scheduler().stats().requests_finished, 40);
      world.scheduler().check_invariants();
    }
  }
}

// checklist 62: swapped blocks come back as they were (the oracle checks each slot) and nothing is computed again.
TEST(Preemption, SwappedSequencesComputeNothingAgain) {
  WorldOptions options = small_world(8, 30);
  options.config.preempt = PreemptMode::Swap;
  options.config.host_blocks = 100;
  SchedulerWorld world(options);
  for (uint64_t i = 0; i < 8; ++i) world.add({.prompt = random_prompt(10, i), .max_tokens = 30});
  world.run();
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_EQ(stats.recomputed_tokens, 0);
  EXPECT_EQ(stats.swapped_out_blocks, stats.swapped_in_blocks);
  EXPECT_EQ(stats.scheduled_tokens, 8 * (10 + 29));
}

TEST(Preemption, SwapFallsBackToRecomputeWhenTheHostIsFull) {
  WorldOptions options = small_world(8, 30);
  options.config.preempt = PreemptMode::Swap;
  options.config.host_blocks = 4;
  SchedulerWorld world(options);
  for (uint64_t i = 0; i < 8; ++i) world.add({.prompt = random_prompt(10, i), .max_tokens = 30});
  world.run();
  EXPECT_GT(world.scheduler().stats().recomputed_tokens, 0);
}

// checklist 62: auto copies when that is faster by the model, else computes again.
TEST(Preemption, AutoTakesTheCheaperWay) {
  for (const double swap_cost : {10.0, 1e7}) {
    WorldOptions options = small_world(8, 30);
    options.config.preempt = PreemptMode::Auto;
    options.config.host_blocks = 100;
    SchedulerWorld world(options);
    world.scheduler().set_latency_model(LatencyModel({1e5, 1000.0, 1e4, 1.0, 1.0, swap_cost}));
    for (uint64_t i = 0; i < 8; ++i) world.add({.prompt = random_prompt(10, i), .max_tokens = 30});
    world.run();
    EXPECT_GT(world.scheduler().stats().preemptions, 0);
    EXPECT_EQ(world.scheduler().stats().swapped_out_blocks > 0, swap_cost == 10.0);
    EXPECT_EQ(world.scheduler().stats().recomputed_tokens > 0, swap_cost != 10.0);
  }
}

// The rules of who goes. Requests 2, 3 and 4 differ in priority, output so far and prompt.
TEST(Preemption, TakesTheVictimOfTheRule) {
  const std::pair<VictimRule, uint64_t> expected[] = {{VictimRule::LastAdmitted, 4},
                                                      {VictimRule::LowestPriority, 2},
                                                      {VictimRule::FewestOutput, 4},
                                                      {VictimRule::MostFreeable, 3},
                                                      {VictimRule::Cheapest, 4}};
  for (const auto& [rule, victim] : expected) {
    WorldOptions options = small_world(8, 28);
    options.config.preempt_victim = rule;
    SchedulerWorld world(options);
    world.add({.prompt = random_prompt(4, 1), .max_tokens = 100, .priority = 9});  // the oldest: never
    world.step();
    world.add({.prompt = random_prompt(8, 2), .max_tokens = 100, .priority = 5});
    world.add({.prompt = random_prompt(40, 3), .max_tokens = 100, .priority = 1});
    for (int i = 0; i < 6; ++i) world.step();
    world.add({.prompt = random_prompt(8, 4), .max_tokens = 100, .priority = 2});
    EXPECT_EQ(first_preempted(world), victim) << to_string(rule);
    world.run();
  }
}

// A sequence whose blocks are shared frees little: the rule counts what would really come back.
TEST(Preemption, SharedBlocksDoNotCountAsFreeable) {
  WorldOptions options = small_world(8, 32);
  options.blocks.prefix_caching = true;
  options.config.preempt_victim = VictimRule::MostFreeable;
  SchedulerWorld world(options);
  const std::vector<TokenId> trunk = random_prompt(48, 1);
  for (TokenId i = 0; i < 3; ++i) {  // 12 blocks held three times
    std::vector<TokenId> prompt = trunk;
    prompt.push_back(i);
    world.add({.prompt = prompt, .max_tokens = 70});
  }
  world.add({.prompt = random_prompt(20, 9), .max_tokens = 70});
  world.add({.prompt = trunk, .max_tokens = 70});
  EXPECT_EQ(first_preempted(world), 4U);
  world.run();
}

// checklist 63: the batch is full; a difference above the threshold replaces within one step, one at it never.
TEST(PriorityPreemption, NeedsMoreThanTheThreshold) {
  for (const int32_t priority : {-10, -11}) {
    WorldOptions options = small_world(2, 100);
    options.config.priority_preemption_threshold = 10;
    SchedulerWorld world(options);
    const uint64_t first = world.add({.prompt = random_prompt(8, 1), .max_tokens = 30, .priority = -5});
    const uint64_t second = world.add({.prompt = random_prompt(8, 2), .max_tokens = 30, .priority = 0});
    for (int i = 0; i < 3; ++i) world.step();
    const uint64_t urgent = world.add({.prompt = random_prompt(8, 3), .max_tokens = 5, .priority = priority});
    world.step();
    EXPECT_EQ(world.last_plan_text(), priority == -11 ? "1:10+1 3:0+8" : "1:10+1 2:10+1");
    world.run();
    EXPECT_EQ(world.record(second).preemptions, priority == -11 ? 1 : 0);
    EXPECT_EQ(world.record(first).preemptions, 0);
    EXPECT_EQ(world.record(urgent).finish, FinishReason::Length);
  }
}

// checklist 70: no more victims than needed; the least important first, among equals the last admitted.
TEST(PriorityPreemption, TakesNoMoreThanItNeeds) {
  WorldOptions options = small_world(8, 30);
  options.config.priority_preemption_threshold = 0;
  SchedulerWorld world(options);
  for (const int32_t priority : {3, 5, 5, 4}) {
    world.add({.prompt = random_prompt(22, static_cast<uint64_t>(priority)), .max_tokens = 6, .priority = priority});
  }
  world.step();
  EXPECT_EQ(world.scheduler().running_count(), 4);
  world.add({.prompt = random_prompt(40, 9), .max_tokens = 4, .priority = 0});  // needs 11 blocks, 6 are free
  world.step();
  EXPECT_EQ(world.record(3).preemptions, 1);
  EXPECT_EQ(world.scheduler().stats().preemptions, 1);
  world.run();
}

TEST(PriorityPreemption, DoesNothingWhenAllVictimsWouldNotBeEnough) {
  WorldOptions options = small_world(8, 30);
  options.config.priority_preemption_threshold = 0;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(60, 1), .max_tokens = 20, .priority = -5});
  world.add({.prompt = random_prompt(20, 2), .max_tokens = 20, .priority = 5});
  world.step();
  world.add({.prompt = random_prompt(80, 3), .max_tokens = 4, .priority = 0});
  world.step();
  EXPECT_EQ(world.scheduler().stats().preemptions, 0);
  world.run();
}

// Four runners hold 7 blocks of 16 tokens each and may make 300 more, of which admission expects 0.7: of the 100 blocks
// 72 are free, but 840 tokens of them are spoken for. The urgent request wants 13 blocks, 300 tokens of output and a
// block: 524 < 72 * 16 - 840 does not hold. One runner less, and 524 < 79 * 16 - 630 does.
TEST(PriorityPreemption, GivesUpWhatIsKeptForOthersOutput) {
  for (const int32_t urgent_priority : {0, 9}) {
    WorldOptions options = small_world(8, 100);
    options.blocks.block_token_count = 16;
    options.config.max_num_batched_tokens = 1024;
    options.config.max_model_len = 1000;
    options.config.schedule_conservativeness = 1.0;
    options.config.priority_preemption_threshold = 0;
    SchedulerWorld world(options);
    for (uint64_t i = 1; i <= 4; ++i) {
      world.add({.prompt = random_prompt(100, i), .max_tokens = 300, .priority = 5});
      world.step();
    }
    ASSERT_EQ(world.scheduler().running_count(), 4);
    ASSERT_EQ(world.blocks().pool().referenced_count(), 28);
    world.add({.prompt = random_prompt(200, 9), .max_tokens = 300, .priority = urgent_priority});
    world.step();
    EXPECT_EQ(world.scheduler().stats().preemptions, urgent_priority == 0 ? 1 : 0);
    EXPECT_EQ(world.record(4).preemptions, urgent_priority == 0 ? 1 : 0);  // the last admitted
    EXPECT_EQ(world.record(5).first_token_step, urgent_priority == 0 ? 5 : 0);
    world.run();
  }
}

TEST(PriorityPreemption, GivesUpTheHeadroom) {
  WorldOptions options = small_world(8, 30);
  options.config.kv_headroom = 0.4;  // 12 blocks
  options.config.priority_preemption_threshold = 0;
  SchedulerWorld world(options);
  for (uint64_t i = 1; i <= 2; ++i) {
    world.add({.prompt = random_prompt(30, i), .max_tokens = 6, .priority = 5});
    world.step();
  }
  ASSERT_EQ(world.blocks().pool().free_count(), 14);
  world.add({.prompt = random_prompt(12, 9), .max_tokens = 4});  // 3 blocks: 2 may go
  world.step();
  EXPECT_EQ(world.record(2).preemptions, 1);
  EXPECT_EQ(world.record(1).preemptions, 0);
  EXPECT_EQ(world.record(3).first_token_step, 3);
  world.run();
}

// As many tokens a step as rows: the victim's token goes with its row.
TEST(PriorityPreemption, TakesTheVictimsToken) {
  WorldOptions options = small_world(2, 100);
  options.config.max_num_batched_tokens = 2;
  options.config.priority_preemption_threshold = 0;
  SchedulerWorld world(options);
  for (uint64_t i = 1; i <= 2; ++i) world.add({.prompt = random_prompt(1, i), .max_tokens = 30, .priority = 5});
  for (int i = 0; i < 3; ++i) world.step();
  ASSERT_EQ(world.last_plan().entries.size(), 2U);
  world.add({.prompt = random_prompt(8, 3), .max_tokens = 5});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:3+1 3:0+1");
  world.run();
}

// The only place for an adapter is held by two runners: both go, and nobody else. When one of them is as important as
// the newcomer, nobody goes.
TEST(PriorityPreemption, TakesTheAdaptersPlace) {
  for (const int32_t second : {3, 0}) {
    WorldOptions options = small_world(8, 100);
    options.config.max_loras = 1;
    options.config.priority_preemption_threshold = 0;
    SchedulerWorld world(options);
    world.add({.prompt = random_prompt(4, 1), .max_tokens = 30, .adapter = 1, .priority = 2});
    world.add({.prompt = random_prompt(4, 2), .max_tokens = 30, .adapter = 1, .priority = second});
    world.add({.prompt = random_prompt(4, 3), .max_tokens = 30, .priority = 9});  // none: in nobody's way
    world.step();
    world.add({.prompt = random_prompt(4, 4), .max_tokens = 4, .adapter = 2});
    world.step();
    const int32_t expected = second == 3 ? 1 : 0;
    EXPECT_EQ(world.record(1).preemptions, expected);
    EXPECT_EQ(world.record(2).preemptions, expected);
    EXPECT_EQ(world.record(3).preemptions, 0);
    EXPECT_EQ(world.record(4).first_token_step, expected == 1 ? 2 : 0);
    EXPECT_EQ(world.scheduler().stats().admissions[static_cast<size_t>(AdmissionResult::NoAdapter)], 1 - expected);
    world.run();
    for (const auto& [id, record] : world.records()) EXPECT_EQ(record.finish, FinishReason::Length);
  }
}

// checklist 65: recomputed tokens are counted, in all and for each request; checklist 68: thrashing is noticed.
TEST(RecomputeTax, IsTheShareOfTheWindow) {
  RecomputeTax tax;
  EXPECT_EQ(tax.value(), 0.0);
  for (int i = 0; i < 64; ++i) tax.add_step(i < 32 ? 5 : 0, 10);
  EXPECT_DOUBLE_EQ(tax.value(), 160.0 / 640.0);
  for (int i = 0; i < 32; ++i) tax.add_step(0, 10);
  EXPECT_DOUBLE_EQ(tax.value(), 0.0);
}

TEST(RecomputeTax, ThrashingMakesAdmissionCareful) {
  WorldOptions options = small_world(12, 24);
  options.config.preempt_victim = VictimRule::FewestOutput;
  SchedulerWorld world(options);
  Rng rng(3);
  for (uint64_t i = 0; i < 60; ++i) world.add({.prompt = random_prompt(12, i), .max_tokens = 60});
  world.run();
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_GT(stats.thrashing_steps, 0);
  // Without the care two thirds of all tokens are computed again (8992 of 13252).
  EXPECT_LT(stats.recomputed_tokens, stats.scheduled_tokens / 3);
  EXPECT_EQ(stats.requests_finished, 60);
}

// checklist 46: attention work is N(N+1)/2 (query, key) pairs whatever the chunk.
TEST(AttendedTokens, DoNotDependOnTheChunk) {
  for (const int32_t chunk : {1, 16, 64, 100, 0}) {
    WorldOptions options = small_world(2, 100);
    options.config.long_prefill_token_threshold = chunk;
    SchedulerWorld world(options);
    world.add({.prompt = random_prompt(100, 1), .max_tokens = 1});
    world.run();
    EXPECT_EQ(world.scheduler().stats().attended_tokens, 100 * 101 / 2) << chunk;
  }
}

}  // namespace
}  // namespace inflight::test
