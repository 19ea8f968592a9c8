// SPDX-License-Identifier: Apache-2.0
// The engine's view of a device: plans in, sampled tokens out, in order. Implemented by exec/ClExecutor (OpenCL), the
// simulator (a cost model) and the tests (an exact oracle).
#pragma once

#include <cstdint>

#include "core/batch_plan.h"
#include "core/step_result.h"

namespace inflight {

// THREAD: the engine thread only.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // Starts a step and returns without waiting for it; everything in `plan` is read before return. At most
  // kStepsInFlightMax steps may be submitted and not yet waited for. Steps run in the order of submission, so a block
  // freed after submit() may be handed out again at once.
  // ERRORS: Device, OutOfMemory; the executor is then unusable.
  virtual void submit(const BatchPlan& plan) = 0;

  // Blocks until the oldest submitted step is done.
  // LIFETIME: the result is valid until the next wait().   REQUIRES: a step is in flight.
  [[nodiscard]] virtual const StepResult& wait() = 0;

  static constexpr int32_t kStepsInFlightMax = 2;
};

}  // namespace inflight
