// SPDX-License-Identifier: Apache-2.0
// A simulation as one JSON object: what the program's options, the C interface and experiments all become. Keys are the
// options' names with underscores: {"workload": "bimodal", "max_num_seqs": 8, "batching": "static"}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/simulation.h"
#include "sim/trace_reader.h"
#include "sim/workload_spec.h"

namespace inflight {

struct SimSpec {
  SimOptions options;
  std::string workload;            // a specification,
  WorkloadLimits workload_limits;  // which must keep within these; or
  std::string trace;               // a file
  TraceOptions trace_options;
  std::optional<double> trace_acceptance{};  // Workload::acceptance of a trace
  bool timeline = false;                     // in the JSON: who held which row when, and each step
};

// One key with what it means, for help texts and for checking.
struct SimKey {
  const char* name;
  enum class Type : uint8_t { Text, Integer, Number, OnOff } type;
  const char* default_value;
  const char* help;
};
[[nodiscard]] std::span<const SimKey> sim_keys();

// The key that a name stands for: "policy" is "schedule_policy"; dashes are underscores. Others stay as they are.
[[nodiscard]] std::string long_sim_key(std::string_view name);

// The files that a key's value names: of simulations, or of workloads. An empty path is none.
[[nodiscard]] std::vector<std::string> files_named(std::string_view key, const std::string& value);

// Values may be given as text too ("8" for 8).  ERRORS: InvalidArgument naming the key, the value and what is allowed.
[[nodiscard]] SimSpec parse_sim_spec(std::string_view json_text);
// The same of an object, whose texts (paths, above all) may be any bytes.
[[nodiscard]] SimSpec read_sim_spec(const nlohmann::ordered_json& object);
// What the spec is to serve.  ERRORS: of make_workload() and read_trace_workload().
[[nodiscard]] Workload load_workload(const SimSpec& spec);

class Timeline;
// to_json() of the result, with the timeline where there is one.
[[nodiscard]] std::string to_json(const SimResult& result, const Timeline* timeline);

// JSON in, JSON out: parse_sim_spec(), run_simulation(), to_json(); with "timeline" that too.
[[nodiscard]] std::string run_simulation_json(std::string_view spec_json);

}  // namespace inflight
