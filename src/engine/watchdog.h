// SPDX-License-Identifier: Apache-2.0
// Notices a step that does not come back: a kernel that spins, a driver that hangs. The engine thread holds a Step
// while one is under way; the watchdog's own thread looks at its age.
// THREAD: Step: the engine thread; hung() and check(): any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace inflight {

class Watchdog {
 public:
  // timeout 0: off.  report: called once a hang, in the watchdog's thread.   LIFETIME: `clock` is borrowed.
  Watchdog(TimeNs timeout, const Clock& clock, std::function<void(TimeNs since_begin)> report);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  // A step, from its making to its end, also by an exception. One at a time.
  class Step {
   public:
    explicit Step(Watchdog& watchdog) : watchdog_(watchdog) {
      watchdog_.begun_.store(watchdog_.clock_.now(), std::memory_order_release);
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() { watchdog_.begun_.store(kIdle, std::memory_order_release); }

   private:
    Watchdog& watchdog_;
  };
  [[nodiscard]] bool hung() const {
    const TimeNs late = late_.load(std::memory_order_acquire);
    return late != kIdle && late == begun_.load(std::memory_order_acquire);
  }
  // What the watchdog's thread does every quarter of the timeout.
  void check();

 private:
  static constexpr TimeNs kIdle = -1;
  const TimeNs timeout_;
  const Clock& clock_;
  std::function<void(TimeNs)> report_;
  std::atomic<TimeNs> begun_ = kIdle;  // the step under way
  // The last step that was too late, by when it began; written by check() alone. That it hangs is no flag of its own,
  // which two threads would set and take back.
  std::atomic<TimeNs> late_ = kIdle;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace inflight
