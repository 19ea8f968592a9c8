// SPDX-License-Identifier: Apache-2.0
// Goal: the scheduler's decisions, step by step, on scripted cases. Outputs are checked by SchedulerWorld throughout.
// Method: plans are written as "request:computed+scheduled". Blocks hold 4 tokens unless said otherwise.
// Covers: sched/step_loop.cpp
// Covers: sched/scheduler.cpp, sched/scheduler_plan.cpp, sched/scheduler_admission.cpp, sched/scheduler_config.cpp
#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions world_of(int32_t sequences, int32_t budget, int32_t blocks = 1000) {
  WorldOptions world;
  world.config = {.max_num_seqs = sequences,
                  .max_num_batched_tokens = budget,
                  .long_prefill_token_threshold = 0,
                  .max_model_len = std::min(2000, blocks * 4),
                  .max_requests = 4096};
  world.blocks = {.block_count = blocks, .block_token_count = 4, .prefix_caching = true};
  return world;
}

int64_t admissions(SchedulerWorld& world, AdmissionResult result) {
  return world.scheduler().stats().admissions[static_cast<size_t>(result)];
}

TEST(SchedulerConfig, NamesWhatIsOutOfRange) {
  SchedulerConfig config{.max_num_seqs = 8,
                         .max_num_batched_tokens = 4,
                         .long_prefill_token_threshold = 0,
                         .max_model_len = 100,
                         .max_requests = 100};
  try {
    config.validate(1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("max_num_batched_tokens is 4"), std::string::npos);
  }
  config.max_num_batched_tokens = 64;
  EXPECT_NO_THROW(config.validate(1000));
  EXPECT_THROW(config.validate(99), Error);  // the KV storage is smaller than one sequence may become
  config.max_num_seqs = 0;
  EXPECT_THROW(config.validate(1000), Error);
}

// checklist 1, 8: a request that arrives during step k is in step k+1, one that ends in step k is not.
TEST(Scheduler, RequestsJoinAndLeaveAtEveryStep) {
  SchedulerWorld world(world_of(4, 64));
  const uint64_t a = world.add({.prompt = random_prompt(5, 1), .max_tokens = 3});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+5");
  const uint64_t b = world.add({.prompt = random_prompt(6, 2), .max_tokens = 4});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:5+1 2:0+6");
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:6+1 2:6+1");
  EXPECT_EQ(world.record(a).finish, FinishReason::Length);
  world.step();
  EXPECT_EQ(world.last_plan_text(), "2:7+1");
  world.run();
  EXPECT_EQ(world.record(b).output.size(), 4U);
}

// checklist 43: 8000 tokens at 2048 are 2048, 2048, 2048, 1856.  checklist 12: each prompt token is computed once.
TEST(Scheduler, ChunksALongPromptByTheBudget) {
  WorldOptions options = world_of(1, 2048, 4000);
  options.config.max_model_len = 9000;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(8000), .max_tokens = 1});
  std::vector<std::string> plans;
  for (int i = 0; i < 4; ++i) {
    world.step();
    plans.push_back(world.last_plan_text());
  }
  EXPECT_EQ(plans, (std::vector<std::string>{"1:0+2048", "1:2048+2048", "1:4096+2048", "1:6144+1856"}));
  EXPECT_EQ(world.scheduler().stats().scheduled_tokens, 8000);
}

// checklist 30, 45: while a long prompt is prefilled no decode misses a step, and prompts get the rest of the budget.
TEST(Scheduler, DecodesNeverWaitForPrefill) {
  SchedulerWorld world(world_of(4, 20));
  for (uint64_t i = 1; i <= 3; ++i) world.add({.prompt = random_prompt(5, i), .max_tokens = 100});
  world.step();
  world.add({.prompt = random_prompt(170, 9), .max_tokens = 5});
  for (int step = 0; step < 10; ++step) {
    world.step();
    const BatchPlan& plan = world.last_plan();
    ASSERT_EQ(plan.entries.size(), 4U);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.entries[i].phase, Phase::Decode);
    EXPECT_EQ(plan.entries[3].scheduled_token_count, 17);
    EXPECT_EQ(plan.entries[3].samples, step == 9);
  }
  world.run();
}

