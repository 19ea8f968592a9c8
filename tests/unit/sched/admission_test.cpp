// SPDX-License-Identifier: Apache-2.0
// Goal: admission keeps the room that its knobs ask for, delays twins instead of computing twice, and its limits can be
// changed while it runs.
// Method: the published formulas worked out by hand; monotone behaviour on one random workload.
// Covers: sched/scheduler_admission.cpp
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "sched/new_token_ratio.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions admission_world(int32_t slots, int32_t blocks) {
  WorldOptions world;
  world.config = {
      .max_num_seqs = slots, .max_num_batched_tokens = 256, .max_model_len = blocks * 4, .max_requests = 4096};
  world.blocks = {.block_count = blocks, .block_token_count = 4};
  return world;
}

// checklist 73: 0.7 falls by (0.7 - 0.098) / 600 a decode step; after a preemption (out + 20 n) / (max + 1).
TEST(NewTokenRatio, FollowsSglangsFormula) {
  NewTokenRatio ratio(1.0);
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7);
  ratio.on_decode_step();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7 - (0.7 - 0.7 * 0.14) / 600.0);
  for (int i = 0; i < 599; ++i) ratio.on_decode_step();
  EXPECT_NEAR(ratio.value(), 0.098, 1e-12);
  for (int i = 0; i < 10; ++i) ratio.on_decode_step();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7 * 0.14);
  ratio.on_preemption(3, 100, 999);
  EXPECT_DOUBLE_EQ(ratio.value(), 0.16);
  ratio.on_preemption(3, 1000, 999);
  EXPECT_DOUBLE_EQ(ratio.value(), 1.0);
  ratio.on_idle();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7);
  EXPECT_DOUBLE_EQ(NewTokenRatio(2.0).value(), 1.0);
  NewTokenRatio none(0.0);
  none.on_preemption(3, 100, 999);
  EXPECT_EQ(none.value(), 0.0);
}

// The arithmetic of SGLang's add_one_req with pages of 4. In step 2 the running sequence holds 3 blocks (8 prompt
// tokens, one sampled, one on its way) and may make 18 more, of which 0.7 count: ceil(12.6) = 13. The newcomer wants 8
// prompt tokens, its 30 output tokens and a page: 42, which must be less than 4 * (blocks - 3) - 13: so 17 blocks,
// not 16.
TEST(Admission, ReservesAShareOfWhatRunningSequencesMayProduce) {
  for (const int32_t blocks : {16, 17}) {
    WorldOptions options = admission_world(4, blocks);
    options.config.schedule_conservativeness = 1.0;
    SchedulerWorld world(options);
    world.add({.prompt = random_prompt(8, 1), .max_tokens = 20});
    world.step();
    EXPECT_DOUBLE_EQ(world.scheduler().new_token_ratio(), 0.7);
    world.add({.prompt = random_prompt(8, 2), .max_tokens = 30});
    world.step();
    EXPECT_EQ(world.scheduler().running_count(), blocks == 17 ? 2 : 1);
    EXPECT_EQ(world.scheduler().stats().admissions[static_cast<size_t>(AdmissionResult::OutOfMemory)],
              blocks == 17 ? 0 : 1);
    world.run();
  }
}

// checklist 71: 4096 output tokens at most are expected of one sequence.
TEST(Admission, ExpectsNoMoreOutputThanTheClip) {
  WorldOptions options = admission_world(4, 3000);
  options.config.schedule_conservativeness = 1.0;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(8, 1), .max_tokens = 20});
  world.step();
  const uint64_t big = world.add({.prompt = random_prompt(8, 2), .max_tokens = 11000});
  world.step();  // 8 + 11000 + 4 does not leave room for the rest, 8 + 4096 + 4 does
  EXPECT_EQ(world.scheduler().running_count(), 2);
  world.cancel(big);
  world.run();
}

