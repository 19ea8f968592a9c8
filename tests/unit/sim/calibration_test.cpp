// SPDX-License-Identifier: Apache-2.0
// Goal: a fit gives back the device that made the measurements, and says how far it is off when they are noisy.
#include "sim/calibration.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

// A device whose linear layers cost in tiles of eight rows, with every fourth measurement doubled or lost when spoilt.
double tiled_us(int64_t tokens) { return 300.0 + 40.0 * static_cast<double>((tokens + 7) / 8); }

std::vector<MeasuredStep> measure(double noise, bool spoilt, int rounds = 20, uint64_t seed = 3) {
  Rng rng(seed);
  std::vector<MeasuredStep> steps;
  const auto add = [&](const DeviceWork& work) {
    const double us = tiled_us(work.tokens) + 20.0 * static_cast<double>(work.sequences) +
                      0.4 * static_cast<double>(work.decode_context) + 0.03 * static_cast<double>(work.prefill_pairs) +
                      150.0 * static_cast<double>(work.prompts) +
                      (work.prompts > 0 && work.sequences > work.prompts ? 90.0 : 0.0);
    double factor = 1.0 + noise * (2.0 * rng.uniform() - 1.0);
    if (spoilt && rng.chance(0.05)) factor *= 4.0;
    if (spoilt && rng.chance(0.05)) factor *= 0.01;
    const bool after_rest = work.sequences == work.prompts && rng.chance(0.5);
    MeasuredStep step{work, 0.0};
    if (after_rest) step.work.wake = static_cast<double>(rng.between(1, 12));
    if (work.prompts == 0 && rng.chance(0.3)) step.work.warm = 0.25 * static_cast<double>(rng.between(1, 4));
    step.work.idle = 0.01 * static_cast<double>(rng.between(0, 80));
    step.seconds = (us + 60.0 * step.work.wake + 45.0 * step.work.warm + 70.0 * step.work.idle) * 1e-6 * factor;
    steps.push_back(step);
  };
  for (int round = 0; round < rounds; ++round) {
    for (int64_t batch = 1; batch <= 32; ++batch) {
      add({.tokens = batch, .sequences = batch, .decode_context = batch * rng.between(16, 600)});
    }
    for (int i = 0; i < 8; ++i) {
      const int64_t batch = rng.chance(0.3) ? 0 : rng.between(1, 20), prompt = rng.between(16, 150);
      const int64_t prompts = rng.between(1, 3);
      add({.tokens = batch + prompts * prompt,
           .sequences = batch + prompts,
           .decode_context = batch * 200,
           .prefill_pairs = prompts * prompt * (prompt + 1) / 2,
           .prompts = prompts});
    }
  }
  return steps;
}

TEST(Calibration, GivesTheDeviceBack) {
  const CalibrationFit fit = fit_device_profile(measure(0.0, false), {});
  EXPECT_LT(fit.median_error, 0.01);
  EXPECT_LT(fit.held_out_error, 0.01);
  EXPECT_NEAR(fit.total_error, 0.0, 0.005);
  EXPECT_NEAR(fit.profile.kv_read_ns, 400, 15);
  EXPECT_NEAR(fit.profile.pair_ns, 30, 4);
  EXPECT_NEAR(fit.profile.prompt_us, 150, 30);
  EXPECT_NEAR(fit.profile.mixed_us, 90, 30);
  EXPECT_NEAR(fit.profile.wake_us, 60, 3);
  EXPECT_NEAR(fit.profile.warm_us, 45, 5);
  EXPECT_NEAR(fit.profile.idle_us, 70, 7);
  const DeviceModel model(fit.profile);
  for (const int64_t batch : {1, 7, 8, 9, 16, 17, 31, 32}) {
    const double truth_us =
        tiled_us(batch) + 20.0 * static_cast<double>(batch) + 0.4 * 100.0 * static_cast<double>(batch);
    const DeviceWork work{.tokens = batch, .sequences = batch, .decode_context = 100 * batch};
    EXPECT_NEAR(static_cast<double>(model.device_time(work)) * 1e-3, truth_us, 0.02 * truth_us) << batch;
  }
}

TEST(Calibration, SpoiltStepsBecomeJitter) {
  const CalibrationFit fit = fit_device_profile(measure(0.1, true, 60), {});
  EXPECT_GT(fit.median_error, 0.01);
  EXPECT_LT(fit.median_error, 0.1);
  const DeviceWork work{.tokens = 24, .sequences = 24, .decode_context = 2400};
  const double truth_us = tiled_us(24) + 20.0 * 24 + 0.4 * 2400;
  EXPECT_NEAR(static_cast<double>(DeviceModel(fit.profile).device_time(work)) * 1e-3, truth_us, 0.04 * truth_us);
  ASSERT_FALSE(fit.profile.decode_jitter.empty());
  EXPECT_EQ(fit.profile.decode_jitter.front().from_us, 0.0);
  const std::vector<double>& jitter = fit.profile.decode_jitter.back().values;
  ASSERT_EQ(jitter.size(), 40U);
  EXPECT_LT(jitter.front(), 0.1);
  EXPECT_NEAR(jitter[20], 1.0, 0.05);
  EXPECT_GT(jitter.back(), 2.0);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "0 measured steps, allowed: at least 20",
                        [] { static_cast<void>(fit_device_profile({}, {})); });
}

// The only step of its kind that came out as no time at all must not weigh more than all others (mixed steps of few
// tokens are rare here, and one in twenty is lost).
TEST(Calibration, LostStepsOfRareKindsDoNotBendTheFit) {
  for (const uint64_t seed : {9, 12}) {
    const DeviceProfile found = fit_device_profile(measure(0.1, true, 200, seed), {}).profile;
    EXPECT_NEAR(found.wake_us, 60, 5) << seed;
    EXPECT_NEAR(found.sequence_us, 20, 3) << seed;
    for (const int64_t tokens : {9, 17, 25, 32}) {
      EXPECT_NEAR(found.linear_time_us(static_cast<double>(tokens)) / tiled_us(tokens), 1.0, 0.15) << tokens;
    }
  }
}

// A disturbance of so many microseconds is much for a short step and little for a long one.
TEST(Calibration, JitterBelongsToTheLengthOfAStep) {
  Rng rng(7);
  std::vector<MeasuredStep> steps;
  for (int i = 0; i < 6000; ++i) {
    const int64_t batch = rng.between(1, 2) == 1 ? 1 : 32;
    const double us = 100.0 * static_cast<double>(batch) + (rng.chance(0.2) ? 100.0 : 0.0);
    steps.push_back({{.tokens = batch, .sequences = batch, .decode_context = 10 * batch}, us * 1e-6});
  }
  const auto jitter = fit_device_profile(steps, {}).profile.decode_jitter;
  ASSERT_EQ(jitter.size(), 2U);
  EXPECT_GT(jitter[1].from_us, 2000.0);
  EXPECT_NEAR(jitter[0].values.back() / jitter[0].values.front(), 2.0, 0.01);
  EXPECT_NEAR(jitter[1].values.back() / jitter[1].values.front(), 1.03125, 0.001);
}

}  // namespace
}  // namespace inflight
