// SPDX-License-Identifier: Apache-2.0
// A device profile from measured steps: the coefficients of device_model.h that miss the measurements least.
#pragma once

#include <vector>

#include "sim/device_model.h"

namespace inflight {

struct MeasuredStep {
  DeviceWork work;
  double seconds = 0.0;
};
struct CalibrationFit {
  DeviceProfile profile;    // the fitted terms; the others as in the base
  double mean_error = 0.0;  // of |predicted - measured| / measured
  double worst_error = 0.0;
};
// Least squares of the relative errors with coefficients >= 0, for each place of the roofline's knee; the best of
// these. REQUIRES: at least as many steps as terms.   ERRORS: InvalidArgument.
[[nodiscard]] CalibrationFit fit_device_profile(const std::vector<MeasuredStep>& steps, const DeviceProfile& base);

}  // namespace inflight
