// SPDX-License-Identifier: Apache-2.0
// May one more request join the queue? Names are vLLM's where vLLM has the limit. Pure; THREAD: any.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace inflight {

struct QueueLimits {
  int32_t max_num_queued_reqs = 0;    // sequences that wait beyond the free rows; 0 = no limit of its own
  int64_t max_num_queued_tokens = 0;  // prompt tokens that wait; 0 = no limit
  double max_predicted_wait_s = 0.0;  // 0 = no limit
};

// What waits now, and how fast it goes.
struct QueueState {
  int32_t sequences = 0;  // waiting and running
  int32_t max_requests = 0;
  int32_t waiting = 0;
  int32_t free_rows = 0;  // max_num_seqs less those that run: so many of the waiting are about to
  int64_t waiting_tokens = 0;
  double service_rate = 0.0;  // sequences that end, a second; 0 = not known yet

  // Until whoever waits now has been served; 0 when that is not known.
  [[nodiscard]] double predicted_wait_s() const {
    return service_rate > 0.0 ? static_cast<double>(waiting) / service_rate : 0.0;
  }
};

struct QueueEntry {
  int32_t sequences = 1;
  int64_t tokens = 0;         // of its prompt
  TimeNs until_deadline = 0;  // from now to its deadline for the first token; 0 = none
};

// That run and wait at most.
[[nodiscard]] int32_t sequences_max(const QueueLimits& limits, int32_t max_num_seqs, int32_t max_requests);

// ERRORS: Rejection.
void check_queue(const QueueLimits& limits, const QueueState& queue, const QueueEntry& entry);

}  // namespace inflight
