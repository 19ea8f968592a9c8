// SPDX-License-Identifier: Apache-2.0
// A simulation from a specification in JSON to its report in JSON, as `inflight sim --json` prints it.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/sim_spec.h"

namespace inflight::test {

inline nlohmann::json simulated(const nlohmann::json& spec) {
  return nlohmann::json::parse(run_simulation_json(spec.dump()));
}

}  // namespace inflight::test
