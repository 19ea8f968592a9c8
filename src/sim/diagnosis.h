// SPDX-License-Identifier: Apache-2.0
// What is wrong with a run, from its figures.
#pragma once

#include <string>
#include <vector>

#include "sim/simulation.h"

namespace inflight {

// A problem and the knob that mends it (checklist 143, 144).
struct Finding {
  std::string problem;   // "memory_pressure", "starvation", "low_utilisation", "prefill_interference", "overload"
  std::string evidence;  // figures
  std::string knob;      // what to change
};
[[nodiscard]] std::vector<Finding> diagnose(const SimResult& result, const SimOptions& options);

}  // namespace inflight
