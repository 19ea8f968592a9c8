// SPDX-License-Identifier: Apache-2.0
// Goal: the model finds the coefficients of a linear machine, also under noise, and follows a machine that changes.
#include "sched/latency_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace inflight {
namespace {

StepWork random_work(Rng& rng) {
  return {.prefill_tokens = rng.between(0, 512),
          .decode_sequences = rng.between(0, 64),
          .prefill_pairs = rng.between(0, 200000),
          .decode_context = rng.between(0, 200000),
          .swapped_blocks = rng.chance(0.1) ? rng.between(0, 50) : 0};
}

TEST(LatencyModel, FindsTheMachinesCoefficients) {
  const LatencyModel::Coefficients truth = {200000.0, 900.0, 15000.0, 3.0, 40.0, 4000.0};
  const LatencyModel machine(truth);
  LatencyModel model;
  EXPECT_EQ(model.estimate({.prefill_tokens = 100}), 0);
  Rng rng(1);
  for (int i = 0; i < 3000; ++i) {
    const StepWork work = random_work(rng);
    const double noise = 1.0 + 0.05 * (rng.uniform() - 0.5);
    model.observe(work, static_cast<TimeNs>(static_cast<double>(machine.estimate(work)) * noise));
  }
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(model.coefficients()[i] / truth[i], 1.0, 0.05) << i;
  for (int i = 0; i < 100; ++i) {
    const StepWork work = random_work(rng);
    EXPECT_NEAR(static_cast<double>(model.estimate(work)) / static_cast<double>(machine.estimate(work)), 1.0, 0.03);
  }
}

TEST(LatencyModel, FollowsAMachineThatSlowsDown) {
  LatencyModel model;
  Rng rng(2);
  for (const double speed : {1.0, 3.0}) {
    const LatencyModel machine({speed * 1e5, speed * 1000.0, speed * 1e4, speed * 2.0, speed * 30.0, 0.0});
    for (int i = 0; i < 5000; ++i) {
      const StepWork work = random_work(rng);
      model.observe(work, machine.estimate(work));
    }
    const StepWork probe{
        .prefill_tokens = 300, .decode_sequences = 10, .prefill_pairs = 40000, .decode_context = 10000};
    EXPECT_NEAR(static_cast<double>(model.estimate(probe)) / static_cast<double>(machine.estimate(probe)), 1.0, 0.05);
  }
}

// Terms that never occur (here: only decodes of one sequence) stay finite and the estimate exact where it was observed.
TEST(LatencyModel, StaysFiniteOnMonotonousSteps) {
  LatencyModel model;
  for (int i = 0; i < 200000; ++i) model.observe({.decode_sequences = 1, .decode_context = 100}, 50000);
  EXPECT_NEAR(static_cast<double>(model.estimate({.decode_sequences = 1, .decode_context = 100})), 50000.0, 50.0);
  for (const double c : model.coefficients()) EXPECT_TRUE(std::isfinite(c));
}

TEST(LatencyModel, NeverSaysThatMoreWorkTakesLessTime) {
  LatencyModel model;
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {  // prefill tokens correlate with less time, by accident
    const int32_t tokens = rng.between(0, 100);
    model.observe({.prefill_tokens = tokens, .decode_sequences = 1}, 100000 - 500 * tokens);
  }
  EXPECT_GE(model.estimate({.prefill_tokens = 100, .decode_sequences = 1}),
            model.estimate({.prefill_tokens = 0, .decode_sequences = 1}));
}

}  // namespace
}  // namespace inflight
