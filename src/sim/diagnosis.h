// SPDX-License-Identifier: Apache-2.0
// What is wrong with a run, from its figures, and whether what should mend it does.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulation.h"

namespace inflight {

// Keys and values of a SimSpec's JSON.
using SimSetting = std::vector<std::pair<std::string, std::string>>;

// A problem and the knob that mends it (checklist 143, 144).
struct Finding {
  std::string problem;   // "memory_pressure", "starvation", "low_utilisation", "prefill_interference", "overload"
  std::string evidence;  // figures
  std::string knob;      // what to change
  std::vector<SimSetting> remedies{};  // changes of that kind that a simulation can try
};
// What held the run back most: "kv" (blocks), "slots" (max_num_seqs), "budget" (tokens of a step), "adapters"
// (max_loras), "policy" (it said no), "compute" (the device, with all of these to spare) or "arrivals" (there was not
// more to do).
[[nodiscard]] std::string binding_limit(const SimResult& result);

[[nodiscard]] std::vector<Finding> diagnose(const SimResult& result, const SimOptions& options);

// The same workload with one of a finding's remedies.
struct Trial {
  SimSetting setting;
  SimResult result;
  bool mends = false;  // diagnose() no longer finds the problem; of low_utilisation: 2 % more output tokens a second
};
struct Examined {
  Finding finding;
  std::vector<Trial> trials;
};
// diagnose(), and each remedy tried. Remedies beyond what is allowed (more than 64 replicas) are left out, and so is a
// low_utilisation that no remedy mends: the device is busy then, however few slots are.
// REQUIRES: `result` is what `spec` (as read_sim_spec() takes it) and `workload` come to.
// COST: a simulated run for each remedy.
[[nodiscard]] std::vector<Examined> examine(const nlohmann::ordered_json& spec, const Workload& workload,
                                            const SimResult& result, const Clock& wall,
                                            const std::function<void(double share)>& progress);

}  // namespace inflight
