// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_executor.h"

#include <algorithm>

#include "base/error.h"
#include "sim/workload.h"

namespace inflight {

SimulatedExecutor::SimulatedExecutor(const DeviceModel& model, ManualClock& clock, bool overlap)
    : model_(model), clock_(clock), overlap_(overlap) {}

void SimulatedExecutor::set_script(SequenceId sequence, const Script& script) {
  const auto index = static_cast<size_t>(to_integer(sequence));
  if (index >= scripts_.size()) scripts_.resize(std::max(index + 1, 2 * scripts_.size()));
  scripts_[index] = script;
}

void SimulatedExecutor::submit(const BatchPlan& plan) {
  INFLIGHT_CHECK(count_ < static_cast<size_t>(kStepsInFlightMax));
  DeviceWork work = DeviceWork::of(plan);
  if (prefill_free_) {
    work.prefill_pairs = 0;
    work.tokens = work.sequences;
  }
  const TimeNs host = model_.host_time(work);
  const TimeNs device = model_.device_time(work);
  const TimeNs begin = std::max(clock_.now() + host, device_free_);
  const TimeNs duration = begin + device - clock_.now();
  device_free_ = begin + device;
  busy_time_ += device;
  if (work.prefill_pairs > 0) prefill_time_ += device;
  decision_hash_.add(plan);
  if (overlap_) clock_.advance(host);

  Flight& flight = flights_[(first_ + count_++) % flights_.size()];
  flight.finished = device_free_;
  flight.result.step = plan.step;
  flight.result.duration = overlap_ ? device : duration;
  flight.result.sampled.clear();
  for (const BatchEntry& entry : plan.entries) {
    if (!entry.samples) continue;
    const Script& script = scripts_[static_cast<size_t>(to_integer(entry.sequence))];
    const int32_t position = entry.context_token_count();
    const bool ends = position == script.end_position;
    flight.result.sampled.push_back(
        {.sequence = entry.sequence, .token = ends ? kSimEndToken : stream_token(script.output_stream, position)});
  }
}

const StepResult& SimulatedExecutor::wait() {
  INFLIGHT_CHECK(count_ > 0);
  const Flight& flight = flights_[first_];
  first_ = (first_ + 1) % flights_.size();
  --count_;
  if (flight.finished > clock_.now()) clock_.advance(flight.finished - clock_.now());
  return flight.result;
}

}  // namespace inflight
