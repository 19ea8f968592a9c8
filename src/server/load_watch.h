// SPDX-License-Identifier: Apache-2.0
// What a server concludes from the engine's counters: is it alive, and when is there room again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "inflight/inflight.h"

namespace inflight::server {

// THREAD: one.
class LoadWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // The counters of now; call some times a second.
  void observe(const inflight_stats_t& stats, Clock::time_point now);

  // A step takes longer than the engine's watchdog_timeout_s.
  [[nodiscard]] bool hung() const { return hung_; }
  // The engine has stopped for good.
  [[nodiscard]] bool failed() const { return failed_; }
  // Seconds until the waiting requests will be about half as many, at the pace of the last half minute; 1..60.
  [[nodiscard]] int32_t retry_after_s() const;

 private:
  struct Sample {
    Clock::time_point time;
    uint64_t finished;
  };
  std::deque<Sample> samples_;
  int32_t waiting_ = 0;
  bool hung_ = false;
  bool failed_ = false;
};

}  // namespace inflight::server
