// SPDX-License-Identifier: Apache-2.0
// Time as an argument: nothing below the engine reads a clock. The engine uses SteadyClock, the simulator a SimClock
// and tests a ManualClock, and all hand the scheduler the same kind of number.
#pragma once

#include <chrono>
#include <cstdint>

namespace inflight {

// Nanoseconds since an arbitrary origin; never decreases.
using TimeNs = int64_t;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimeNs now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace inflight