struct Pressure {
  int64_t preemptions;
  int64_t occupancy;  // sum of running sequences over the steps
};
Pressure pressure_of(const WorldOptions& options) {
  SchedulerWorld world(options);
  Rng rng(5);
  for (uint64_t i = 0; i < 150; ++i) {
    world.add({.prompt = random_prompt(rng.between(4, 40), i), .max_tokens = rng.between(5, 60)});
  }
  world.run();
  return {world.scheduler().stats().preemptions, world.scheduler().stats().used_slot_steps};
}

// checklist 67, 72, 75: each remedy lowers preemptions.
TEST(Admission, ConservativenessAndHeadroomLowerPreemptions) {
  WorldOptions options = admission_world(16, 80);
  options.blocks.prefix_caching = false;
  options.config.max_model_len = 150;
  const Pressure none = pressure_of(options);
  EXPECT_GT(none.preemptions, 20);
  int64_t last = none.preemptions;
  for (const double conservativeness : {0.3, 1.0, 1.5}) {
    WorldOptions careful = options;
    careful.config.schedule_conservativeness = conservativeness;
    const Pressure pressure = pressure_of(careful);
    EXPECT_LE(pressure.preemptions, last) << conservativeness;
    last = pressure.preemptions;
  }
  WorldOptions roomy = options;
  roomy.config.kv_headroom = 0.1;
  EXPECT_LT(pressure_of(roomy).preemptions, none.preemptions);
  WorldOptions larger = options;
  larger.blocks.block_count = 160;
  EXPECT_LT(pressure_of(larger).preemptions, none.preemptions);
}

// However careful, somebody always runs.
TEST(Admission, AnEmptyEngineAdmitsWhoeverFitsAtAll) {
  WorldOptions options = admission_world(4, 10);
  options.config.schedule_conservativeness = 10.0;
  options.config.kv_headroom = 0.9;
  SchedulerWorld world(options);
  for (uint64_t i = 0; i < 3; ++i) world.add({.prompt = random_prompt(30, i), .max_tokens = 9});
  world.run();
  for (const auto& [id, record] : world.records()) EXPECT_EQ(record.finish, FinishReason::Length);
}

// PLUGINS c.8: a request whose first uncached block is being computed by another one waits for it.
TEST(Admission, ATwinWaitsForTheBlocksThatAreBeingComputed) {
  WorldOptions options = admission_world(4, 200);
  options.config.max_num_batched_tokens = 40;
  options.config.long_prefill_token_threshold = 20;
  SchedulerWorld world(options);
  const std::vector<TokenId> trunk = random_prompt(64, 1);
  std::vector<TokenId> a = trunk, b = trunk;
  a.push_back(1);
  b.push_back(2);
  world.add({.prompt = a, .max_tokens = 4});
  world.add({.prompt = b, .max_tokens = 4});
  world.add({.prompt = random_prompt(8, 3), .max_tokens = 4});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+20 3:0+8");
  EXPECT_EQ(world.scheduler().stats().admissions[static_cast<size_t>(AdmissionResult::NotReady)], 1);
  world.step();
  world.step();
  world.step();
  EXPECT_EQ(world.last_plan_text(), "3:10+1 1:60+5 2:64+1");  // with the last chunk, the trunk is there for both
  world.run();
  EXPECT_EQ(world.scheduler().stats().scheduled_tokens, 65 + 1 + 8 + 3 * 3);
}

// Counts its faults; refuses requests of priority 9.
class Blamed : public SchedulePolicy {
 public:
  bool decides_admission() const override { return true; }
  void admit(const StepView&, const Candidate& candidate, Admission& admission) override {
    if (candidate.sequence->request.priority == 9) admission.decision = Decision::Skip;
  }
  void on_liveness_fault(LivenessFault fault) override { starvations += fault == LivenessFault::Starvation; }
  int starvations = 0;
};

