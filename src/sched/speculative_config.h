// SPDX-License-Identifier: Apache-2.0
// The knobs of speculative decoding as vLLM's --speculative-config has them.
#pragma once

#include <string>
#include <string_view>

#include "sched/scheduler_config.h"

namespace inflight {

// Reads a JSON object: "num_speculative_tokens" (needed), "method" ("ngram" or "draft_model"; without it that with a
// "model"), "model" (a GGUF file), "adaptive" (true), "disable_by_batch_size", and of "ngram" "prompt_lookup_min",
// "prompt_lookup_max" (one of them alone stands for both).   Returns the model; "": none.
// ERRORS: InvalidArgument naming the key, the value and what is allowed.   THREAD: any.
[[nodiscard]] std::string read_speculative_config(std::string_view json, SchedulerConfig& config);

}  // namespace inflight
