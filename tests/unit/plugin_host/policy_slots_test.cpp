// SPDX-License-Identifier: Apache-2.0
// Covers: plugin_host/policy_slots.cpp, plugin_host/policy_shadow.cpp, plugin_host/policy_state.cpp
// Goal: a policy is replaced in the middle of a run without a lost request: while on trial it changes nothing, a good
// one takes over with the old one's state, a bad one never does.
// Method: one seeded workload over the oracle with replacements in it; the plans until the takeover must be those of
// the run without a replacement.
#include "plugin_host/policy_slots.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "plugin_host/policy_state.h"
#include "support/loaded_policies.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

WorldOptions pressed() {
  WorldOptions options;
  options.config = {.max_num_seqs = 5, .max_num_batched_tokens = 32, .max_model_len = 100, .max_requests = 1000};
  options.blocks = {.block_count = 40, .block_token_count = 4};
  return options;
}
SchedulerSetup setup() { return setup_of(pressed()); }
PolicyOptions quiet() { return {.report_folder = ""}; }

class SwapWorld {
 public:
  explicit SwapWorld(const std::string& schedule = "fcfs", const std::string& eviction = "lru")
      : slots_(make_schedule_policy(schedule, setup(), quiet()), make_eviction_policy(eviction, setup(), quiet())),
        world_(pressed(), &slots_.schedule(), &slots_.eviction()) {
    slots_.connect(world_.scheduler(), world_.blocks());
  }
  void replace_schedule(const std::string& spec) {
    slots_.replace(make_schedule_policy(spec, setup(), quiet()), world_.clock().now());
  }
  void replace_eviction(const std::string& spec) {
    slots_.replace(make_eviction_policy(spec, setup(), quiet()), world_.clock().now());
  }
  // Some steps with arrivals; the plans as text.
  std::vector<std::string> run(int steps) {
    std::vector<std::string> plans;
    for (int i = 0; i < steps; ++i) {
      if (rng_.chance(0.6)) {
        std::vector<TokenId> prompt(static_cast<size_t>(rng_.between(1, 40)), 5);
        for (size_t k = prompt.size() / 2; k < prompt.size(); ++k) prompt[k] = rng_.between(0, 63);
        world_.add(
            {.prompt = prompt, .max_tokens = rng_.between(1, 20), .tenant = static_cast<uint32_t>(rng_.between(0, 2))});
      }
      world_.step();
      slots_.advance();
      plans.push_back(world_.last_plan_text());
      if (i % 16 == 0) world_.scheduler().check_invariants();
    }
    return plans;
  }
  void finish() {
    while (world_.step()) slots_.advance();
    for (const auto& [id, record] : world_.records()) EXPECT_EQ(record.finish, FinishReason::Length) << id;
    EXPECT_EQ(world_.blocks().pool().referenced_count(), 0);
  }
  void step_without_advancing() { world_.step(); }
  PolicySlots& slots() { return slots_; }

 private:
  PolicySlots slots_;
  SchedulerWorld world_;
  Rng rng_{6};
};

std::string in_force(const PolicySlots& slots) { return slots.schedule().instance().policy().id; }

// checklist 32: another policy takes over in the middle of a run.
TEST(PolicySlots, ACandidateChangesNothingUntilItTakesOver) {
  for (const char* candidate : {"lof", "random", "vtc", "lpm", "itl-target"}) {
    SwapWorld alone, swapped;
    EXPECT_EQ(swapped.run(40), alone.run(40));
    swapped.replace_schedule(shipped_plugin(candidate));
    const auto steps = static_cast<int>(PolicySlots::kShadowSteps) - 1;
    EXPECT_EQ(swapped.run(steps), alone.run(steps)) << candidate;
    EXPECT_TRUE(swapped.slots().on_trial());
    EXPECT_EQ(in_force(swapped.slots()), "org.inflight.fcfs");
    swapped.run(2);
    EXPECT_FALSE(swapped.slots().on_trial());
    EXPECT_EQ(in_force(swapped.slots()), std::string("org.inflight.") + candidate);
    ASSERT_TRUE(swapped.slots().last_swap());
    EXPECT_TRUE(swapped.slots().last_swap()->taken_over);
    EXPECT_EQ(swapped.slots().last_swap()->counts.steps, PolicySlots::kShadowSteps);
    EXPECT_EQ(swapped.slots().takeover_count(), 1);
    swapped.run(60);
    swapped.finish();
    EXPECT_EQ(swapped.slots().strike_count(), 0);
  }
}

