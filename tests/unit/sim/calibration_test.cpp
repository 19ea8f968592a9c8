// SPDX-License-Identifier: Apache-2.0
// Goal: a fit gives back the device that made the measurements, and says how far it is off when they are noisy.
#include "sim/calibration.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

std::vector<MeasuredStep> measure(const DeviceProfile& profile, double noise) {
  const DeviceModel model(profile);
  Rng rng(3);
  std::vector<MeasuredStep> steps;
  const auto add = [&](const DeviceWork& work) {
    const double factor = 1.0 + noise * (2.0 * rng.uniform() - 1.0);
    steps.push_back({work, static_cast<double>(model.device_time(work)) * 1e-9 * factor});
  };
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64}) {
    for (const int64_t context : {16, 256, 700})
      add({.tokens = batch, .sequences = batch, .decode_context = batch * context});
  }
  for (const int64_t length : {16, 32, 64, 128, 256, 512}) {
    add({.tokens = length, .sequences = 1, .prefill_pairs = length * (length + 1) / 2});
  }
  return steps;
}

TEST(Calibration, GivesTheDeviceBack) {
  const DeviceProfile truth{
      .overhead_us = 300, .weights_us = 1600, .token_us = 100, .kv_read_ns = 400, .pair_ns = 30, .sequence_us = 20};
  const CalibrationFit fit = fit_device_profile(measure(truth, 0.0), {});
  EXPECT_LT(fit.worst_error, 0.005);
  EXPECT_NEAR(fit.profile.token_us, 100, 3);
  EXPECT_NEAR(fit.profile.weights_us, 1600, 60);  // the knee of 16 tokens is found
  EXPECT_NEAR(fit.profile.kv_read_ns, 400, 15);
  EXPECT_NEAR(fit.profile.pair_ns, 30, 2);
}

TEST(Calibration, SaysHowFarItIsOff) {
  const DeviceProfile truth{
      .overhead_us = 300, .weights_us = 1600, .token_us = 100, .kv_read_ns = 400, .pair_ns = 30, .sequence_us = 20};
  const CalibrationFit fit = fit_device_profile(measure(truth, 0.1), {});
  EXPECT_GT(fit.mean_error, 0.01);
  EXPECT_LT(fit.mean_error, 0.1);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "0 measured steps, allowed: at least 5",
                        [] { static_cast<void>(fit_device_profile({}, {})); });
}

}  // namespace
}  // namespace inflight