// checklist 28: a long prompt takes no more of a step than its share, and a short one goes beside it.
TEST(Scheduler, LongPrefillThresholdLeavesRoomForShortPrompts) {
  WorldOptions options = world_of(4, 32);
  options.config.long_prefill_token_threshold = 8;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(40, 1), .max_tokens = 2});
  world.add({.prompt = random_prompt(6, 2), .max_tokens = 2});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+8 2:0+6");
  world.run();
}

// checklist 19, 20: neither the token budget nor max_num_seqs is ever exceeded (the oracle checks each plan), and the
// gate that refused is counted (18).
TEST(Scheduler, CountsTheGateThatRefused) {
  SchedulerWorld world(world_of(2, 16));
  for (uint64_t i = 0; i < 3; ++i) world.add({.prompt = random_prompt(8, i), .max_tokens = 4});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+8 2:0+8");
  EXPECT_EQ(admissions(world, AdmissionResult::Accepted), 2);
  EXPECT_EQ(admissions(world, AdmissionResult::NoSpace), 1);
  world.run();
  SchedulerWorld narrow(world_of(4, 8));
  for (uint64_t i = 0; i < 2; ++i) narrow.add({.prompt = random_prompt(8, i), .max_tokens = 2});
  narrow.step();
  EXPECT_EQ(narrow.last_plan_text(), "1:0+8");
  EXPECT_EQ(admissions(narrow, AdmissionResult::NoTokenBudget), 1);
  narrow.run();
  SchedulerWorld small(world_of(4, 64, 4));
  small.add({.prompt = random_prompt(9, 1), .max_tokens = 2});
  small.add({.prompt = random_prompt(9, 2), .max_tokens = 2});
  small.step();
  EXPECT_EQ(small.last_plan_text(), "1:0+9");
  EXPECT_EQ(admissions(small, AdmissionResult::OutOfMemory), 1);
  small.run();
}

// checklist 33: order = order of arrival.
TEST(Scheduler, AdmitsInOrderOfArrival) {
  SchedulerWorld world(world_of(1, 16));
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 20; ++i) ids.push_back(world.add({.prompt = random_prompt(4, i), .max_tokens = 2}));
  world.run();
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_LT(world.record(ids[i - 1]).finish_step, world.record(ids[i]).first_token_step);
  }
}

// A request that does not fit does not hold up smaller ones, but is not passed for ever either.
TEST(Scheduler, SkipsAheadOfWhatDoesNotFitButNotForEver) {
  SchedulerWorld world(world_of(8, 64, 12));
  const auto add_small = [&world](uint64_t i) {
    return world.add({.prompt = random_prompt(3, 10 + i), .max_tokens = 2 + static_cast<int32_t>(i % 4)});
  };
  for (uint64_t i = 0; i < 6; ++i) add_small(i);
  world.step();
  const uint64_t large = world.add({.prompt = random_prompt(38, 2), .max_tokens = 2});  // needs 10 of 12 blocks at once
  uint64_t small = 0;
  for (uint64_t i = 0; i < 300; ++i) small = add_small(i);
  world.run();
  EXPECT_LT(world.record(large).first_token_step, world.record(small).first_token_step);
  int64_t passed = 0;
  for (const auto& [id, record] : world.records()) {
    passed += id > large && record.first_token_step < world.record(large).first_token_step;
  }
  EXPECT_GT(passed, 8);
  EXPECT_LE(passed, limits::kSkipAheadMax + 8);
}

// Nor where others, who come first by the policy, are now and then refused before it.
TEST(Scheduler, WhoIsRefusedBeforeItDoesNotMakeItWaitLonger) {
  class ByPriority final : public SchedulePolicy {
    Ranking ranking() const override { return Ranking::Stable; }
    bool rank(const StepView&, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) override {
      for (size_t i = 0; i < waiting.size(); ++i) keys[i].key0 = waiting[i]->request.priority;
      return true;
    }
  };
  ByPriority policy;
  SchedulerWorld world(world_of(16, 64, 32), &policy);
  std::vector<uint64_t> small;
  const auto add_small = [&] {
    const uint64_t i = small.size();
    small.push_back(
        world.add({.prompt = random_prompt(6, 10 + i), .max_tokens = 4 + static_cast<int32_t>(i % 4), .priority = 1}));
  };
  for (int i = 0; i < 12; ++i) add_small();
  world.step();
  const uint64_t large = world.add({.prompt = random_prompt(110, 2), .max_tokens = 2, .priority = 1});
  for (int step = 0; step < 2000 && world.record(large).output.empty(); ++step) {
    while (world.scheduler().waiting_count() < 6) add_small();
    if (step % 4 == 0) {  // the second waits while the first computes what both begin with
      const auto prompt = random_prompt(24, 1000 + static_cast<uint64_t>(step));
      for (int i = 0; i < 2; ++i) world.add({.prompt = prompt, .max_tokens = 2});
    }
    world.step();
  }
  ASSERT_FALSE(world.record(large).output.empty());
  int64_t passed = 0;
  for (const uint64_t id : small) {
    const auto& record = world.record(id);
    passed += id > large && !record.output.empty() && record.first_token_step < world.record(large).first_token_step;
  }
  EXPECT_GT(passed, 8);
  EXPECT_LE(passed, limits::kSkipAheadMax);
}

