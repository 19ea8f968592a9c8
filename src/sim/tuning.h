// SPDX-License-Identifier: Apache-2.0
// A search for the limits that serve a workload best.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"

namespace inflight {

// What a search for limits wants.
struct TuneGoal {
  double ttft_p95_ms = 0.0;  // at most; 0 = whatever
  double itl_p95_ms = 0.0;   // likewise
};
struct TuneStep {
  std::string setting;  // "max_num_seqs=32 ..."
  double output_tokens_per_second = 0.0;
  double ttft_p95_ms = 0.0, itl_p95_ms = 0.0;
  int64_t turned_away = 0;  // requests rejected or unfinished
  bool meets = false;
};
struct TuneResult {
  int32_t max_num_seqs = 0, max_num_batched_tokens = 0, long_prefill_token_threshold = 0;
  bool meets = false;  // the goal can be met at all
  TuneStep best;
  std::vector<TuneStep> tried;
};
// The most output tokens a second within the goal, which a setting misses that turns away more requests than the one
// to begin with; of settings within 1 % of that, the lowest p95 of TTFT (where
// arrivals bound the throughput, many settings have it). One limit after the other over powers of two until none
// improves, then over values between them. base: what else is set, as read_sim_spec() takes it.
// ERRORS: InvalidArgument (the goal), and those of read_sim_spec() and run_simulation().
[[nodiscard]] TuneResult tune_limits(const nlohmann::ordered_json& base, const TuneGoal& goal, const Clock& wall,
                                     const std::function<void(double)>& progress);

}  // namespace inflight
