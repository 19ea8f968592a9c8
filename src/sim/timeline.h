// SPDX-License-Identifier: Apache-2.0
// What happened when, for pictures: who held which row of the batch, and what each step carried. Told by the
// scheduler's trace; keeps the first so many intervals and thins the steps out, so that long runs stay small. THREAD:
// the engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sched/trace.h"
#include "sim/sim_result.h"

namespace inflight {

class Timeline final : public SchedulerTrace {
 public:
  // A sequence on a row, from the step that admitted it to its end or preemption.
  struct Interval {
    uint64_t sequence = 0;
    int32_t row = 0;
    TimeNs begin = 0;
    TimeNs prefilled = kNotYet;  // its first decode step begins
    TimeNs end = kNotYet;
    bool preempted = false;
  };
  // A step whose result was read. With overlap the device's time: it was planned while the one before still ran.
  struct Step {
    uint64_t number = 0;
    TimeNs begin = 0;
    TimeNs duration = 0;
    int32_t prefill_tokens = 0;
    int32_t decodes = 0;
    int32_t waiting = 0;
  };

  void on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) override;
  void on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) override;
  void on_plan(const PlanTrace& plan, TimeNs now) override;
  void on_commit(const StepResult& result, TimeNs now) override;
  void on_finish(SequenceId sequence, FinishReason reason, TimeNs now) override;

  // The run ends: so do the intervals of those that still run.
  void end(TimeNs now);

  [[nodiscard]] const std::vector<Interval>& intervals() const { return intervals_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  // Every so many steps one is kept.
  [[nodiscard]] int64_t stride() const { return stride_; }

  static constexpr size_t kIntervalsMax = 4000;
  static constexpr size_t kStepsMax = 8000;

 private:
  void end_interval(SequenceId sequence, TimeNs now, bool preempted);

  std::vector<Interval> intervals_;
  std::deque<Step> submitted_;  // not read yet
  std::vector<Step> steps_;
  int64_t stride_ = 1;
  int64_t read_ = 0;
  int32_t waiting_ = 0;
  std::unordered_map<uint64_t, size_t> open_;  // by sequence: its interval, or kIntervalsMax
};

// {"rows": [[row, begin ms, end ms, preempted]], "steps": [[begin ms, duration ms, prompt tokens, decodes]]}.
[[nodiscard]] std::string to_json(const Timeline& timeline);

// For chrome://tracing and Perfetto: a row each for the steps and for the batch's rows. whose: behind their names, " of
// replica 0".
[[nodiscard]] std::string to_chrome_trace(const Timeline& timeline, std::string_view whose);

}  // namespace inflight
