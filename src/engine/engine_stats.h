// SPDX-License-Identifier: Apache-2.0
// What an engine tells about itself: totals since it was made and gauges of its last step.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/clock.h"
#include "engine/rejection.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"

namespace inflight {

// Events a second over the last kWindowSeconds, or since the first if that is less.   COST: O(1) an event.
class RateWindow {
 public:
  static constexpr int32_t kWindowSeconds = 30;
  // now: may lie a moment before an earlier one, as events of several threads do; it counts with that one then.
  void add(TimeNs now, int32_t count) {
    advance(now);
    if (first_ < 0) first_ = now;
    counts_[static_cast<size_t>(second_ % kWindowSeconds)] += count;
  }
  [[nodiscard]] double per_second(TimeNs now) const {
    RateWindow copy = *this;
    copy.advance(now);
    int64_t sum = 0;
    for (const int32_t count : copy.counts_) sum += count;
    const double since_first = static_cast<double>(now - first_) * 1e-9;
    return static_cast<double>(sum) / std::clamp(since_first, 1.0, double{kWindowSeconds});
  }

 private:
  void advance(TimeNs now) {
    const int64_t second = now / 1'000'000'000;
    for (int32_t i = 0; second_ < second && i < kWindowSeconds; ++i) {
      counts_[static_cast<size_t>(++second_ % kWindowSeconds)] = 0;
    }
    second_ = std::max(second_, second);
  }
  TimeNs first_ = -1;
  int64_t second_ = 0;
  std::array<int32_t, kWindowSeconds> counts_{};
};

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
  int32_t compiling = 0;  // of these, sequences whose grammar is being compiled
  int32_t running = 0;
  int32_t free_rows = 0;                                 // of a batch
  int32_t max_num_seqs = 0, max_num_batched_tokens = 0;  // in force
  int32_t blocks_free = 0, blocks_stored = 0, blocks_referenced = 0, blocks_total = 0;
  int64_t evicted_blocks = 0;
  int64_t policy_strikes = 0;
  bool schedule_active = false, eviction_active = false;  // the policy in force decides, it was not taken out
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
  RateWindow arrivals, departures;  // of sequences; those of rejected requests arrive, too

  // More arrives than leaves, and there is a queue to show for it.
  [[nodiscard]] bool saturated(TimeNs now) const {
    return waiting > 0 && arrivals.per_second(now) > departures.per_second(now);
  }
};

}  // namespace inflight
