// SPDX-License-Identifier: Apache-2.0
// Covers: sched/scheduler_states.cpp, cache/kept_states.cpp
// Goal: a sequence with a state begins where one was left, and only there; states are left where the next one begins.
// Method: the oracle demands of every entry the state of just its tokens so far; counters are compared with what the
// script implies.
#include <gtest/gtest.h>

#include <array>

#include "cache/kept_states.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions with_states(int32_t kept_states) {
  WorldOptions world;
  world.config.has_state = true;
  world.config.kept_states = kept_states;
  world.blocks = {.block_count = 256, .block_token_count = 4};
  return world;
}

std::vector<TokenId> joined(std::vector<TokenId> first, const std::vector<TokenId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// checklist 91, 93: the same again, and a next turn that differs in the last tokens, begin behind the last whole block
// that ends 16 tokens before the first one's last: 42 - 1 - 16 in blocks of 4.
TEST(States, AreLeftBehindPrompts) {
  SchedulerWorld world(with_states(8));
  const std::vector<TokenId> prompt = random_prompt(42, 1);
  const SchedulerStats& stats = world.scheduler().stats();
  world.add({.prompt = prompt});
  world.run();
  EXPECT_EQ(stats.cached_tokens, 0);
  EXPECT_EQ(world.scheduler().kept_states().kept_count(), 2);  // and behind the answer
  world.add({.prompt = prompt});
  world.run();
  EXPECT_EQ(stats.cached_tokens, 24);
  world.add({.prompt = joined({prompt.begin(), prompt.end() - 16}, random_prompt(30, 2))});
  world.run();
  EXPECT_EQ(stats.cached_tokens, 48);
  EXPECT_EQ(world.executor().moved_state_count(), 2);
  world.scheduler().check_invariants();
}

// A next turn that has the answer in it begins behind the answer's last whole block that was computed: of 42 + 30
// tokens, of which the last one was not, 68. A sequence has one place for these, whatever its answer's length.
TEST(States, AreLeftBehindAnswers) {
  for (const bool overlap : {false, true}) {
    WorldOptions options = with_states(8);
    options.overlap = overlap;
    SchedulerWorld world(options);
    const std::vector<TokenId> prompt = random_prompt(42, 1);
    world.add({.prompt = prompt, .max_tokens = 30});
    world.run();
    EXPECT_EQ(world.scheduler().kept_states().kept_count(), 2);
    const std::vector<TokenId> turn = joined(joined(prompt, world.record(1).output), random_prompt(9, 2));
    world.add({.prompt = turn, .max_tokens = 2});
    world.run();
    EXPECT_EQ(world.scheduler().stats().cached_tokens, 68);
    world.scheduler().check_invariants();
  }
}

// Of 24 tokens in common the second leaves the state, so the third begins there; chunks cut elsewhere.
TEST(States, AreLeftWherePrefixesPart) {
  WorldOptions options = with_states(8);
  options.config.long_prefill_token_threshold = 9;
  SchedulerWorld world(options);
  const std::vector<TokenId> shared = random_prompt(26, 3);
  const SchedulerStats& stats = world.scheduler().stats();
  const int64_t expected[] = {0, 0, 24, 24};
  int64_t cached = 0;
  for (uint64_t i = 0; i < 4; ++i) {
    world.add({.prompt = joined(shared, random_prompt(20, 10 + i))});
    world.run();
    cached += expected[i];
    EXPECT_EQ(stats.cached_tokens, cached) << i;
  }
}

// checklist 97: whoever could begin with a state that is on its way waits for it: 4 choices and 3 requests compute a
// prompt once, but for their last tokens.
TEST(States, AreWaitedFor) {
  SchedulerWorld world(with_states(8));
  const std::vector<TokenId> prompt = random_prompt(41, 5);
  world.add({.prompt = prompt, .n = 4});
  for (int i = 0; i < 3; ++i) world.add({.prompt = prompt});
  world.run();
  // The second begins behind 24 tokens, and leaves a state where its match ends.
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 24 + 5 * 40);
}

