// SPDX-License-Identifier: Apache-2.0
// Goal: the gates of admission stand in their documented order, each refuses for its own reason, and whoever has passed
// them finds the blocks of its whole prompt.
// Method: worlds in which a candidate fails one gate and all after it; random pressed workloads.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

WorldOptions gated_world(int32_t slots, int32_t budget, int32_t blocks) {
  WorldOptions world;
  world.config = {
      .max_num_seqs = slots, .max_num_batched_tokens = budget, .max_model_len = blocks * 4, .max_requests = 4096};
  world.blocks = {.block_count = blocks, .block_token_count = 4};
  return world;
}

// Refuses requests of priority 9; knows what it was asked.
class Doorkeeper final : public SchedulePolicy {
 public:
  bool decides_admission() const override { return true; }
  void admit(const StepView&, const Candidate& candidate, Admission& admission) override {
    if (candidate.sequence->request.priority != 9) return;
    admission.decision = Decision::Skip;
    ++refused;
  }
  int refused = 0;
};

// What a step adds to the counts of admission results; only those that are not zero.
std::map<AdmissionResult, int64_t> results_of_a_step(SchedulerWorld& world) {
  const auto before = world.scheduler().stats().admissions;
  world.step();
  std::map<AdmissionResult, int64_t> results;
  for (size_t i = 0; i < kAdmissionResultCount; ++i) {
    const int64_t count = world.scheduler().stats().admissions[i] - before[i];
    if (count != 0) results[static_cast<AdmissionResult>(i)] = count;
  }
  return results;
}

using Results = std::map<AdmissionResult, int64_t>;

// checklist 29: a policy that admits by priority. It defers who is less important until the others have ended, and
// turns the least important away.
TEST(Gates, APolicyAdmitsByPriority) {
  class ByPriority final : public SchedulePolicy {
   public:
    bool decides_admission() const override { return true; }
    void admit(const StepView&, const Candidate& candidate, Admission& admission) override {
      const int32_t priority = candidate.sequence->request.priority;
      if (priority == 9) admission.decision = Decision::Reject;
      if (priority == 5 && busy) admission.decision = Decision::Skip;
    }
    bool busy = true;
  };
  ByPriority policy;
  SchedulerWorld world(gated_world(8, 64, 20), &policy);
  const uint64_t first = world.add({.prompt = random_prompt(8, 1), .max_tokens = 4});
  const uint64_t deferred = world.add({.prompt = random_prompt(8, 2), .max_tokens = 4, .priority = 5});
  const uint64_t rejected = world.add({.prompt = random_prompt(8, 3), .max_tokens = 4, .priority = 9});
  const uint64_t last = world.add({.prompt = random_prompt(8, 4), .max_tokens = 6});
  world.step();
  EXPECT_EQ(world.last_plan_text(), "1:0+8 4:0+8");
  while (world.record(last).finish == FinishReason::None) world.step();
  policy.busy = false;
  world.run();
  EXPECT_EQ(world.record(first).first_token_step, world.record(last).first_token_step);
  EXPECT_GT(world.record(deferred).first_token_step, world.record(last).finish_step);
  EXPECT_EQ(world.record(deferred).output.size(), 4U);
  EXPECT_EQ(world.record(rejected).finish, FinishReason::Error);
  EXPECT_TRUE(world.record(rejected).output.empty());
}

// checklist 26: two adapters may run. The third one's request waits, those behind it do not; it comes when one has
// ended, and is passed no more than kSkipAheadMax times.
TEST(Gates, AThirdAdapterWaitsAndHoldsNobodyUp) {
  WorldOptions options = gated_world(8, 64, 200);
  options.config.max_loras = 2;
  SchedulerWorld world(options);
  const auto add = [&](uint32_t adapter, int32_t count) {
    return world.add({.prompt = random_prompt(4, adapter), .max_tokens = count, .adapter = adapter});
  };
  const uint64_t first = add(1, 4);
  add(2, 30);
  const uint64_t third = add(3, 4), same = add(2, 4), none = add(0, 4);
  EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 4}, {AdmissionResult::NoAdapter, 1}}));
  world.run();
  EXPECT_LT(world.record(same).first_token_step, world.record(third).first_token_step);
  EXPECT_LT(world.record(none).first_token_step, world.record(third).first_token_step);
  EXPECT_GT(world.record(third).first_token_step, world.record(first).finish_step - 2);
  EXPECT_LT(world.record(third).finish_step, 20);

  // A stream of requests for the two that run does not keep the third away for ever.
  SchedulerWorld busy(options);
  const auto send = [&](uint32_t adapter) {
    return busy.add({.prompt = random_prompt(4, adapter), .max_tokens = 6, .adapter = adapter});
  };
  send(1);
  send(2);
  const uint64_t waits = send(3);
  for (int i = 0; i < 300 && busy.record(waits).finish == FinishReason::None; ++i) {
    send(1 + static_cast<uint32_t>(i % 2));
    busy.step();
  }
  EXPECT_EQ(busy.record(waits).finish, FinishReason::Length);
}