TEST(PolicySlots, TheSamePolicyAgreesOnEverythingAndAnotherDoesNot) {
  SwapWorld same;
  same.run(40);
  same.replace_schedule(shipped_plugin("fcfs"));
  same.run(70);
  EXPECT_GT(same.slots().last_swap()->counts.order.all, 5);
  EXPECT_EQ(same.slots().last_swap()->counts.order.differing, 0);
  EXPECT_EQ(same.slots().last_swap()->counts.victims.differing, 0);
  same.replace_schedule(shipped_plugin("random"));
  same.run(70);
  EXPECT_GT(same.slots().last_swap()->counts.order.differing, 0);
  same.finish();
}

TEST(PolicySlots, BuiltInOnesTakeOverAfterOneStep) {
  SwapWorld world;
  world.run(20);
  world.replace_schedule("srtf");  // not loaded from a file by any test
  world.run(1);
  EXPECT_EQ(in_force(world.slots()), "org.inflight.srtf");
  world.replace_eviction("mru");
  world.run(1);
  EXPECT_STREQ(world.slots().eviction().instance().policy().id, "org.inflight.mru");
  world.run(100);
  world.finish();
}

// A replay ends each trial where it ended in the engine.
TEST(PolicySlots, EndingOneTrialLeavesTheOther) {
  SwapWorld world;
  world.run(20);
  world.replace_schedule("srtf");  // due after one step
  world.replace_eviction(shipped_plugin("sieve"));
  world.step_without_advancing();
  world.slots().end_trial(INFLIGHT_KIND_EVICT);
  EXPECT_EQ(world.slots().eviction().instance().policy().id, std::string("org.inflight.sieve"));
  EXPECT_EQ(in_force(world.slots()), "org.inflight.fcfs");
  world.slots().end_trial(INFLIGHT_KIND_SCHED);
  EXPECT_EQ(in_force(world.slots()), "org.inflight.srtf");
  world.finish();
}

TEST(PolicySlots, AMistakeOnTrialKeepsTheOldPolicy) {
  for (const char* bad : {"faulty.ifp.so:fault=error", "faulty.ifp.so:fault=duplicate", "hostile.ifp.so:fault=segv",
                          "hostile.ifp.so:fault=throw"}) {
    SwapWorld alone, swapped;
    alone.run(30);
    swapped.run(30);
    swapped.replace_schedule(std::string(TEST_PLUGIN_DIR) + "/" + bad);
    EXPECT_EQ(swapped.run(100), alone.run(100)) << bad;
    EXPECT_EQ(in_force(swapped.slots()), "org.inflight.fcfs");
    EXPECT_FALSE(swapped.slots().on_trial());
    EXPECT_FALSE(swapped.slots().last_swap()->taken_over);
    EXPECT_GE(swapped.slots().strike_count(), 1);
    swapped.finish();
  }
}

// One that picks is asked while one that ranks is in force, too.
TEST(PolicySlots, AStrategyOnTrialIsAskedWhomItWouldPick) {
  SwapWorld swapped;
  swapped.run(60);
  swapped.replace_eviction(std::string(TEST_PLUGIN_DIR) + "/faulty_evict.ifp.so#faulty-pick:fault=bad_unit");
  swapped.run(200);
  ASSERT_TRUE(swapped.slots().last_swap());
  EXPECT_FALSE(swapped.slots().last_swap()->taken_over);
  EXPECT_EQ(swapped.slots().eviction().instance().policy().id, std::string("org.inflight.lru"));
  swapped.replace_eviction(shipped_plugin("sieve"));
  swapped.run(200);
  EXPECT_TRUE(swapped.slots().last_swap()->taken_over);
  EXPECT_GT(swapped.slots().last_swap()->counts.victims.all, 0);
  swapped.finish();
}

