// SPDX-License-Identifier: Apache-2.0
// A clock that moves when a test says so.
#pragma once

#include "base/clock.h"

namespace inflight::test {

class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now() const override { return now_; }
  // REQUIRES: duration >= 0.
  void advance(TimeNs duration) { now_ += duration; }

 private:
  TimeNs now_ = 0;
};

}  // namespace inflight::test
