// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <fmt/format.h>

namespace inflight {

void Timeline::on_add(SequenceId, const Request&, std::span<const TokenId>, TimeNs) { ++waiting_; }

void Timeline::on_cancel(SequenceId, bool, FinishReason, TimeNs) {}

void Timeline::on_plan(const PlanTrace& trace, TimeNs now) {
  for (const Preemption& preemption : trace.preemptions) {
    end_interval(preemption.sequence, now, true);
    ++waiting_;
  }
  if (trace.plan.entries.empty()) return;
  Step step{.number = trace.plan.step, .begin = now};
  for (const BatchEntry& entry : trace.plan.entries) {
    const uint64_t id = to_integer(entry.sequence);
    const auto [open, admitted] = open_.try_emplace(id, kIntervalsMax);
    if (admitted) {
      --waiting_;
      if (intervals_.size() < kIntervalsMax) {
        open->second = intervals_.size();
        intervals_.push_back({.sequence = id, .row = entry.row, .begin = now});
      }
    }
    if (entry.phase == Phase::Decode) {
      ++step.decodes;
      if (open->second < kIntervalsMax && intervals_[open->second].prefilled == kNotYet) {
        intervals_[open->second].prefilled = now;
      }
    } else {
      step.prefill_tokens += entry.scheduled_token_count;
    }
  }
  step.waiting = waiting_;
  if (planned_++ % stride_ != 0) return;
  steps_.push_back(step);
  if (steps_.size() < kStepsMax) return;
  for (size_t i = 0; 2 * i < steps_.size(); ++i) steps_[i] = steps_[2 * i];
  steps_.resize(steps_.size() / 2);
  stride_ *= 2;
}

void Timeline::on_commit(const StepResult& result, TimeNs) {
  for (size_t i = steps_.size(); i-- > 0 && steps_[i].number >= result.step;) {
    if (steps_[i].number == result.step) steps_[i].duration = result.duration;
  }
}

void Timeline::on_finish(SequenceId sequence, FinishReason, TimeNs now) {
  if (open_.contains(to_integer(sequence))) {
    end_interval(sequence, now, false);
  } else {
    --waiting_;
  }
}

void Timeline::end_interval(SequenceId sequence, TimeNs now, bool preempted) {
  const auto open = open_.find(to_integer(sequence));
  if (open == open_.end()) return;
  if (open->second < kIntervalsMax) {
    intervals_[open->second].end = now;
    intervals_[open->second].preempted = preempted;
  }
  open_.erase(open);
}

std::string to_json(const Timeline& timeline) {
  const auto milliseconds = [](TimeNs time) { return static_cast<double>(time) * 1e-6; };
  std::string text = R"({"rows":[)";
  for (const Timeline::Interval& interval : timeline.intervals()) {
    if (interval.end == kNotYet) continue;
    text += fmt::format("{}[{},{:.3f},{:.3f},{}]", text.back() == '[' ? "" : ",", interval.row,
                        milliseconds(interval.begin), milliseconds(interval.end), interval.preempted);
  }
  text += R"(],"steps":[)";
  for (const Timeline::Step& step : timeline.steps()) {
    text += fmt::format("{}[{:.3f},{:.3f},{},{}]", text.back() == '[' ? "" : ",", milliseconds(step.begin),
                        milliseconds(step.duration), step.prefill_tokens, step.decodes);
  }
  return text + "]}";
}

std::string to_chrome_trace(const Timeline& timeline) {
  // Times are in microseconds; process 0 holds the steps, process 1 the batch's rows.
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  text += R"({"ph":"M","pid":0,"name":"process_name","args":{"name":"steps"}},)"
          "\n";
  text += R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"rows of the batch"}})";
  const auto microseconds = [](TimeNs time) { return static_cast<double>(time) * 1e-3; };
  for (const Timeline::Step& step : timeline.steps()) {
    text += fmt::format(
        ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"step "
        "{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"prefill_tokens\":{},"
        "\"decodes\":{},\"waiting\":{}}}}}",
        step.number, microseconds(step.begin), microseconds(step.duration), step.prefill_tokens, step.decodes,
        step.waiting);
    text += fmt::format(
        ",\n{{\"ph\":\"C\",\"pid\":0,\"name\":\"sequences\",\"ts\":{:.3f},\"args\":{{\"decoding\":{},\"waiting\":{}}}}"
        "}",
        microseconds(step.begin), step.decodes, step.waiting);
  }
  for (const Timeline::Interval& interval : timeline.intervals()) {
    if (interval.end == kNotYet) continue;
    text += fmt::format(
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"sequence "
        "{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"preempted\":{}}}}}",
        interval.row, interval.sequence, microseconds(interval.begin), microseconds(interval.end - interval.begin),
        interval.preempted);
  }
  return text + "\n]}\n";
}

}  // namespace inflight
