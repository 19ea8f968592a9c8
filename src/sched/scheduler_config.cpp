// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_config.h"

#include "base/error.h"

namespace inflight {

void SchedulerConfig::validate(int64_t kv_token_count) const {
  const auto require = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {} to {}", name, value, low, high);
    }
  };
  require("max_num_seqs", max_num_seqs, 1, limits::kSequencesMax);
  require("max_num_batched_tokens", max_num_batched_tokens, 1, limits::kBatchedTokensMax);
  require("long_prefill_token_threshold", long_prefill_token_threshold, 0, limits::kBatchedTokensMax);
  require("max_requests", max_requests, max_num_seqs, limits::kRequestsMax);
  require("max_model_len", max_model_len, 2, kv_token_count);
  if (max_num_batched_tokens < max_num_seqs) {
    fail(ErrorCode::InvalidArgument,
         "max_num_batched_tokens is {}, allowed: at least max_num_seqs ({}), so that every running sequence can decode",
         max_num_batched_tokens, max_num_seqs);
  }
}

}  // namespace inflight
