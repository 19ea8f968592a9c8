// SPDX-License-Identifier: Apache-2.0
// What the scheduler itself costs: the closed loop that its peers were measured with (so many running, so many waiting,
// unique prompts of 512 tokens, 128 outputs, block 16, budget 2048), over an executor that takes no time. Time counts
// in plan() and commit() only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace inflight {

struct SchedBenchOptions {
  int32_t running = 256;
  int32_t waiting = 1000;
  int32_t prompt_tokens = 512;
  int32_t output_tokens = 128;
  int32_t max_num_batched_tokens = 2048;
  int32_t kv_blocks = 0;  // 0 = ample for all that run
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

// What taking a block and giving it back costs while `occupancy` of a pool is held by others, in order of occupancy.
struct BlockCost {
  double occupancy = 0.0;
  double ns = 0.0;
};
// Each figure is the least of `repeat` runs of `churns` blocks.
[[nodiscard]] std::vector<BlockCost> bench_blocks(int32_t block_count, int64_t churns, int32_t repeat,
                                                  const Clock& clock);

}  // namespace inflight
