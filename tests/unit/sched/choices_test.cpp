// SPDX-License-Identifier: Apache-2.0
// Goal: n answers to one prompt cost one prompt; each is what a request with its seed gives alone; none of them leaves
// anything behind (checklist 93's copy-on-write, 97). Tokens that the host draws and logprobs of the prompt come out
// once each. Method: the scheduler above the oracle; the random simulation does the same under pressure.
// Covers: sched/scheduler_choices.cpp
#include <gtest/gtest.h>

#include <set>

#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions choices_world(bool overlap, bool prefix_caching = true) {
  WorldOptions options;
  options.overlap = overlap;
  options.blocks.prefix_caching = prefix_caching;
  return options;
}

std::vector<TokenId> prompt_of(int32_t count) {
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < count; ++i) prompt.push_back(i % 7);
  return prompt;
}

TEST(Choices, ShareThePromptAndDiverge) {
  for (const bool prefix_caching : {true, false}) {
    SchedulerWorld world(choices_world(false, prefix_caching));
    const uint64_t id = world.add({.prompt = prompt_of(11), .max_tokens = 6, .n = 3, .seed = 5});
    EXPECT_EQ(world.scheduler().held_count(), 2);
    world.step();
    EXPECT_EQ(world.last_plan_text(), "1:0+11");
    world.step();  // two whole blocks are shared, [8, 10) is copied, token 10 is computed again
    EXPECT_EQ(world.last_plan_text(), "1:11+1 1.1:10+1 1.2:10+1");
    EXPECT_EQ(world.executor().copied_block_count(), 2);
    EXPECT_EQ(world.blocks().pool().referenced_count(), 2 + 3);
    world.scheduler().check_invariants();
    world.run();
    std::set<std::vector<TokenId>> outputs;
    for (int32_t choice = 0; choice < 3; ++choice) {
      EXPECT_EQ(world.record(id, choice).finish, FinishReason::Length);
      outputs.insert(world.record(id, choice).output);
    }
    EXPECT_EQ(outputs.size(), 3U);
    EXPECT_EQ(world.executor().computed_token_count(), 11 + 2 + 3 * 5);
    EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
    EXPECT_TRUE(world.scheduler().idle());
  }
}

// Nothing is copied when the prompt's last token begins a block.
TEST(Choices, CopyNothingAtABlockBoundary) {
  SchedulerWorld world(choices_world(true));
  world.add({.prompt = prompt_of(9), .max_tokens = 3, .n = 4});
  world.run();
  EXPECT_EQ(world.executor().copied_block_count(), 0);
  EXPECT_EQ(world.executor().computed_token_count(), 9 + 3 + 4 * 2);
}

TEST(Choices, WaitForTheFirstOnlyWhileItComputesThePrompt) {
  WorldOptions options = choices_world(false);
  options.config.long_prefill_token_threshold = 4;
  SchedulerWorld world(options);
  const uint64_t id = world.add({.prompt = prompt_of(10), .max_tokens = 1, .n = 2, .seed = 9});
  for (const char* plan : {"1:0+4", "1:4+4", "1:8+2"}) {
    EXPECT_EQ(world.scheduler().held_count(), 1);
    world.step();
    EXPECT_EQ(world.last_plan_text(), plan);
  }
  // The first one has ended with its only token: the other finds the prompt in the tree.
  EXPECT_EQ(world.record(id).finish, FinishReason::Length);
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1.1:8+2");
  world.run();
  EXPECT_EQ(world.record(id, 1).output.size(), 1U);
}

// checklist 101: cancelled in every state, all choices go and their blocks with them.
TEST(Choices, CancelEndsAllOfThem) {
  for (int steps = 0; steps < 5; ++steps) {
    WorldOptions options = choices_world(true);
    options.config.max_num_seqs = 2;  // one choice waits
    SchedulerWorld world(options);
    const uint64_t id = world.add({.prompt = prompt_of(10), .max_tokens = 50, .n = 4});
    for (int i = 0; i < steps; ++i) world.step();
    world.cancel(id);
    EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
    EXPECT_EQ(world.scheduler().held_count() + world.scheduler().waiting_count(), 0);
    for (int32_t choice = 0; choice < 4; ++choice) EXPECT_EQ(world.record(id, choice).finish, FinishReason::Abort);
    world.run();
    world.scheduler().check_invariants();
  }
}

