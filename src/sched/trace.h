// SPDX-License-Identifier: Apache-2.0
// What the scheduler tells about its work, so that it can be recorded, replayed step by step and explained.
// THREAD: called on the engine thread, from inside the scheduler: must not call back into it.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/ids.h"
#include "core/batch_plan.h"
#include "core/request.h"
#include "core/step_result.h"

namespace inflight {

// What became of a waiting sequence that was looked at in a step.
enum class AdmissionResult : uint8_t {
  Accepted,
  NoSpace,        // max_num_seqs are running
  NoTokenBudget,  // the step's tokens are used up
  NoInputBudget,  // the step's prompt tokens are used up
  OutOfMemory,    // its known tokens need more blocks than can be had
  NoAdapter,      // max_loras other adapters run
  NotReady,       // something it needs is still on its way
  Policy,         // the policy said no
};
inline constexpr size_t kAdmissionResultCount = 8;
[[nodiscard]] const char* to_string(AdmissionResult result);

struct Refusal {
  SequenceId sequence{};
  AdmissionResult result = AdmissionResult::Policy;
  int32_t wanted_blocks = 0;     // OutOfMemory
  int32_t available_blocks = 0;  // OutOfMemory
};

struct Preemption {
  SequenceId sequence{};
  int32_t lost_tokens = 0;
  int32_t swapped_blocks = 0;
};

// One call of Scheduler::plan().   LIFETIME: everything is valid during the call only.
struct PlanTrace {
  const BatchPlan& plan;
  std::span<const Refusal> refusals;
  // What whoever was not looked at waited for: why the pass over the waiting list ended or did not begin. Accepted: it
  // came to its end.
  AdmissionResult pass_end = AdmissionResult::Accepted;
  std::span<const Preemption> preemptions;
};

class SchedulerTrace {
 public:
  SchedulerTrace() = default;
  SchedulerTrace(const SchedulerTrace&) = delete;
  SchedulerTrace& operator=(const SchedulerTrace&) = delete;
  virtual ~SchedulerTrace() = default;

  // One call a request; its further choices have the sequence ids that follow.
  virtual void on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) = 0;
  // whole_request: all choices of the request that `sequence` belongs to.
  virtual void on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) = 0;
  virtual void on_plan(const PlanTrace& plan, TimeNs now) = 0;
  virtual void on_commit(const StepResult& result, TimeNs now) = 0;
  virtual void on_finish(SequenceId sequence, FinishReason reason, TimeNs now) = 0;
};

}  // namespace inflight
