// SPDX-License-Identifier: Apache-2.0
// A whole simulated run: a workload, one or more replicas of the engine, routing between them. With separate pools
// (Zhong et al. 2024, DistServe; Patel et al. 2024, Splitwise) a request's prompt and first token come from a prefill
// replica, then its K and V travel to a decode replica.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "sched/setup_json.h"
#include "sched/trace.h"
#include "sim/device_model.h"
#include "sim/sim_result.h"
#include "sim/workload.h"

namespace inflight {

// Which replica an arriving request goes to.
enum class Routing : uint8_t {
  RoundRobin,
  LeastLoaded,  // fewest tokens yet to be given
  Prefix,       // longest stored prefix, unless it is much more loaded than the least loaded (SGLang's router)
};
[[nodiscard]] const char* to_string(Routing routing);  // "round_robin"
[[nodiscard]] std::optional<Routing> parse_routing(std::string_view name);

struct SimOptions {
  // max_model_len 0: the workload's longest sequence; block count 0: what the device holds.
  SchedulerSetup setup;
  DeviceProfile device;
  bool overlap = true;
  bool skip_decodes = true;  // see Replica; never with SimObservers::trace
  int32_t replicas = 1;      // 1..64
  Routing routing = Routing::LeastLoaded;
  int32_t prefill_replicas = 0;  // of the replicas, those that only prefill; the others then only decode
  int32_t max_queued = 0;  // arrivals are rejected while so many wait beyond the free rows of their replica; 0 = never
  TimeNs time_limit = kNoDeadline;  // the run ends then, whatever is unfinished
  TimeNs wall_limit = kNoDeadline;  // real time: a run that takes longer is given up
};

struct SimObservers {
  SchedulerTrace* trace = nullptr;  // of the first replica
  // Called now and then: share of the requests that have ended.
  std::function<void(double)> progress;
};

// `setup` of the options as the run has it: what was left to be found is filled in.
// ERRORS: InvalidArgument (a request that fits into no KV storage or max_model_len is named).
[[nodiscard]] SchedulerSetup resolved_setup(const SimOptions& options, const Workload& workload);

// wall: for SimResult::wall_s and wall_limit.
// ERRORS: InvalidArgument (wall_limit was reached, too), NotFound, Plugin.
[[nodiscard]] SimResult run_simulation(const SimOptions& options, const Workload& workload, const Clock& wall,
                                       const SimObservers& observers = {});

}  // namespace inflight