// checklist 60, 61, 64: out of blocks, the last admitted goes, waits in front, is computed again and ends with the same
// tokens; everybody finishes.
TEST(Scheduler, PreemptsTheLastAdmittedAndResumesItFirst) {
  WorldOptions options = world_of(4, 64, 8);
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options);
  const uint64_t a = world.add({.prompt = random_prompt(8, 1), .max_tokens = 12});
  const uint64_t b = world.add({.prompt = random_prompt(8, 2), .max_tokens = 12});
  world.step();
  const uint64_t c = world.add({.prompt = random_prompt(4, 3), .max_tokens = 2});
  int64_t preempted_at = 0;
  while (world.step()) {
    if (preempted_at == 0 && world.scheduler().stats().preemptions == 1) {
      preempted_at = world.now_step();
      EXPECT_EQ(world.scheduler().running_count(), 1);
    }
  }
  EXPECT_GT(preempted_at, 0);
  EXPECT_LT(world.record(a).finish_step, world.record(b).finish_step);
  EXPECT_NE(world.record(c).finish, FinishReason::None);
  EXPECT_GT(world.scheduler().stats().recomputed_tokens, 0);
}

// Preempts whoever is oldest, which would let two sequences throw each other out for ever.
class OldestFirst final : public SchedulePolicy {
 public:
  void pick_victims(const StepView& view, const Need&, std::vector<Sequence*>& victims) override {
    victims.push_back(view.running.front());
  }
};

// I5: whatever the policy says, the oldest running sequence makes progress.
TEST(Scheduler, ThePolicyCannotPreemptTheOldest) {
  OldestFirst policy;
  WorldOptions options = world_of(8, 64, 10);
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options, &policy);
  for (uint64_t i = 0; i < 10; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 30});
  world.run();
  EXPECT_GT(world.scheduler().stats().preemptions, 0);
  EXPECT_EQ(world.record(1).finish_step, 30);  // as if alone
}

class Listener final : public SchedulePolicy {
 public:
  uint32_t wanted_events() const override { return wanted ? 1U << static_cast<uint32_t>(EventType::CacheReset) : 0; }
  void on_events(std::span<const SchedulerEvent> events) override {
    heard.insert(heard.end(), events.begin(), events.end());
  }
  bool wanted = true;
  std::vector<SchedulerEvent> heard;
};

TEST(Scheduler, TellsThePolicyThatTheCacheWasReset) {
  for (const bool wanted : {true, false}) {
    Listener policy;
    policy.wanted = wanted;
    SchedulerWorld world(world_of(2, 64, 16), &policy);
    world.add({.prompt = random_prompt(8, 1), .max_tokens = 4});
    world.step();
    world.clock().advance(77);
    const TimeNs now = world.clock().now();
    world.scheduler().reset_prefix_cache(now);
    world.run();
    ASSERT_EQ(policy.heard.size(), wanted ? 1U : 0U);
    if (wanted) {
      EXPECT_EQ(policy.heard[0].type, EventType::CacheReset);
      EXPECT_EQ(policy.heard[0].time, now);
    }
  }
}

