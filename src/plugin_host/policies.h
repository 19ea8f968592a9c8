// SPDX-License-Identifier: Apache-2.0
// Policies by the names that users write, ready for a scheduler: what the engine, the simulator and replays share.
#pragma once

#include <memory>
#include <string>

#include "plugin_host/evict_adapter.h"
#include "plugin_host/sched_adapter.h"
#include "sched/setup_json.h"

namespace inflight {

// ERRORS: InvalidArgument, NotFound, Plugin.
[[nodiscard]] std::unique_ptr<SchedAdapter> make_schedule_policy(const std::string& spec, const SchedulerSetup& setup,
                                                                 const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<EvictAdapter> make_eviction_policy(const std::string& spec, const SchedulerSetup& setup,
                                                                 const PolicyOptions& options);

}  // namespace inflight
