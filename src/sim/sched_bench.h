// SPDX-License-Identifier: Apache-2.0
// What the scheduler itself costs: the closed loop that its peers were measured with (so many running, so many waiting,
// unique prompts of 512 tokens, 128 outputs, block 16, budget 2048), over an executor that takes no time. Time counts
// in plan() and commit() only.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace inflight {

struct SchedBenchOptions {
  int32_t running = 256;
  int32_t waiting = 1000;
  int32_t prompt_tokens = 512;
  int32_t output_tokens = 128;
  int32_t max_num_batched_tokens = 2048;
  std::string schedule_policy = "fcfs";
  std::string eviction_policy = "lru";
  bool prefix_caching = true;
  bool overlap = false;
};
struct SchedBenchResult {
  int64_t requests = 0, steps = 0, scheduled_tokens = 0;
  double requests_per_second = 0.0;
  double step_us_mean = 0.0, step_us_p50 = 0.0, step_us_p99 = 0.0;
  double decode_step_us_p50 = 0.0;  // of steps in which all rows decode
  double add_us = 0.0;              // adding a request
};
// ERRORS: InvalidArgument, NotFound, Plugin.
[[nodiscard]] SchedBenchResult bench_scheduler(const SchedBenchOptions& options, const Clock& clock);

}  // namespace inflight
