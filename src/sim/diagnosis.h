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
// What held the run back most (checklist 88): "kv" (blocks), "slots" (max_num_seqs), "budget" (tokens of a step),
// "compute" (the device, with all of these to spare) or "arrivals" (there was not more to do).
[[nodiscard]] std::string binding_limit(const SimResult& result);

[[nodiscard]] std::vector<Finding> diagnose(const SimResult& result, const SimOptions& options);

}  // namespace inflight