// The same prompt under another adapter has other K and V.
TEST(Gates, AdaptersShareNoPrefix) {
  SchedulerWorld world(gated_world(4, 64, 200));
  for (const uint32_t adapter : {0U, 1U, 2U, 1U}) {
    world.add({.prompt = random_prompt(20, 1), .max_tokens = 2, .adapter = adapter});
    world.run();
  }
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 16);
}

// checklist 18, 24, 25: in each world the last request fails the named gate and every one after it.
TEST(Gates, TheFirstThatFailsIsTheAnswer) {
  {
    Doorkeeper policy;
    WorldOptions options = gated_world(2, 16, 20);
    options.config.max_prefill_tokens = 16;
    SchedulerWorld world(options, &policy);
    for (uint64_t i = 0; i < 2; ++i)
      world.add({.prompt = random_prompt(8, i), .max_tokens = 4});  // rows, tokens: all taken
    world.add({.prompt = random_prompt(70, 2), .max_tokens = 4, .priority = 9});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 2}, {AdmissionResult::NoSpace, 1}}));
    EXPECT_EQ(policy.refused, 0);
  }
  {
    Doorkeeper policy;
    WorldOptions options = gated_world(4, 16, 20);
    options.config.max_prefill_tokens = 16;
    SchedulerWorld world(options, &policy);
    for (uint64_t i = 0; i < 2; ++i) world.add({.prompt = random_prompt(8, i), .max_tokens = 4});
    world.add({.prompt = random_prompt(70, 2), .max_tokens = 4, .priority = 9});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 2}, {AdmissionResult::NoTokenBudget, 1}}));
  }
  {
    Doorkeeper policy;
    WorldOptions options = gated_world(4, 32, 20);
    options.config.max_prefill_tokens = 16;
    SchedulerWorld world(options, &policy);
    for (uint64_t i = 0; i < 2; ++i) world.add({.prompt = random_prompt(8, i), .max_tokens = 4});
    world.add({.prompt = random_prompt(70, 2), .max_tokens = 4, .priority = 9});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 2}, {AdmissionResult::NoInputBudget, 1}}));
  }
  {
    Doorkeeper policy;
    WorldOptions options = gated_world(4, 32, 20);
    options.config.long_prefill_token_threshold = 8;  // the first is in progress for many steps
    SchedulerWorld world(options, &policy);
    world.add({.prompt = random_prompt(60, 1), .max_tokens = 4});
    world.add({.prompt = random_prompt(60, 1), .max_tokens = 4, .priority = 9});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 1}, {AdmissionResult::NotReady, 1}}));
    EXPECT_EQ(policy.refused, 0);
  }
  {
    Doorkeeper policy;
    SchedulerWorld world(gated_world(4, 64, 20), &policy);
    world.add({.prompt = random_prompt(30, 1), .max_tokens = 4});
    world.add({.prompt = random_prompt(70, 2), .max_tokens = 4, .priority = 9});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 1}, {AdmissionResult::Policy, 1}}));
    EXPECT_EQ(policy.refused, 1);
  }
  {
    Doorkeeper policy;
    SchedulerWorld world(gated_world(4, 64, 20), &policy);
    world.add({.prompt = random_prompt(30, 1), .max_tokens = 4});
    world.add({.prompt = random_prompt(70, 2), .max_tokens = 4});
    EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 1}, {AdmissionResult::OutOfMemory, 1}}));
  }
}

// checklist 27: who is not ready is passed over, whoever is behind it starts.
TEST(Gates, WhoIsNotReadyBlocksNobody) {
  WorldOptions options = gated_world(8, 64, 100);
  options.config.long_prefill_token_threshold = 8;
  SchedulerWorld world(options);
  world.add({.prompt = random_prompt(60, 1), .max_tokens = 4});
  for (int i = 0; i < 3; ++i) world.add({.prompt = random_prompt(60, 1), .max_tokens = 4});  // its twins
  const uint64_t other = world.add({.prompt = random_prompt(6, 5), .max_tokens = 4});
  EXPECT_EQ(results_of_a_step(world), (Results{{AdmissionResult::Accepted, 2}, {AdmissionResult::NotReady, 3}}));
  world.run();
  EXPECT_EQ(world.record(other).first_token_step, 1);
  EXPECT_EQ(world.scheduler().stats().cached_tokens, 3 * 56);  // all whole blocks but that of the last token
}