// checklist 84, 101: whoever leaves, in whatever state, gives its blocks back at once.
TEST(Scheduler, CancelFreesBlocksInEveryState) {
  WorldOptions options = world_of(3, 16, 16);
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options);
  const uint64_t decoding = world.add({.prompt = random_prompt(4, 1), .max_tokens = 50});
  const uint64_t chunking = world.add({.prompt = random_prompt(40, 2), .max_tokens = 5});
  const uint64_t waiting = world.add({.prompt = random_prompt(16, 3), .max_tokens = 5});
  world.step();
  world.step();
  const int32_t used = world.blocks().pool().referenced_count();
  world.cancel(waiting);
  EXPECT_EQ(world.blocks().pool().referenced_count(), used);
  world.cancel(chunking);
  EXPECT_EQ(world.blocks().pool().referenced_count(), used - 10);
  world.cancel(decoding);
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
  EXPECT_TRUE(world.scheduler().idle());
  for (const uint64_t id : {waiting, chunking, decoding}) EXPECT_EQ(world.record(id).finish, FinishReason::Abort);
  world.cancel(decoding);  // again: nothing happens
  world.scheduler().check_invariants();
}

TEST(Scheduler, CancelsAPreemptedSequence) {
  WorldOptions options = world_of(2, 64, 6);
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(8, 1), .max_tokens = 12});
  const uint64_t b = world.add({.prompt = random_prompt(8, 2), .max_tokens = 12});
  while (world.scheduler().stats().preemptions == 0) world.step();
  world.cancel(b);
  EXPECT_EQ(world.record(b).finish, FinishReason::Abort);
  world.run();
  world.scheduler().check_invariants();
}

// checklist 57: with overlap an end token is found one step late; its surplus token is dropped, its blocks come back.
TEST(Scheduler, OverlapDropsTheTokenPastTheEnd) {
  WorldOptions options = world_of(2, 64);
  options.overlap = true;
  SchedulerWorld world(options);
  const std::vector<TokenId> prompt = random_prompt(6, 1);
  const TokenId third = expected_output({.prompt = prompt, .max_tokens = 3}, options).output[2];
  const uint64_t a = world.add({.prompt = prompt, .max_tokens = 50, .end_tokens = {third}});
  world.run();
  EXPECT_EQ(world.record(a).finish, FinishReason::Stop);
  EXPECT_LE(world.record(a).output.size(), 3U);
  EXPECT_EQ(world.executor().computed_token_count(),
            static_cast<int64_t>(6 + world.record(a).output.size() - 1 + 1));  // one decode too many
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
}

TEST(Scheduler, OverlapNeverComputesPastTheLengthLimit) {
  WorldOptions options = world_of(2, 64);
  options.overlap = true;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(6, 1), .max_tokens = 5});
  world.run();
  EXPECT_EQ(world.executor().computed_token_count(), 6 + 4);
}

// checklist 93: the next turn finds prompt and output of the last, but for the block that was not full.
TEST(Scheduler, TheNextTurnFindsTheLastOne) {
  SchedulerWorld world(world_of(2, 64));
  RequestOptions turn{.prompt = random_prompt(10, 1), .max_tokens = 9};
  const uint64_t first = world.add(turn);
  world.run();
  turn.prompt.insert(turn.prompt.end(), world.record(first).output.begin(), world.record(first).output.end());
  turn.prompt.push_back(5);
  world.add(turn);
  world.run();
  // 19 tokens are known after turn 1, the K and V of 18 are stored: 4 full blocks.
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 16);
}

// checklist 97: requests with one trunk that arrive together compute it once and hold it once, in the same step.
TEST(Scheduler, TwinsInOneStepShareTheirTrunk) {
  SchedulerWorld world(world_of(8, 256));
  std::vector<TokenId> trunk = random_prompt(40, 1);
  for (int32_t i = 0; i < 4; ++i) {
    std::vector<TokenId> prompt = trunk;
    prompt.push_back(i);
    world.add({.prompt = prompt, .max_tokens = 3});
  }
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+41 2:40+1 3:40+1 4:40+1");
  EXPECT_EQ(world.blocks().pool().referenced_count(), 10 + 4);
  world.run();
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 3 * 40);
}

TEST(Scheduler, AWholePromptInStoreStillComputesItsLastToken) {
  SchedulerWorld world(world_of(2, 64));
  world.add({.prompt = random_prompt(8, 1), .max_tokens = 4});
  world.run();
  world.add({.prompt = random_prompt(8, 1), .max_tokens = 4});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "2:4+4");
  world.run();
}

// checklist 91: outputs are the same with prefix caching off (SchedulerWorld compares), and nothing is found.
TEST(Scheduler, WithoutPrefixCachingNothingIsFound) {
  WorldOptions options = world_of(2, 64);
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options);
  for (int i = 0; i < 2; ++i) {
    world.add({.prompt = random_prompt(16, 1), .max_tokens = 4});
    world.run();
  }
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 0);
}

