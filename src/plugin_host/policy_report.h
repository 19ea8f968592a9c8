// SPDX-License-Identifier: Apache-2.0
// The report of a policy that was taken out: what it was, what it did wrong and what it was given then, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "inflight/plugin.h"

namespace inflight {

class PolicyInstance;

// $INFLIGHT_REPORT_DIR, else $XDG_STATE_HOME/inflight/reports, else ~/.local/state/inflight/reports; empty: none.
[[nodiscard]] std::string default_report_folder();

// "bad_output", "crash", ... of an INFLIGHT_EXIT_*.
[[nodiscard]] const char* exit_reason_name(uint32_t reason);

// Writes FOLDER/inflight-eject-<id>-<step>.json: host, policy (id, version, path, sha256), fault, the inputs and
// answers of the call that failed (at most kReportRowsMax rows of each table), the last calls, the policy's metrics.
// Returns its path; empty when it could not be written (which is logged: a report is never a reason to fail).
std::string write_policy_report(const PolicyInstance& instance, const inflight_exit_t& info, const std::string& folder);

// The structs that a policy is given, column by column.
[[nodiscard]] nlohmann::ordered_json to_json(const inflight_requests_t& requests);
[[nodiscard]] nlohmann::ordered_json to_json(const inflight_step_t& step);
[[nodiscard]] nlohmann::ordered_json to_json(const inflight_units_t& units);
[[nodiscard]] nlohmann::ordered_json to_json(const inflight_events_t& events);

inline constexpr uint32_t kReportRowsMax = 256;

}  // namespace inflight