// Starts one request a step, the newest of those that wait.
class NewestFirst final : public Blamed {
 public:
  Ranking ranking() const override { return Ranking::EveryStep; }
  bool rank(const StepView&, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) override {
    for (size_t i = 0; i < waiting.size(); ++i)
      keys[i].key0 = -static_cast<int64_t>(to_integer(waiting[i]->request.id));
    return true;
  }
  void limit_step(const StepView&, StepLimits& limits) override { limits.admissions = std::min(limits.admissions, 1); }
};

// Lets nobody in beside who runs.
class AdmitsNobody final : public Blamed {
 public:
  void limit_step(const StepView& view, StepLimits& limits) override {
    limits.admissions = std::min(limits.admissions, view.running.empty() ? 1 : 0);
  }
};

// Lets the requests wait for longer than limits::kStarvationNs, in more steps than there are between two checks.
int starvations_of(Blamed& policy, const WorldOptions& options, const std::vector<RequestOptions>& requests,
                   bool one_more_each_step = false) {
  SchedulerWorld world(options, &policy);
  for (const RequestOptions& request : requests) world.add(request);
  world.step();
  world.clock().advance(limits::kStarvationNs + 1);
  for (uint64_t i = 0; i < 140; ++i) {
    if (one_more_each_step) world.add({.prompt = random_prompt(4, i), .max_tokens = 1});
    world.step();
  }
  return policy.starvations;
}

TEST(Starvation, IsNotWhatTheHostsOwnGatesDo) {
  const std::vector<TokenId> prompt = random_prompt(200, 1);
  {
    Blamed policy;
    WorldOptions options = admission_world(4, 200);
    options.config.max_loras = 1;
    const RequestOptions first{.prompt = random_prompt(4, 1), .max_tokens = 300, .adapter = 1};
    const RequestOptions waits{.prompt = random_prompt(4, 2), .max_tokens = 4, .adapter = 2};
    EXPECT_EQ(starvations_of(policy, options, {first, waits}), 0) << "NO_ADAPTER";
  }
  {
    AdmitsNobody policy;
    WorldOptions fixed = admission_world(4, 200);
    fixed.config.batching = BatchingMode::Static;
    const RequestOptions first{.prompt = random_prompt(4, 1), .max_tokens = 300};
    const RequestOptions waits{.prompt = random_prompt(4, 2), .max_tokens = 4};
    EXPECT_EQ(starvations_of(policy, fixed, {first, waits}), 0) << "the batching mode";
  }
  WorldOptions slow = admission_world(4, 200);
  slow.config.long_prefill_token_threshold = 1;
  {
    Blamed policy;
    slow.config.max_num_partial_prefills = 1;
    const RequestOptions waits{.prompt = random_prompt(8, 2), .max_tokens = 4};
    EXPECT_EQ(starvations_of(policy, slow, {{.prompt = prompt}, waits}), 0) << "NO_INPUT_BUDGET";
  }
  {
    Blamed policy;
    slow.config.max_num_partial_prefills = 0;
    EXPECT_EQ(starvations_of(policy, slow, {{.prompt = prompt}, {.prompt = prompt}}), 0) << "NOT_READY";
  }
}

TEST(Starvation, IsWhatThePolicyDoes) {
  const RequestOptions runs{.prompt = random_prompt(4, 1), .max_tokens = 300};
  Blamed refuses;
  EXPECT_GT(starvations_of(refuses, admission_world(4, 200), {runs, {.prompt = random_prompt(4, 2), .priority = 9}}),
            0);
  AdmitsNobody admits_nobody;
  EXPECT_GT(starvations_of(admits_nobody, admission_world(4, 200), {runs, {.prompt = random_prompt(4, 2)}}), 0);
  NewestFirst looks_elsewhere;
  const RequestOptions old{.prompt = random_prompt(4, 2), .max_tokens = 4};
  EXPECT_GT(starvations_of(looks_elsewhere, admission_world(8, 200), {old, runs}, true), 0);
}

