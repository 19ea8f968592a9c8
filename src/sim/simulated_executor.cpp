// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_executor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "core/attended_tokens.h"
#include "sim/workload.h"

namespace inflight {

void SimClock::refuse() {
  fail(ErrorCode::InvalidArgument, "the simulation goes beyond {:.0f} s of virtual time, the most that is counted",
       kSimSecondsMax);
}

SimulatedExecutor::SimulatedExecutor(const DeviceModel& model, SimClock& clock, bool overlap, uint64_t seed)
    : model_(model), clock_(clock), overlap_(overlap), jitter_(seed + 1) {}

void SimulatedExecutor::set_script(SequenceId sequence, Script script) {
  const auto index = static_cast<size_t>(to_integer(sequence));
  if (index >= scripts_.size()) scripts_.resize(std::max(index + 1, 2 * scripts_.size()));
  scripts_[index] = std::move(script);
}

bool SimulatedExecutor::end_rest(TimeNs now) {
  if (device_free_ >= now) return false;
  after_rest_.rested(device_free_, now);
  device_free_ = now;
  return true;
}

SimulatedExecutor::Launched SimulatedExecutor::launch(DeviceWork work) {
  const TimeNs now = clock_.now();
  after_rest_.count(work, now);
  const TimeNs host = model_.host_time(work);
  const TimeNs device = jittered(work, model_.device_time(work));
  device_free_ = std::max(now + host, device_free_) + device;
  busy_time_.all += device;
  if (work.prefill_pairs > 0) busy_time_.prefill += device;
  if (overlap_) clock_.advance(host);
  return {.finished = device_free_, .duration = overlap_ ? device : device_free_ - now};
}

TimeNs SimulatedExecutor::jittered(const DeviceWork& work, TimeNs device) {
  const DeviceProfile& profile = model_.profile();
  const std::vector<Jitter>& jitter = work.prefill_pairs > 0 ? profile.prompt_jitter : profile.decode_jitter;
  if (jitter.empty()) return device;
  const auto above = std::ranges::upper_bound(jitter, static_cast<double>(device) * 1e-3, {}, &Jitter::from_us);
  const std::vector<double>& values = (above == jitter.begin() ? above : above - 1)->values;
  return whole_ns(static_cast<double>(device) * values[jitter_.below(values.size())]);
}

TokenId SimulatedExecutor::token_at(SequenceId sequence, int32_t position) const {
  return scripts_[static_cast<size_t>(to_integer(sequence))].output.at(position);
}

void SimulatedExecutor::leave_out_entering(const BatchPlan& plan, DeviceWork& work) {
  const AttentionWindows windows = model_.profile().windows();
  work.tokens = work.draft_tokens;
  work.prefill_pairs = work.prompts = 0;
  for (const BatchEntry& entry : plan.entries) {
    Script& script = scripts_[static_cast<size_t>(to_integer(entry.sequence))];
    const int32_t begin = entry.computed_token_count, count = entry.scheduled_token_count;
    const int32_t again = entry.phase == Phase::Decode ? 0 : std::clamp(script.entered - begin, 0, count);
    // Once its newest token is computed, all that it loses was here.
    script.entered =
        entry.samples ? std::numeric_limits<int32_t>::max() : std::max(script.entered, entry.context_token_count());
    // The newest token attends to all that came.
    const bool newest = entry.samples && again < count;
    work.tokens += entry.phase == Phase::Decode ? 1 : std::max(again + newest, 1);
    if (entry.phase == Phase::Decode) continue;
    entered_.tokens += count - again - newest;
    const int64_t of_newest = newest ? attended_tokens(entry.context_token_count() - 1, 1, windows) : 0;
    const int64_t of_again = attended_tokens(begin, again, windows);
    entered_.pairs += attended_tokens(begin, count, windows) - of_newest - of_again;
    work.decode_context += of_newest;
    work.prompts += again > 0;
    work.prefill_pairs += of_again;
  }
}

void SimulatedExecutor::submit(const BatchPlan& plan) {
  INFLIGHT_CHECK(count_ < static_cast<size_t>(kStepsInFlightMax));
  DeviceWork work = DeviceWork::of(plan, model_.profile().windows());
  if (prefill_free_) leave_out_entering(plan, work);
  const Launched launched = launch(work);
  on_submit_();
  decision_hash_.add(plan);
  Flight& flight = flights_[(first_ + count_++) % flights_.size()];
  flight.finished = launched.finished;
  flight.prefills = work.prefill_pairs > 0;
  flight.result.step = plan.step;
  flight.result.duration = launched.duration;
  flight.result.sampled.resize(static_cast<size_t>(plan.sampled_row_count));
  flight.positions.resize(static_cast<size_t>(plan.sampled_row_count));
  flight.further.clear();
  flight.further.reserve(static_cast<size_t>(plan.scheduled_token_count));  // spans point into it
  size_t row = 0;
  for (const BatchEntry& entry : plan.entries) {
    if (!entry.samples) continue;
    const int32_t position = entry.sampled_position();
    SampledToken& sampled = flight.result.sampled[row];
    sampled.sequence = entry.sequence;
    sampled.token = token_at(entry.sequence, position);
    sampled.further = {};
    flight.positions[row++] = position;
    if (entry.draft_token_count == 0) continue;
    const size_t begin = flight.further.size();
    verify_drafts(entry.drafts(), sampled.token, flight.further, [&](size_t i) -> TokenLogprob {
      return {token_at(entry.sequence, position + 1 + static_cast<int32_t>(i)), 0.0F};
    });
    sampled.further = std::span(flight.further).subspan(begin);
  }
}

void SimulatedExecutor::submit_carried(const DeviceWork& work) { carried_ = launch(work); }

TimeNs SimulatedExecutor::wait_carried() {
  Launched ended = carried_;
  if (count_ > 0) {  // the one before ends; the new one takes its place
    Flight& flight = flights_[first_];
    ended = {.finished = flight.finished, .duration = flight.result.duration};
    flight.finished = carried_.finished;
    flight.result.duration = carried_.duration;
  }
  if (ended.finished > clock_.now()) clock_.advance(ended.finished - clock_.now());
  return ended.duration;
}

void SimulatedExecutor::end_carried(int64_t steps) {
  decision_hash_.add_carried_on(steps);
  if (count_ == 0) return;
  Flight& flight = flights_[first_];
  flight.result.step += static_cast<uint64_t>(steps);
  for (size_t i = 0; i < flight.positions.size(); ++i) {
    SampledToken& sampled = flight.result.sampled[i];
    flight.positions[i] += static_cast<int32_t>(steps);
    sampled.token = token_at(sampled.sequence, flight.positions[i]);
  }
}

SimulatedExecutor::BusyTime SimulatedExecutor::busy_time(TimeNs until) const {
  BusyTime busy = busy_time_;
  for (size_t i = 0; i < count_; ++i) {  // with overlap only: durations are the device's
    const Flight& flight = flights_[(first_ + i) % flights_.size()];
    const TimeNs after = std::clamp<TimeNs>(flight.finished - until, 0, flight.result.duration);
    busy.all -= after;
    if (flight.prefills) busy.prefill -= after;
  }
  return busy;
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
