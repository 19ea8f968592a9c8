// SPDX-License-Identifier: Apache-2.0
// plan -> submit -> wait -> commit: the only control flow there is. The engine, the simulator and the tests run this
// very object, each with its own executor and clock.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "core/executor.h"
#include "sched/scheduler.h"

namespace inflight {

// Where the time of the steps went, by the loop's clock.
struct StepTimes {
  TimeNs plan = 0;
  TimeNs submit = 0;
  TimeNs wait = 0;
  TimeNs commit = 0;
  TimeNs swap = 0;  // the device's, copying KV blocks to and from host memory
};

class StepLoop {
 public:
  // overlap: step N+1 is planned and submitted before the result of step N is read; not with speculative decoding,
  // which needs the newest tokens.   LIFETIME: all borrowed.
  StepLoop(Scheduler& scheduler, Executor& executor, const Clock& clock, bool overlap)
      : scheduler_(scheduler),
        executor_(executor),
        clock_(clock),
        depth_(overlap && scheduler.config().num_speculative_tokens == 0 ? 2 : 1) {}

  // Plans and submits at most one step and commits at most one; all in flight when the plan says so. False:
  // there was nothing to do.
  // ERRORS: whatever the executor throws; the loop must not be used again.
  bool step();

  // Reads and commits all steps in flight, planning none.
  void drain();

  [[nodiscard]] const StepTimes& times() const { return times_; }

 private:
  void read_oldest();

  Scheduler& scheduler_;
  Executor& executor_;
  const Clock& clock_;
  int32_t depth_;
  int32_t in_flight_ = 0;
  StepTimes times_;
};

}  // namespace inflight
