// SPDX-License-Identifier: Apache-2.0
// A workload against a server: each request on its own connection, streamed, every token's arrival noted.
// One thread for all of them: what the client itself costs is told with the result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loadgen/load_options.h"

namespace inflight {

// One request as its client saw it; times since the run's begin.
struct LoadRecord {
  TimeNs begin = 0;                 // the request was sent, the connection's setup included
  std::vector<TimeNs> token_times;  // of each event that brought text
  int32_t prompt_tokens = 0;        // as the server counted, else as the workload has it
  int32_t output_tokens = 0;        // as the server counted, else the events with text
  bool complete = false;
  std::string error;  // when not complete; one line
};

struct LoadRecords {
  std::vector<LoadRecord> requests;  // by the workload's index
  int32_t max_concurrent = 0;        // requests open at once
  double client_cpu_share = 0.0;     // of one core
  TimeNs late_max = 0;               // a request was sent so much later than it should have been
};

// progress: called now and then with how many have ended.
// ERRORS: Io when the host cannot be resolved. What goes wrong with one request stands in its record.
[[nodiscard]] LoadRecords run_load(const Workload& workload, const LoadOptions& options,
                                   const std::function<void(size_t ended)>& progress);

}  // namespace inflight
