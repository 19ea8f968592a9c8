// SPDX-License-Identifier: Apache-2.0
// What an engine tells about itself: totals since it was made and gauges of its last step.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"

namespace inflight {

// Events a second over the last kWindowSeconds.   COST: O(1) an event.
class RateWindow {
 public:
  static constexpr int32_t kWindowSeconds = 30;
  void add(TimeNs now, int32_t count = 1) {
    advance(now);
    counts_[static_cast<size_t>(second_ % kWindowSeconds)] += count;
  }
  [[nodiscard]] double per_second(TimeNs now) const {
    RateWindow copy = *this;
    copy.advance(now);
    int64_t sum = 0;
    for (const int32_t count : copy.counts_) sum += count;
    return static_cast<double>(sum) / kWindowSeconds;
  }

 private:
  void advance(TimeNs now) {
    const int64_t second = now / 1'000'000'000;
    for (int32_t i = 0; second_ < second && i < kWindowSeconds; ++i) {
      counts_[static_cast<size_t>(++second_ % kWindowSeconds)] = 0;
    }
    second_ = second;
  }
  int64_t second_ = 0;
  std::array<int32_t, kWindowSeconds> counts_{};
};

// Why a request was refused at submit.
enum class RejectReason : uint8_t {
  MaxRequests,
  QueuedRequests,
  QueuedTokens,
  PredictedWait,  // it would wait longer than allowed, or than its own deadline lets it
  Draining,
  Paused,
};
inline constexpr size_t kRejectReasonCount = 6;
[[nodiscard]] const char* to_string(RejectReason reason);  // "queued_tokens"

// Where the engine thread's time went; together its life.
struct EngineTimes {
  StepTimes step;
  TimeNs commands = 0;  // taking in requests, cancellations, policies
  TimeNs deliver = 0;   // tokens to streams, metrics
  TimeNs idle = 0;      // nothing to do
};

struct EngineStats {
  SchedulerStats scheduler;
  int32_t waiting = 0;
  int32_t running = 0;
  int32_t blocks_free = 0, blocks_stored = 0, blocks_referenced = 0, blocks_total = 0;
  int64_t evicted_blocks = 0;
  int64_t policy_strikes = 0;
  bool failed = false;
  bool paused = false;
  bool draining = false;
  bool hung = false;  // a step has not come back in time
  StepTimes times;
  EngineTimes engine_times;
  double new_token_ratio = 0.0;
  double recompute_tax = 0.0;
  bool thrashing = false;
  int64_t queued_tokens = 0;  // prompt tokens that wait to be computed
  int64_t expired = 0;        // requests ended by a deadline
  std::array<int64_t, kRejectReasonCount> rejections{};
  RateWindow arrivals, departures;

  // More arrives than leaves, and there is a queue to show for it (checklist 110).
  [[nodiscard]] bool saturated(TimeNs now) const {
    return waiting > 0 && arrivals.per_second(now) > departures.per_second(now);
  }
};

}  // namespace inflight
