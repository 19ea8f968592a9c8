// SPDX-License-Identifier: Apache-2.0
#include "engine/queue_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/rejection.h"

namespace inflight {

const char* to_string(RejectReason reason) {
  constexpr std::array<const char*, kRejectReasonCount> kNames = {"max_requests", "queued_requests", "queued_tokens",
                                                                  "predicted_wait", "draining"};
  return kNames[static_cast<size_t>(reason)];
}

namespace {

// Until `sequences` have left, at the rate of now.
int32_t seconds_until_left(const QueueState& queue, double sequences) {
  const double seconds = queue.service_rate > 0.0 ? std::ceil(sequences / queue.service_rate) : 1.0;
  return static_cast<int32_t>(std::clamp(seconds, 1.0, 3600.0));
}

}  // namespace

int32_t sequences_max(const QueueLimits& limits, int32_t max_num_seqs, int32_t max_requests) {
  if (limits.max_num_queued_reqs == 0) return max_requests;
  return static_cast<int32_t>(std::min(int64_t{max_requests}, int64_t{max_num_seqs} + limits.max_num_queued_reqs));
}

void check_queue(const QueueLimits& limits, const QueueState& queue, const QueueEntry& entry) {
  const auto refuse = [](RejectReason reason, int32_t retry_after, const std::string& message) {
    throw Rejection(reason, retry_after, message);
  };
  if (queue.sequences + entry.sequences > queue.max_requests) {
    refuse(RejectReason::MaxRequests, seconds_until_left(queue, queue.sequences + entry.sequences - queue.max_requests),
           fmt::format("{} requests are waiting or running, allowed: {} (max_requests)", queue.sequences,
                       queue.max_requests));
  }
  const int32_t waiting = queue.waiting + entry.sequences - queue.free_rows;
  if (limits.max_num_queued_reqs > 0 && waiting > limits.max_num_queued_reqs) {
    refuse(RejectReason::QueuedRequests, seconds_until_left(queue, waiting - limits.max_num_queued_reqs),
           fmt::format("{} requests are waiting, allowed: {} (max_num_queued_reqs)",
                       std::max(queue.waiting - queue.free_rows, 0), limits.max_num_queued_reqs));
  }
  const int64_t tokens = queue.waiting_tokens + entry.tokens;
  if (limits.max_num_queued_tokens > 0 && queue.waiting > 0 && tokens > limits.max_num_queued_tokens) {
    const double mean = static_cast<double>(queue.waiting_tokens) / queue.waiting;
    const double excess = static_cast<double>(tokens - limits.max_num_queued_tokens) / std::max(mean, 1.0);
    refuse(RejectReason::QueuedTokens, seconds_until_left(queue, std::ceil(excess)),
           fmt::format("{} prompt tokens are waiting and this request has {}, allowed: {} (max_num_queued_tokens)",
                       queue.waiting_tokens, entry.tokens, limits.max_num_queued_tokens));
  }
  const double wait = queue.predicted_wait_s();
  const double patience = entry.until_deadline > 0 ? static_cast<double>(entry.until_deadline) * 1e-9 : wait;
  const double allowed = limits.max_predicted_wait_s > 0.0 ? std::min(limits.max_predicted_wait_s, patience) : patience;
  if (wait > allowed) {
    const auto retry = static_cast<int32_t>(std::clamp(std::ceil(wait - allowed), 1.0, 3600.0));
    refuse(RejectReason::PredictedWait, retry,
           fmt::format("the request would wait about {:.1f} s, allowed: {:.1f} s ({})", wait, allowed,
                       allowed < patience ? "max_predicted_wait_ms" : "its deadline for the first token"));
  }
}

}  // namespace inflight