TEST(Choices, OneCanBeEndedAlone) {
  SchedulerWorld world(choices_world(false));
  const uint64_t id = world.add({.prompt = prompt_of(5), .max_tokens = 4, .n = 3});
  world.step();
  Scheduler& scheduler = world.scheduler();
  EXPECT_FALSE(scheduler.cancel_choice(RequestId{id}, 3, FinishReason::Stop, 0));
  EXPECT_TRUE(scheduler.cancel_choice(RequestId{id}, 0, FinishReason::Stop, 0));
  EXPECT_FALSE(scheduler.cancel_choice(RequestId{id}, 0, FinishReason::Stop, 0));
  EXPECT_EQ(scheduler.output().finished.size(), 1U);
  EXPECT_EQ(scheduler.output().finished[0].reason, FinishReason::Stop);
  scheduler.output().clear();
  scheduler.check_invariants();
  world.run();
  EXPECT_EQ(world.record(id, 1).finish, FinishReason::Length);
  EXPECT_EQ(world.record(id, 2).finish, FinishReason::Length);
}

// A block's hits are the requests that found it: further choices and returns after a preemption are none.
TEST(Choices, FindAStoredPrefixOnceARequest) {
  WorldOptions options = choices_world(true);
  options.blocks.block_count = 66;
  SchedulerWorld world(options);
  const std::vector<TokenId> prompt = prompt_of(30);
  world.add({.prompt = prompt, .max_tokens = 1});
  world.run();
  const std::vector<PrefixKey> keys = {child_key(root_key(0), std::span(prompt).first(4))};
  std::vector<BlockId> found;
  world.blocks().match(0, keys, prompt, found);
  ASSERT_EQ(found.size(), 1U);
  const auto hits = [&] { return world.blocks().tree().node(found[0]).hit_count; };
  EXPECT_EQ(hits(), 0);
  world.add({.prompt = prompt, .max_tokens = 60, .n = 20, .seed = 3});
  world.run();
  EXPECT_GT(world.scheduler().stats().preemptions, 0);
  EXPECT_EQ(hits(), 1);
  world.add({.prompt = prompt, .max_tokens = 1});
  world.run();
  EXPECT_EQ(hits(), 2);
}

// More choices than rows and blocks for them: preempted ones come back with the same tokens (checklist 60, 61).
TEST(Choices, SurvivePreemption) {
  for (const PreemptMode mode : {PreemptMode::Recompute, PreemptMode::Swap}) {
    WorldOptions options = choices_world(true);
    options.blocks.block_count = 66;
    options.config.preempt = mode;
    options.config.host_blocks = mode == PreemptMode::Swap ? 100 : 0;
    SchedulerWorld world(options);
    const uint64_t id = world.add({.prompt = prompt_of(30), .max_tokens = 60, .n = 20, .seed = 3});
    world.run();
    EXPECT_GT(world.scheduler().stats().preemptions, 0);
    for (int32_t choice = 0; choice < 20; ++choice) EXPECT_EQ(world.record(id, choice).output.size(), 60U);
  }
}

// While the host draws the first request's three tokens no step is planned before they are read, then overlap goes on.
TEST(HostSampling, IsNeverPlannedPast) {
  SchedulerWorld world(choices_world(true));
  world.add({.prompt = prompt_of(5), .max_tokens = 3, .host_draws = true});
  const uint64_t id = world.add({.prompt = prompt_of(6), .max_tokens = 6});
  for (size_t tokens : {1U, 2U, 3U, 3U, 4U}) {
    world.step();
    EXPECT_EQ(world.record(id).output.size(), tokens);
  }
  world.run();
  EXPECT_EQ(world.executor().host_sampled_count(), 3);
  EXPECT_EQ(world.record(id).output.size(), 6U);
}

TEST(PromptLogprobs, AreToldOnceForEveryTokenWhateverIsStored) {
  WorldOptions options = choices_world(true);
  options.config.max_num_batched_tokens = 100;
  SchedulerWorld world(options);
  world.add({.prompt = prompt_of(90), .max_tokens = 1});
  world.run();
  const uint64_t id = world.add({.prompt = prompt_of(90), .max_tokens = 3, .prompt_logprobs = true});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "2:0+90");
  EXPECT_EQ(world.last_plan().entries[0].prompt_logprobs_wanted, 89);
  world.run();
  EXPECT_EQ(world.record(id).told_prompt_tokens, 89);
}

}  // namespace
}  // namespace inflight::test
