// SPDX-License-Identifier: Apache-2.0
#include "sim/recorded_run.h"

#include <algorithm>
#include <optional>

#include "sched/setup_json.h"
#include "sim/decision_hash.h"

namespace inflight {

void RecordedOutputs::on_plan(const TracePlan& plan) {
  if (plan.entries.empty()) return;
  std::vector<Row> sampled;
  for (const TracePlan::Entry& entry : plan.entries) {
    const auto known = known_tokens_.find(to_integer(entry.sequence));
    if (known == known_tokens_.end() || entry.computed + entry.scheduled < known->second) continue;
    sampled.push_back({entry.sequence, draft_tokens(entry)});
    ++known->second;
  }
  submitted_.push_back({plan.step, std::move(sampled)});
}

int32_t RecordedOutputs::draft_tokens(const TracePlan::Entry& entry) const {
  const auto known = known_tokens_.find(to_integer(entry.sequence));
  return known == known_tokens_.end() ? 0 : std::max(0, entry.computed + entry.scheduled - known->second);
}

namespace {

class Reader {
 public:
  // rest_begin: when the last step before the run had ended.
  Reader(TimeNs begin, TimeNs rest_begin, const AttentionWindows& windows)
      : windows_(windows), last_end_(rest_begin), after_rest_(rest_begin) {
    run_.begin = run_.end = begin;
  }

  void apply(const TraceRecord& record) {
    std::visit([&](const auto& content) { apply(content, record.time); }, record.content);
  }

  RecordedRun take() {
    run_.ttft = LatencySummary::of(std::move(ttft_));
    run_.itl = LatencySummary::of(itl_);
    run_.e2e = LatencySummary::of(std::move(e2e_));
    run_.decision_hash = hash_.value();
    return std::move(run_);
  }

 private:
  struct Live {
    TimeNs arrival = 0;
    int32_t prompt_tokens = 0;
    TimeNs last_token = kNotYet;
    bool scheduled = false;
  };

  template <typename Other>
  void apply(const Other&, TimeNs) {}

  void apply(const TraceAdd& add, TimeNs now) {
    if (live_.empty() && add.request.arrival > run_.end) run_.pickups.push_back(now - add.request.arrival);
    if (!first_sequence_) first_sequence_ = to_integer(add.sequence);
    live_[to_integer(add.sequence)] = {.arrival = std::max(add.request.arrival, run_.begin),
                                       .prompt_tokens = add.prompt_token_count};
    outputs_.add(add.sequence, add.prompt_token_count);
  }

  void apply(const TracePlan& plan, TimeNs now) {
    run_.preemptions += static_cast<int64_t>(plan.preemptions.size());
    if (plan.entries.empty()) return;
    RecordedStep step{.number = plan.step, .planned = now};
    BatchPlan decided;
    for (const TracePlan::Entry& entry : plan.entries) {
      const auto found = live_.find(to_integer(entry.sequence));
      if (found != live_.end() && !std::exchange(found->second.scheduled, true)) {
        run_.prompt_tokens += found->second.prompt_tokens;
        run_.cached_tokens += entry.computed;
      }
      BatchEntry& one = decided.entries.emplace_back();
      one.sequence = static_cast<SequenceId>(to_integer(entry.sequence) - first_sequence_.value_or(0) + 1);
      one.computed_token_count = entry.computed;
      one.scheduled_token_count = entry.scheduled;
      one.draft_token_count = outputs_.draft_tokens(entry);
      // A recording does not say it: one token after others is taken for a decode.
      const bool decodes = entry.scheduled == 1 + one.draft_token_count && entry.computed > 0;
      one.phase = decodes ? Phase::Decode : Phase::Prefill;
      decided.scheduled_token_count += entry.scheduled;
    }
    outputs_.on_plan(plan);
    step.work = DeviceWork::of(decided, windows_);
    hash_.add(decided);
    run_.used_slots += step.work.sequences;
    run_.steps.push_back(step);
  }

  void apply(const TraceCommit& commit, TimeNs now) {
    outputs_.on_commit(commit, [&](SequenceId sequence, const RecordedOutputs::Given& given) {
      Live& live = live_.at(to_integer(sequence));
      if (live.last_token == kNotYet) {
        ttft_.push_back(now - live.arrival);
      } else {
        itl_.add(now - live.last_token);
      }
      live.last_token = now;
      run_.output_tokens += given.token_count();
      if (given.draft_tokens == 0) return;
      ++run_.guesses.drafts;
      run_.guesses.draft_tokens += given.draft_tokens;
      run_.guesses.accepted_tokens += given.accepted_tokens;
    });
    if (ended_ == run_.steps.size() || run_.steps[ended_].number != commit.step) return;
    RecordedStep& step = run_.steps[ended_++];
    step.ended = now;
    step.after_idle = idle_;
    step.duration = now - (idle_ ? std::max(run_.end, step.planned) : run_.end);
    // A step that was planned before the last request was seen to have ended follows no rest.
    if (idle_ && last_end_ < step.planned) after_rest_.rested(last_end_, step.planned);
    after_rest_.count(step.work, step.planned);
    run_.end = last_end_ = now;
    idle_ = live_.empty();
  }

  void apply(const TraceFinish& finish, TimeNs now) {
    const auto found = live_.find(to_integer(finish.sequence));
    if (found == live_.end()) return;
    if (finish.reason != FinishReason::Error) {
      ++run_.finished;
      e2e_.push_back(now - found->second.arrival);
    } else {
      ++(found->second.scheduled ? run_.failed : run_.rejected);
    }
    live_.erase(found);
    idle_ = live_.empty();
    outputs_.on_finish(finish.sequence);
  }

  const AttentionWindows windows_;
  RecordedRun run_;
  bool idle_ = true;  // when the last step had ended
  TimeNs last_end_;
  AfterRest after_rest_;
  size_t ended_ = 0;  // steps
  std::optional<uint64_t> first_sequence_;
  std::unordered_map<uint64_t, Live> live_;
  RecordedOutputs outputs_;
  std::vector<TimeNs> ttft_, e2e_;
  LatencyHistogram itl_;
  DecisionHash hash_;
};

}  // namespace

RecordedRun read_recorded_run(std::span<const TraceRecord> records, TimeNs begin) {
  // Requests may have come while the engine was held: the run begins after the last commit before `begin`.
  size_t first = 0;
  TimeNs rest_begin = begin - kRestBeforeTheBegin;
  for (size_t i = 0; i < records.size() && records[i].time < begin; ++i) {
    if (std::holds_alternative<TraceCommit>(records[i].content) ||
        std::holds_alternative<TraceFinish>(records[i].content)) {
      first = i + 1;
      rest_begin = records[i].time;
    }
  }
  AttentionWindows windows;
  if (const auto* setup = records.empty() ? nullptr : std::get_if<TraceBegin>(&records.front().content)) {
    const SchedulerSetup parsed = parse_setup_json(setup->configuration_json);
    windows = parsed.config.windows(parsed.blocks.local_window);
  }
  Reader reader(begin, rest_begin, windows);
  for (const TraceRecord& record : records.subspan(first)) reader.apply(record);
  return reader.take();
}

}  // namespace inflight
