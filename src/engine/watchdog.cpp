// SPDX-License-Identifier: Apache-2.0
#include "engine/watchdog.h"

#include <utility>

namespace inflight {

Watchdog::Watchdog(TimeNs timeout, const Clock& clock, std::function<void(TimeNs)> report)
    : timeout_(timeout), clock_(clock), report_(std::move(report)) {
  if (timeout_ <= 0) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, std::chrono::nanoseconds(timeout_ / 4), [] { return false; });
      if (!stop.stop_requested()) check();
    }
  });
}

Watchdog::~Watchdog() = default;

void Watchdog::check() {
  const TimeNs begun = begun_.load(std::memory_order_acquire);
  if (begun == kIdle || begun == late_.load(std::memory_order_relaxed)) return;
  const TimeNs passed = clock_.now() - begun;
  if (passed <= timeout_) return;
  late_.store(begun, std::memory_order_release);
  if (hung()) report_(passed);  // else it has come back in the meantime
}

}  // namespace inflight
