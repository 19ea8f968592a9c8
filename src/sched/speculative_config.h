// SPDX-License-Identifier: Apache-2.0
// The knobs of speculative decoding as vLLM's --speculative-config has them.
#pragma once

#include <string_view>

#include "sched/scheduler_config.h"

namespace inflight {

// Reads a JSON object: "method" ("ngram", the default), "num_speculative_tokens" (needed), "adaptive" (true),
// "prompt_lookup_min", "prompt_lookup_max" (one of them alone stands for both), "disable_by_batch_size". ERRORS:
// InvalidArgument naming the key, the value and what is allowed.   THREAD: any.
void read_speculative_config(std::string_view json, SchedulerConfig& config);

}  // namespace inflight
