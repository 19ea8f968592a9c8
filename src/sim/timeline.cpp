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
  Step step{.number = trace.plan.step};
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
  submitted_.push_back(step);
}

void Timeline::on_commit(const StepResult& result, TimeNs now) {
  if (submitted_.empty() || submitted_.front().number != result.step) return;  // a step without sequences
  Step step = submitted_.front();
  submitted_.pop_front();
  step.begin = now - result.duration;
  step.duration = result.duration;
  if (read_++ % stride_ != 0) return;
  steps_.push_back(step);
  if (steps_.size() < kStepsMax) return;
  for (size_t i = 0; 2 * i < steps_.size(); ++i) steps_[i] = steps_[2 * i];
  steps_.resize(steps_.size() / 2);
  stride_ *= 2;
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

void Timeline::end(TimeNs now) {
  while (!open_.empty()) end_interval(static_cast<SequenceId>(open_.begin()->first), now, false);
}

std::string to_json(const Timeline& timeline) {
  const auto milliseconds = [](TimeNs time) { return static_cast<double>(time) * 1e-6; };
  std::string text = R"({"rows":[)";
  for (const Timeline::Interval& interval : timeline.intervals()) {
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

std::string to_chrome_trace(const Timeline& timeline, std::string_view whose) {
  // Times are in microseconds; process 0 holds the steps, process 1 the batch's rows.
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  constexpr const char* kName = R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}{}"}}}})";
  text += fmt::format(kName, 0, "steps", whose) + ",\n" + fmt::format(kName, 1, "rows of the batch", whose);
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
    text += fmt::format(
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"sequence "
        "{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"preempted\":{}}}}}",
        interval.row, interval.sequence, microseconds(interval.begin), microseconds(interval.end - interval.begin),
        interval.preempted);
  }
  return text + "\n]}\n";
}

}  // namespace inflight
