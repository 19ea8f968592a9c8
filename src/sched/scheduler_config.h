// SPDX-License-Identifier: Apache-2.0
// The scheduler's limits. Names are vLLM's.
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace inflight {

struct SchedulerConfig {
  int32_t max_num_seqs = 64;                 // sequences running at once, 1..limits::kSequencesMax
  int32_t max_num_batched_tokens = 512;      // token budget of a step, >= max_num_seqs
  int32_t long_prefill_token_threshold = 0;  // most tokens of one prompt in one step; 0 = the budget alone
  int32_t max_model_len = 0;                 // tokens of a sequence, prompt and output; >= 2
  int32_t max_requests = 65536;              // waiting and running, 1..limits::kRequestsMax

  // `kv_token_count`: tokens that the KV storage holds; max_model_len may not exceed it.
  // ERRORS: InvalidArgument naming the field, the value and the range.
  void validate(int64_t kv_token_count) const;
};

}  // namespace inflight
