// SPDX-License-Identifier: Apache-2.0
// What a replayed recording came to, as `replay`, `sim --replay` and `plugin replay` tell it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/replay.h"

namespace inflight::cli {

// plans, requests, requests_unfinished, identical, and the first difference or null.
[[nodiscard]] nlohmann::ordered_json replay_json(const ReplayResult& result);
// One line: that all plans are identical, or the first that is not.
[[nodiscard]] std::string describe(const ReplayResult& result);

// Prints it either way; ends the program with status 1 where a plan differs.
void print_replay(const ReplayResult& result, bool as_json);

}  // namespace inflight::cli
