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
  if (begun == kIdle || hung()) return;
  const TimeNs passed = clock_.now() - begun;
  if (passed <= timeout_) return;
  hung_.store(true, std::memory_order_release);
  // It may have come back in the meantime.
  if (begun_.load(std::memory_order_acquire) != begun) {
    hung_.store(false, std::memory_order_release);
    return;
  }
  report_(passed);
}

}  // namespace inflight
