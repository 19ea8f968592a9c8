// SPDX-License-Identifier: Apache-2.0
// Goal: the four batching modes do what their systems do, on one scheduler, and waste is counted.
// Method: scripted cases against closed formulas; random cases against a plain simulation of the mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions batching_world(BatchingMode mode, int32_t slots, int32_t budget = 256) {
  WorldOptions world;
  world.config = {.max_num_seqs = slots,
                  .max_num_batched_tokens = budget,
                  .max_model_len = 1000,
                  .max_requests = 4096,
                  .batching = mode};
  world.blocks = {.block_count = 4000, .block_token_count = 4};
  return world;
}

RequestOptions request_of(int32_t output, int32_t prompt = 1) {
  RequestOptions request;
  for (int32_t i = 0; i < prompt; ++i) request.prompt.push_back((output * 7 + i) % 60);
  request.max_tokens = output;
  return request;
}

// checklist 2, 129, 130: cycles = max(T) = 400; efficiency = mean(T)/max(T) = 0.36875; 320 of 400 steps have three
// idle.
TEST(StaticBatching, RunsUntilTheLongestMemberEnds) {
  SchedulerWorld world(batching_world(BatchingMode::Static, 4));
  for (const int32_t length : {50, 60, 400, 80}) world.add(request_of(length));
  int64_t steps_with_three_idle = 0;
  while (world.step()) steps_with_three_idle += world.last_plan().entries.size() == 1;
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_EQ(stats.steps, 400);
  EXPECT_EQ(stats.used_slot_steps, 50 + 60 + 400 + 80);
  EXPECT_DOUBLE_EQ(static_cast<double>(stats.used_slot_steps) / static_cast<double>(stats.slot_steps), 0.36875);
  EXPECT_EQ(steps_with_three_idle, 320);
}

// checklist 2: cycles = the sum over batches of max(T_i), exactly.
TEST(StaticBatching, TakesTheNextBatchOnlyWhenThisOneIsDone) {
  Rng rng(6);
  SchedulerWorld world(batching_world(BatchingMode::Static, 5));
  int64_t expected = 0;
  int32_t longest = 0;
  for (int32_t i = 0; i < 33; ++i) {
    const int32_t length = rng.between(1, 60);
    world.add(request_of(length));
    longest = std::max(longest, length);
    if (i % 5 == 4 || i == 32) {
      expected += longest;
      longest = 0;
    }
  }
  EXPECT_EQ(world.run(), expected);
}

// Orca's request-level batches: max_num_seqs members, however many steps their prompts take; who ends early is not
// replaced.
TEST(StaticBatching, ABatchLargerThanTheBudgetFillsOverSeveralSteps) {
  for (const int32_t output : {40, 2}) {
    for (const bool overlap : {false, true}) {
      WorldOptions options = batching_world(BatchingMode::Static, 6, 16);
      options.overlap = overlap;
      SchedulerWorld world(options);
      for (int32_t i = 0; i < 18; ++i) {
        world.add({.prompt = random_prompt(12, static_cast<uint64_t>(i)), .max_tokens = output});
      }
      world.run();
      for (uint64_t id = 1; id <= 18; ++id) {
        if (id <= 6) continue;
        const uint64_t first_of_batch = (id - 1) / 6 * 6 + 1;
        for (uint64_t before = first_of_batch - 6; before < first_of_batch; ++before) {
          EXPECT_GT(world.record(id).first_token_step, world.record(before).finish_step) << id << " " << before;
        }
      }
      // A batch of six takes as long as its prompts take to come in and its last member to end: no batch of fewer.
      EXPECT_LE(world.now_step(), 3 * (6 + output + (overlap ? 1 : 0))) << output;
    }
  }
}