// checklist 61: a preempted sequence comes back behind its prompt, not to its beginning.
TEST(States, BringBackPreemptedSequences) {
  WorldOptions options = with_states(8);
  options.config.max_num_seqs = 2;
  options.config.priority_preemption_threshold = 0;
  SchedulerWorld world(options);
  for (int i = 0; i < 2; ++i)
    world.add({.prompt = random_prompt(41, 20U + static_cast<uint64_t>(i)), .max_tokens = 40, .priority = 5});
  for (int i = 0; i < 12; ++i) world.step();
  world.add({.prompt = random_prompt(9, 30), .priority = 0});
  world.run();
  EXPECT_EQ(world.scheduler().stats().preemptions, 1);
  EXPECT_LE(world.scheduler().stats().recomputed_tokens, 40);
  EXPECT_GE(world.executor().moved_state_count(), 1);
}

// Without places, or with prefixes off, everybody computes everything; states leave with their blocks.
TEST(States, NeedPlacesAndBlocks) {
  const std::vector<TokenId> prompt = random_prompt(42, 1);
  SchedulerWorld none(with_states(0));
  WorldOptions off = with_states(8);
  off.blocks.prefix_caching = false;
  SchedulerWorld uncached(off), reset(with_states(8));
  for (SchedulerWorld* const world : {&none, &uncached, &reset}) {
    for (int i = 0; i < 2; ++i) {
      world->add({.prompt = prompt, .n = 2});
      world->run();
      world->scheduler().reset_prefix_cache(0);
      EXPECT_EQ(world->scheduler().kept_states().kept_count(), 0);
    }
    world->scheduler().check_invariants();
  }
  EXPECT_EQ(none.scheduler().stats().cached_tokens, 0);
  EXPECT_EQ(uncached.scheduler().stats().cached_tokens, 0);
  EXPECT_EQ(reset.scheduler().stats().cached_tokens, 2 * 24);  // the second choices
}

constexpr BlockId kA{1}, kB{2}, kC{3};

TEST(KeptStates, AreFoundBehindTheLastBlockThatHasOne) {
  KeptStates states(8, 4);
  const BlockId blocks[] = {kA, kB, kC};
  EXPECT_EQ(states.find(blocks, 9).place, -1);
  const int32_t first = *states.take(1), second = *states.take(2);
  states.keep(first, kA);
  states.keep(second, kC);
  EXPECT_EQ(states.find(blocks, 3).block_count, 3);
  EXPECT_EQ(states.find(blocks, 3).place, second);
  EXPECT_EQ(states.find(blocks, 2).place, first) << "the second comes with step 2";
  EXPECT_EQ(states.find(std::span(blocks).first(2), 3).block_count, 1);
  states.on_evict(kC);
  EXPECT_EQ(states.find(blocks, 3).place, first);
  states.check_invariants();
}

TEST(KeptStates, OneBlocksPlaceIsTakenForAnother) {
  KeptStates states(8, 3);
  const int32_t first = *states.take(1), second = *states.take(1);
  states.keep(first, kA);
  states.keep(second, kB);
  EXPECT_EQ(states.take_that_of(kB, 2), second);
  states.keep(second, kC);
  states.use(second, 3);
  const std::optional<int32_t> other = states.take_that_of(kC, 3);  // step 3 begins with it
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(*other, second);
  EXPECT_EQ(states.find(std::array{kA, kB, kC}, 4).place, second);
  states.check_invariants();
}

TEST(KeptStates, GiveWayByLastUse) {
  KeptStates states(8, 2);
  const int32_t first = *states.take(1), second = *states.take(1);
  EXPECT_FALSE(states.take(2).has_value()) << "both are on their way";
  states.keep(first, kA);
  states.keep(second, kB);
  states.use(first, 5);
  EXPECT_EQ(states.take(6), second);
  EXPECT_EQ(states.kept_count(), 1);
  EXPECT_FALSE(states.take(5).has_value()) << "step 5 begins with the other";
  states.keep(second, kA);  // has one: the place is free
  EXPECT_EQ(states.taken_count(), 0);
  EXPECT_EQ(states.take(7), second);
  states.check_invariants();
}

}  // namespace
}  // namespace inflight::test
