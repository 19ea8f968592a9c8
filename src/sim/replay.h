// SPDX-License-Identifier: Apache-2.0
// A recorded run again: the recorded arrivals, cancellations, times and sampled tokens go through the same scheduler
// and policies, and every plan must be the recorded one. So a decision can be looked at after the fact, and a change of
// the scheduler or of a policy shows at the first step where it decides differently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plugin_host/policy_shadow.h"
#include "sched/trace_format.h"

namespace inflight {

struct ReplayResult {
  int64_t plans = 0;  // compared
  int64_t requests = 0;
  int64_t unfinished = 0;  // of these: the recording ends before they do; 0 with a difference
  struct Difference {
    uint64_t step = 0;
    std::string recorded, replayed;  // the two plans
  };
  std::optional<Difference> difference;  // the first; the replay ends there
  // Of shadow_policy: how often it decided otherwise, and its mistakes.
  std::optional<ShadowCounts> shadow;
  int64_t shadow_strikes = 0;
  std::string shadow_fault;  // why it was taken out; empty when it was not
};

struct ReplayOptions {
  std::string schedule_policy;  // instead of the recorded one; empty = recorded
  std::string eviction_policy;
  // Of either kind: asked everything that the policy in force is asked, without effect (policy_shadow.h).
  std::string shadow_policy;
};

// ERRORS: CorruptFile (no Begin record, no inputs, no plan of its requests, commits that do not fit), NotFound, Plugin
// (its policies).
[[nodiscard]] ReplayResult replay_trace(std::span<const TraceRecord> records, const ReplayOptions& options);

}  // namespace inflight