// The order is of one rule at a time: keys that another rule gave mean nothing beside it.
class Ranks final : public SchedulePolicy {
 public:
  Ranking ranking() const override { return ranking_now; }
  bool rank(const StepView&, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) override {
    ranked += static_cast<int>(waiting.size());
    for (size_t i = 0; i < waiting.size(); ++i) {
      keys[i].key0 = 1'000'000 - static_cast<int64_t>(to_integer(waiting[i]->request.id));
    }
    return answers;
  }
  Ranking ranking_now = Ranking::Stable;
  bool answers = true;
  int ranked = 0;
};

// Requests 2 to 7 wait for the only row; 5 to 7 come after what `change` does. The order in which they start.
template <typename Change>
std::vector<uint64_t> order_of_start(Ranks& policy, Change&& change) {
  SchedulerWorld world(admission_world(1, 200), &policy);
  world.add({.prompt = random_prompt(4, 1), .max_tokens = 8});
  world.step();
  for (uint64_t i = 2; i <= 4; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 2});
  world.step();
  change();
  for (uint64_t i = 5; i <= 7; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 2});
  world.step();
  policy.answers = true;
  world.run();
  std::map<int64_t, uint64_t> by_step;
  for (const auto& [id, record] : world.records()) by_step[record.first_token_step] = id;
  std::vector<uint64_t> order;
  for (const auto& [step, id] : by_step) order.push_back(id);
  return order;
}

TEST(Ranking, AnotherRuleRanksEverybody) {
  Ranks kept;
  EXPECT_EQ(order_of_start(kept, [] {}), (std::vector<uint64_t>{1, 7, 6, 5, 4, 3, 2}));
  EXPECT_EQ(kept.ranked, 7);  // each once
  Ranks taken_out;
  EXPECT_EQ(order_of_start(taken_out, [&] { taken_out.ranking_now = SchedulePolicy::Ranking::Arrival; }),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST(Ranking, NewcomersWithoutAKeyAreAskedForAgain) {
  Ranks passes_once;
  EXPECT_EQ(order_of_start(passes_once, [&] { passes_once.answers = false; }),
            (std::vector<uint64_t>{1, 7, 6, 5, 4, 3, 2}));
  EXPECT_EQ(passes_once.ranked, 4 + 3 + 6);

  Ranks policy;  // the step without a key is the one in which the row is free
  SchedulerWorld world(admission_world(1, 200), &policy);
  for (uint64_t i = 1; i <= 3; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 2});
  while (world.record(3).finish == FinishReason::None) world.step();
  policy.answers = false;
  world.add({.prompt = random_prompt(4, 4), .max_tokens = 2});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+4");  // in order of arrival
  policy.answers = true;
  while (world.scheduler().running_count() > 0) world.step();
  world.step();
  EXPECT_EQ(world.last_plan_text(), "4:0+4");
  world.run();
}

TEST(Admission, LimitsChangeWhileItRuns) {
  SchedulerWorld world(admission_world(8, 200));
  for (uint64_t i = 0; i < 20; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 20});
  world.step();
  EXPECT_EQ(world.scheduler().running_count(), 8);
  SchedulerConfig config = world.scheduler().config();
  config.max_num_seqs = 3;
  config.max_num_batched_tokens = 4;
  world.scheduler().reconfigure(config);
  world.step();
  EXPECT_EQ(world.last_plan().entries.size(), 8U);  // nobody is thrown out
  while (world.scheduler().running_count() == 8) world.step();
  world.step();
  EXPECT_LE(world.scheduler().running_count(), 3);
  config.max_num_seqs = 9;
  config.max_num_batched_tokens = 256;
  EXPECT_THROW(world.scheduler().reconfigure(config), Error);
  config.max_num_seqs = 8;
  world.scheduler().reconfigure(config);
  world.run();
  for (const auto& [id, record] : world.records()) EXPECT_EQ(record.finish, FinishReason::Length);
}

}  // namespace
}  // namespace inflight::test