TEST(PolicySlots, AnotherCandidateReplacesTheOneOnTrial) {
  SwapWorld world;
  world.run(20);
  world.replace_schedule(shipped_plugin("lof"));
  world.run(10);
  world.replace_schedule(shipped_plugin("edf"));
  world.run(70);
  EXPECT_EQ(in_force(world.slots()), "org.inflight.edf");
  EXPECT_EQ(world.slots().takeover_count(), 1);
  world.finish();
}

TEST(PolicySlots, EvictionStrategiesAreReplacedTheSameWay) {
  for (const char* candidate : {"s3fifo", "sieve", "gdsf", "fifo"}) {
    SwapWorld alone, swapped;
    alone.run(60);
    swapped.run(60);
    swapped.replace_eviction(shipped_plugin(candidate));
    const auto steps = static_cast<int>(PolicySlots::kShadowSteps) - 1;
    EXPECT_EQ(swapped.run(steps), alone.run(steps)) << candidate;
    EXPECT_TRUE(swapped.slots().trial(INFLIGHT_KIND_EVICT)) << candidate;
    swapped.run(80);
    EXPECT_EQ(swapped.slots().last_swap()->counts.steps, PolicySlots::kShadowSteps);
    EXPECT_EQ(swapped.slots().eviction().instance().policy().id, std::string("org.inflight.") + candidate);
    swapped.finish();
    EXPECT_EQ(swapped.slots().strike_count(), 0);
  }
}

// Of vtc: the counters that a second version starts with are those of the first.
std::string state_of(PolicyInstance& instance) {
  std::string bytes;
  const inflight_writer_t writer{&bytes, [](void* context, const void* from, uint64_t count) -> int64_t {
                                   static_cast<std::string*>(context)->append(static_cast<const char*>(from), count);
                                   return static_cast<int64_t>(count);
                                 }};
  EXPECT_EQ(instance.policy().sched->save(instance.self(), &writer), INFLIGHT_PLUGIN_OK);
  return bytes;
}

// vtc counts who waits: to be told of a request twice would keep its tenant from ever being idle.
TEST(PolicySlots, WhoIsInForceIsNotToldAgainOfRequestsThatCandidatesLearnOf) {
  SwapWorld alone("vtc"), swapped("vtc");
  EXPECT_EQ(swapped.run(40), alone.run(40));
  swapped.replace_schedule(shipped_plugin("lof"));
  swapped.replace_schedule(std::string(TEST_PLUGIN_DIR) + "/hostile.ifp.so:fault=segv");  // before any step
  EXPECT_EQ(swapped.run(400), alone.run(400));
  EXPECT_EQ(in_force(swapped.slots()), "org.inflight.vtc");
  EXPECT_EQ(state_of(swapped.slots().schedule().instance()), state_of(alone.slots().schedule().instance()));
}

TEST(PolicySlots, StateIsHandedOver) {
  SwapWorld kept("vtc"), swapped("vtc");
  kept.run(50);
  swapped.run(50);
  swapped.replace_schedule(shipped_plugin("vtc"));
  EXPECT_EQ(swapped.run(66), kept.run(66));
  EXPECT_EQ(swapped.slots().takeover_count(), 1);
  EXPECT_GT(state_of(kept.slots().schedule().instance()).size(), 8U);
  EXPECT_EQ(state_of(swapped.slots().schedule().instance()), state_of(kept.slots().schedule().instance()));
  EXPECT_EQ(swapped.run(100), kept.run(100));
  EXPECT_EQ(swapped.slots().last_swap()->counts.order.differing, 0);
}

TEST(PolicyState, GoesToTheSamePolicyOfAFittingVersionOnly) {
  const auto vtc = make_schedule_policy("vtc", setup(), {}),
             file = make_schedule_policy(shipped_plugin("vtc"), setup(), {});
  const auto fcfs = make_schedule_policy("fcfs", setup(), {});
  const auto sneaky = make_schedule_policy(test_plugin("sneaky"), setup(), {});
  EXPECT_TRUE(can_hand_over_state(vtc->instance(), file->instance()));
  EXPECT_FALSE(can_hand_over_state(vtc->instance(), fcfs->instance()));
  EXPECT_FALSE(can_hand_over_state(sneaky->instance(), vtc->instance()));
}

}  // namespace
}  // namespace inflight::test