// Who comes when the batch is complete, though not full, waits for the next.
TEST(StaticBatching, ABatchThatEverybodyIsInIsClosed) {
  SchedulerWorld world(batching_world(BatchingMode::Static, 6, 64));
  world.add(request_of(10));
  world.add(request_of(4));
  world.step();
  world.add(request_of(3));
  world.run();
  EXPECT_GT(world.record(3).first_token_step, world.record(1).finish_step);
}

// checklist 131: with a backlog the continuous batch is full.
TEST(ContinuousBatching, KeepsEverySlotBusyWhileAnybodyWaits) {
  Rng rng(7);
  SchedulerWorld world(batching_world(BatchingMode::Continuous, 8));
  for (int32_t i = 0; i < 200; ++i) world.add(request_of(rng.between(1, 60)));
  world.run();
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_GE(static_cast<double>(stats.backlog_used_slot_steps), 0.99 * static_cast<double>(stats.backlog_slot_steps));
}

// checklist 132: 80 % U[10,50] and 20 % U[200,500], 8 slots: continuous uses >= 0.85 of the slots, static <= 0.5.
TEST(ContinuousBatching, WinsOnBimodalLengths) {
  const auto share = [](BatchingMode mode, int64_t& steps) {
    Rng rng(1);
    SchedulerWorld world(batching_world(mode, 8));
    for (int32_t i = 0; i < 200; ++i) {
      world.add(request_of(rng.chance(0.8) ? rng.between(10, 50) : rng.between(200, 500)));
    }
    steps = world.run();
    const SchedulerStats& stats = world.scheduler().stats();
    return static_cast<double>(stats.used_slot_steps) / static_cast<double>(stats.slot_steps);
  };
  int64_t continuous = 0, fixed = 0;
  EXPECT_GE(share(BatchingMode::Continuous, continuous), 0.85);
  EXPECT_LE(share(BatchingMode::Static, fixed), 0.5);
  EXPECT_GE(fixed, 2 * continuous);
}

// checklist 3: a batch starts at min(max_num_seqs waiting, the oldest's arrival + delay), to the nanosecond.
TEST(DynamicBatching, StartsWhenFullOrWhenTheOldestHasWaitedLongEnough) {
  WorldOptions options = batching_world(BatchingMode::Dynamic, 3);
  options.config.max_batch_delay_ms = 2.0;
  SchedulerWorld world(options);
  world.clock().advance(1000);
  world.add(request_of(4));
  EXPECT_TRUE(world.scheduler().plan(world.clock().now()).empty());
  EXPECT_EQ(world.scheduler().wake_time(), 1000 + 2'000'000);
  world.clock().advance(1'500'000);
  world.add(request_of(4));
  EXPECT_TRUE(world.scheduler().plan(world.clock().now()).empty());
  EXPECT_EQ(world.scheduler().wake_time(), 1000 + 2'000'000);  // the oldest decides
  world.step();                                                // waits until then
  EXPECT_EQ(world.last_plan().entries.size(), 2U);
  EXPECT_EQ(world.record(1).first_token_step, 1);
  world.run();
  const TimeNs before = world.clock().now();
  for (int i = 0; i < 3; ++i) world.add(request_of(4));
  world.step();
  EXPECT_EQ(world.last_plan().entries.size(), 3U);  // full: at once
  EXPECT_LT(world.clock().now() - before, 2'000'000);
  world.run();
}

TEST(DynamicBatching, ABatchLargerThanTheBudgetFillsOverSeveralSteps) {
  SchedulerWorld world(batching_world(BatchingMode::Dynamic, 4, 8));
  for (uint64_t i = 0; i < 8; ++i) world.add({.prompt = random_prompt(8, i), .max_tokens = 20});
  world.run();
  const auto last_start = world.record(4).first_token_step, first_end = world.record(1).finish_step;
  EXPECT_LT(last_start, first_end);
  EXPECT_GT(world.record(5).first_token_step, world.record(4).finish_step);
}

TEST(DynamicBatching, KeepsItsMembersUntilAllEnd) {
  WorldOptions options = batching_world(BatchingMode::Dynamic, 2);
  SchedulerWorld world(options);
  for (const int32_t length : {3, 10, 5}) world.add(request_of(length));
  EXPECT_EQ(world.run(), 10 + 5);
}