// checklist 98, 99: finish reasons and exact lengths.
TEST(Scheduler, EndsByStopAndByLength) {
  SchedulerWorld world(world_of(4, 64));
  const std::vector<TokenId> prompt = random_prompt(6, 1);
  const uint64_t full = world.add({.prompt = prompt, .max_tokens = 7});
  const uint64_t stop = world.add({.prompt = prompt,
                                   .max_tokens = 7,
                                   .end_tokens = {expected_output({.prompt = prompt, .max_tokens = 4}, {}).output[3]}});
  world.run();
  EXPECT_EQ(world.record(full).finish, FinishReason::Length);
  EXPECT_EQ(world.record(full).output.size(), 7U);
  EXPECT_EQ(world.record(stop).finish, FinishReason::Stop);
  EXPECT_LE(world.record(stop).output.size(), 4U);
}

TEST(Scheduler, EndsAtTheModelsContextLength) {
  WorldOptions options = world_of(2, 64);
  options.config.max_model_len = 20;
  SchedulerWorld world(options);
  const uint64_t a = world.add({.prompt = random_prompt(15, 1), .max_tokens = 100});
  world.run();
  EXPECT_EQ(world.record(a).output.size(), 5U);
  EXPECT_EQ(world.record(a).finish, FinishReason::Length);
}

// checklist 14: outputs of 50, 60, 400 and 80 tokens: the short ones end at their own length, not at the longest one's.
TEST(Scheduler, ShortRequestsDoNotWaitForLongOnes) {
  SchedulerWorld world(world_of(4, 64));
  std::vector<uint64_t> ids;
  for (const int32_t length : {50, 60, 400, 80}) {
    ids.push_back(world.add({.prompt = random_prompt(1, static_cast<uint64_t>(length)), .max_tokens = length}));
  }
  EXPECT_EQ(world.run(), 400);
  EXPECT_EQ(world.record(ids[0]).finish_step, 50);
  EXPECT_EQ(world.record(ids[1]).finish_step, 60);
  EXPECT_EQ(world.record(ids[2]).finish_step, 400);
  EXPECT_EQ(world.record(ids[3]).finish_step, 80);
}

// checklist 81: with paging, whoever needs no more blocks than are free is admitted, however scattered they are.
TEST(Scheduler, FragmentationNeverRefuses) {
  WorldOptions options = world_of(16, 256, 64);
  options.blocks.shuffle_seed = 3;
  options.blocks.prefix_caching = false;
  SchedulerWorld world(options);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 16; ++i) ids.push_back(world.add({.prompt = random_prompt(12, i), .max_tokens = 50}));
  world.step();
  for (size_t i = 0; i < ids.size(); i += 2) world.cancel(ids[i]);
  const int32_t free = world.blocks().pool().free_count();
  world.add({.prompt = random_prompt(4 * free - 8 * 4 - 1, 99), .max_tokens = 1});
  world.step();
  EXPECT_EQ(admissions(world, AdmissionResult::OutOfMemory), 0);
  for (size_t i = 1; i < ids.size(); i += 2) world.cancel(ids[i]);
  world.run();
}

TEST(Scheduler, ResultsWithoutFiniteLogitsEndTheirRequestOnly) {
  EvictPolicy lru;
  SchedulePolicy fcfs;
  KvBlocks blocks({.block_count = 16, .block_token_count = 4}, lru);
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 16, .max_model_len = 32}, blocks, fcfs);
  for (uint64_t i = 1; i <= 2; ++i) {
    Request request;
    request.id = static_cast<RequestId>(i);
    request.prompt = random_prompt(4, i);
    scheduler.add(std::move(request), 0);
  }
  const BatchPlan& plan = scheduler.plan(0);
  StepResult result{.step = plan.step, .sampled = {}, .duration = 1};
  for (const BatchEntry& entry : plan.entries) {
    result.sampled.push_back({entry.sequence, 3, -1.0F, result.sampled.empty()});
  }
  scheduler.commit(result, 1);
  ASSERT_EQ(scheduler.output().finished.size(), 1U);
  EXPECT_EQ(scheduler.output().finished[0].reason, FinishReason::Error);
  EXPECT_EQ(to_integer(scheduler.output().finished[0].request), 2U);
  EXPECT_EQ(scheduler.running_count(), 1);
  scheduler.check_invariants();
}

}  // namespace
}  // namespace inflight::test
