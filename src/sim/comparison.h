// SPDX-License-Identifier: Apache-2.0
// Many simulations that differ in a few keys: every combination of the values, several at once, in a fixed order.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sim/sim_spec.h"
#include "sim/timeline.h"

namespace inflight {

// One key and the values that it takes. A key of sim_keys(), or of the workload (then it is set in its text). "seed" is
// set in both, "workload.seed" in the workload only.
struct Dimension {
  std::string key;
  std::vector<std::string> values;
};
// "policy=fcfs|lpm|vtc" or "rate=1:20:8" (8 values from 1 to 20, evenly).
// ERRORS: InvalidArgument.
[[nodiscard]] Dimension parse_dimension(std::string_view text);

struct ComparedRun {
  std::string name;                 // the values that set it apart
  std::vector<std::string> values;  // by dimension
  SimSpec spec;
  SimResult result;
  Timeline timeline;  // empty unless asked for
};
struct CompareOptions {
  bool timelines = false;
  int threads = 0;                       // 0: as many as the machine has
  std::function<void(double)> progress;  // share of the runs; called under a lock
};
// Every combination, the last dimension fastest, on top of the base, which is as read_sim_spec() takes it.
// ERRORS: of read_sim_spec() and run_simulation(), of the first run.
[[nodiscard]] std::vector<ComparedRun> compare(const nlohmann::ordered_json& base,
                                               const std::vector<Dimension>& dimensions, const Clock& wall,
                                               const CompareOptions& options);

// Where a rising curve leaves its flat part: between two neighbours in x, the second of them the first whose y is more
// than twice the first y.
struct Knee {
  double from = 0.0, to = 0.0;
  bool operator==(const Knee&) const = default;
};
// REQUIRES: x rises.
[[nodiscard]] std::optional<Knee> knee_of(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace inflight