// checklist 9, 10, 31: SGLang's order. A decodes; B arrives and is prefilled alone; then both decode. While B is
// chunked, nobody decodes.
TEST(PrefillFirst, PrefillsAloneThenDecodesTogether) {
  SchedulerWorld world(batching_world(BatchingMode::PrefillFirst, 4, 16));
  world.add(request_of(20, 4));
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+4");
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:4+1");
  world.add(request_of(5, 30));
  std::vector<std::string> plans;
  for (int i = 0; i < 3; ++i) {
    world.step();
    plans.push_back(world.last_plan_text());
  }
  EXPECT_EQ(plans, (std::vector<std::string>{"2:0+16", "2:16+14", "1:5+1 2:30+1"}));
  world.run();
}

TEST(PrefillFirst, MixedChunksCarryDecodesAlong) {
  WorldOptions options = batching_world(BatchingMode::PrefillFirst, 4, 16);
  options.config.enable_mixed_chunk = true;
  SchedulerWorld world(options);
  world.add(request_of(20, 4));
  world.step();
  world.add(request_of(5, 30));
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:4+1 2:0+15");
  world.run();
}

// checklist 22: the prompt tokens of a step have a limit of their own.
TEST(Budgets, MaxPrefillTokensIsSeparateFromTheTokenBudget) {
  WorldOptions options = batching_world(BatchingMode::Continuous, 4, 64);
  options.config.max_prefill_tokens = 10;
  SchedulerWorld world(options);
  world.add(request_of(3, 25));
  world.add(request_of(3, 25));
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+10");
  EXPECT_EQ(world.scheduler().stats().admissions[static_cast<size_t>(AdmissionResult::NoInputBudget)], 1);
  world.run();
}

// checklist 53: several prompts may be in progress, up to the limit; none of them decodes before its last chunk, and
// whoever fits whole still joins.
TEST(Budgets, PromptsInProgressAreLimited) {
  for (const int32_t limit : {0, 1, 2}) {
    WorldOptions options;
    options.config = {.max_num_seqs = 8,
                      .max_num_batched_tokens = 40,
                      .long_prefill_token_threshold = 10,
                      .max_num_partial_prefills = limit,
                      .max_model_len = 200,
                      .max_requests = 100};
    options.blocks = {.block_count = 400, .block_token_count = 4};
    SchedulerWorld world(options);
    std::map<uint64_t, int32_t> prompts;
    for (const int32_t length : {60, 50, 70, 5, 90, 8}) {
      std::vector<TokenId> prompt(static_cast<size_t>(length), static_cast<TokenId>(length % 60));
      prompts[world.add({.prompt = prompt, .max_tokens = 3})] = length;
    }
    size_t most = 0;
    while (world.step()) {
      size_t partial = 0;
      for (const BatchEntry& entry : world.last_plan().entries) {
        const int32_t length = prompts.at(to_integer(entry.sequence));
        partial += entry.context_token_count() < length;
        EXPECT_EQ(entry.samples, entry.context_token_count() >= length);
      }
      most = std::max(most, partial);
    }
    EXPECT_EQ(most, limit == 0 ? 4U : static_cast<size_t>(limit)) << limit;
    for (const auto& [id, record] : world.records()) EXPECT_EQ(record.finish, FinishReason::Length);
  }
}

TEST(BatchingMode, NamesRoundTrip) {
  for (const auto mode :
       {BatchingMode::Continuous, BatchingMode::PrefillFirst, BatchingMode::Dynamic, BatchingMode::Static}) {
    EXPECT_EQ(parse_batching_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(parse_batching_mode("orca"), std::nullopt);
  EXPECT_EQ(parse_preempt_mode("auto"), PreemptMode::Auto);
}

}  // namespace
}  // namespace inflight::test
