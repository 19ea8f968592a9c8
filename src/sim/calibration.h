// SPDX-License-Identifier: Apache-2.0
// A device profile from measured steps: the coefficients of device_model.h that miss the measurements least.
#pragma once

#include <span>
#include <vector>

#include "sim/device_model.h"

namespace inflight {

struct MeasuredStep {
  DeviceWork work;
  double seconds = 0.0;
};
struct CalibrationFit {
  DeviceProfile profile;        // the fitted terms; the others as in the base
  double median_error = 0.0;    // of |predicted - measured| / measured
  double held_out_error = 0.0;  // the same, of steps predicted by a fit to the other four fifths of the steps
  double total_error = 0.0;     // of the sum of all, without jitter: predicted / measured - 1
};
// Weighted least squares of the relative errors with coefficients >= 0, where steps that are far off (the machine did
// something else) count little; how far they are off goes into the profile's jitter. The linear layers' time is a free
// curve over the tokens: its points are token counts that occur often enough. REQUIRES: seconds > 0.   ERRORS:
// InvalidArgument (fewer than 20 steps).
[[nodiscard]] CalibrationFit fit_device_profile(std::span<const MeasuredStep> steps, const DeviceProfile& base);

}  // namespace inflight