// Which needs made the scheduler look for victims.
class NeedCounter final : public SchedulePolicy {
 public:
  void pick_victims(const StepView& view, const Need& need, std::vector<Sequence*>&) override {
    ++(need.reason == NeedReason::Decode ? decode : prefill);
    // Decodes come first, so that prompts are as they were; others may have been preempted in this step.
    const auto prompts = std::ranges::count_if(
        view.running, [](const Sequence* sequence) { return sequence->remaining_token_count() > 1; });
    EXPECT_EQ(view.prefilling_count, prompts);
    prompts_seen += static_cast<int>(prompts);
  }
  int decode = 0, prefill = 0, prompts_seen = 0;
};

// checklist 21, 23: never more than the pool's tokens are used, all of them are; and whoever is admitted has the blocks
// of its whole prompt, so that no chunk ever lacks one.
TEST(Gates, AnAdmittedPromptNeverLacksABlock) {
  int most_used_of_all = 0, decode_needs = 0, prompts_seen = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    WorldOptions options = gated_world(rng.between(2, 8), rng.between(8, 40), rng.between(20, 40));
    options.config.long_prefill_token_threshold = rng.between(3, 12);
    options.config.schedule_conservativeness = rng.chance(0.5) ? 1.0 : 0.0;
    options.overlap = rng.chance(0.5);
    NeedCounter policy;
    SchedulerWorld world(options, &policy);
    int32_t most_used = 0;
    for (int i = 0; i < 200; ++i) {
      if (rng.chance(0.3)) {
        const int32_t length = rng.between(1, options.config.max_model_len - 2);
        world.add({.prompt = random_prompt(length, seed * 1000 + rng.below(20)), .max_tokens = rng.between(1, 30)});
      }
      world.step();
      most_used = std::max(most_used, world.blocks().pool().referenced_count());
      ASSERT_LE(most_used, options.blocks.block_count);
    }
    world.run();
    EXPECT_EQ(policy.prefill, 0) << "seed " << seed;
    decode_needs += policy.decode;
    prompts_seen += policy.prompts_seen;
    most_used_of_all += most_used == options.blocks.block_count;
  }
  EXPECT_GT(decode_needs, 100);
  EXPECT_GT(prompts_seen, 10);
  EXPECT_GT(most_used_of_all, 15);
}

// Five decodes want a block each, which three prompts in progress have two of each.
TEST(Gates, PoliciesSeeWhoIsLeftAfterEachPreemption) {
  WorldOptions options = gated_world(8, 40, 11);
  options.config.long_prefill_token_threshold = 3;
  options.config.schedule_conservativeness = 0.0;
  NeedCounter policy;
  SchedulerWorld world(options, &policy);
  for (uint64_t i = 0; i < 5; ++i) world.add({.prompt = random_prompt(3, i), .max_tokens = 4});
  for (uint64_t i = 5; i < 8; ++i) world.add({.prompt = random_prompt(8, i), .max_tokens = 1});
  for (int i = 0; i < 3; ++i) world.step();
  EXPECT_EQ(policy.decode, 3);
  EXPECT_EQ(policy.prompts_seen, 3 + 2 + 1);
  world.run();
}

// checklist 42: prompt and decode share a step, also when the host draws for the one and prompt logprobs are wanted of
// the other.
TEST(Gates, PromptLogprobsDoNotKeepDecodesFromPrompts) {
  SchedulerWorld world(gated_world(4, 24, 200));
  world.add({.prompt = random_prompt(5, 1), .max_tokens = 40, .host_draws = true, .prompt_logprobs = true});
  world.step();
  world.add({.prompt = random_prompt(100, 2), .max_tokens = 4, .prompt_logprobs = true});
  int both = 0;
  while (world.step()) {
    const auto& entries = world.last_plan().entries;
    both += std::ranges::any_of(entries, &BatchEntry::host_samples) &&
            std::ranges::any_of(entries, &BatchEntry::prompt_logprobs_wanted);
  }
  EXPECT_GE(both, 4);  // 100 tokens at most 23 beside the decode
  EXPECT_EQ(world.record(2).told_prompt_tokens, 99);
}

}  // namespace
}  // namespace inflight::test
