// SPDX-License-Identifier: Apache-2.0
// Goal: of a sequence that has ended nothing is kept, also where a step of it is still under way.
// Covers: sample/host_sampler.cpp
#include "sample/host_sampler.h"

#include <gtest/gtest.h>

namespace inflight {
namespace {

constexpr SequenceId kMean{7}, kOther{9};

// Two sequences, of each the hidden state of one row.
struct TwoStates final : Executor {
  void submit(const BatchPlan&) override {}
  const StepResult& wait() override { return result; }
  std::vector<float> values = {1.0F, 2.0F, 3.0F};
  StepResult result{.step = 1,
                    .hidden = {{.sequence = kMean, .row_count = 1, .values = values},
                               {.sequence = kOther, .row_count = 1, .values = values}}};
};

BatchPlan plan_of_two(int32_t prompt_tokens) {
  BatchPlan plan;
  plan.hidden_row_count = 2;
  for (const SequenceId sequence : {kMean, kOther}) {
    plan.entries.push_back(
        {.sequence = sequence, .scheduled_token_count = 1, .hidden_wanted = 1, .prompt_token_count = prompt_tokens});
  }
  return plan;
}

TEST(HostSampler, KeepsNothingOfWhatEndedWhileAStepWasUnderWay) {
  TwoStates device;
  HostSampler sampler(device, 4);
  sampler.submit(plan_of_two(2));
  EXPECT_FALSE(sampler.empty());
  sampler.forget(kMean);
  EXPECT_TRUE(sampler.wait().pooled.empty());  // a row of each is to come
  sampler.forget(kOther);
  EXPECT_TRUE(sampler.empty());
}

TEST(HostSampler, TellsTheOthersMeanAllTheSame) {
  TwoStates device;
  HostSampler sampler(device, 4);
  sampler.submit(plan_of_two(1));
  sampler.forget(kMean);
  const StepResult& result = sampler.wait();
  ASSERT_EQ(result.pooled.size(), 1U);
  EXPECT_EQ(result.pooled[0].sequence, kOther);
  EXPECT_EQ(std::vector(result.pooled[0].values.begin(), result.pooled[0].values.end()), device.values);
  EXPECT_TRUE(sampler.empty());
}

}  // namespace
}  // namespace inflight
