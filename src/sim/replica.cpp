// SPDX-License-Identifier: Apache-2.0
#include "sim/replica.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "cache/adapter_salt.h"
#include "sched/carried_steps.h"

namespace inflight {

Replica::Replica(const Options& options, const DeviceModel& model, const Workload& workload,
                 std::function<void(const RequestRecord&)> on_end)
    : options_(options),
      model_(model),
      workload_(workload),
      on_end_(std::move(on_end)),
      eviction_(make_eviction_policy(options.setup.eviction_policy, options.setup,
                                     {.seed = options.setup.seed, .simulated = true})),
      blocks_(options.setup.blocks, *eviction_),
      policy_(make_schedule_policy(options.setup.schedule_policy, options.setup,
                                   {.seed = options.setup.seed, .simulated = true})),
      scheduler_(options.setup.config, blocks_, *policy_),
      executor_(model, clock_, options.overlap, options.setup.seed),
      loop_(scheduler_, executor_, clock_, options.overlap) {
  eviction_->attach(blocks_, scheduler_.latency_model());
  if (options.setup.latency) scheduler_.set_latency_model(LatencyModel(*options.setup.latency));
  if (options.stage == Stage::Decode) executor_.set_prefill_free();
  executor_.set_on_submit([this] { note_usage(); });
}

void Replica::append_prompt(const SimRequest& request, std::vector<TokenId>& tokens) const {
  tokens.reserve(static_cast<size_t>(request.prompt_tokens));
  for (const ContentSegment& segment : workload_.prompt(request)) {
    append_stream(segment.stream, segment.offset, segment.count, tokens);
  }
}

void Replica::add(int32_t index, TimeNs arrival, TimeNs sent) {
  const SimRequest& given = workload_.requests[static_cast<size_t>(index)];
  if (idle() && arrival >= clock_.now()) {
    const bool rested = executor_.end_rest(arrival);
    if (rested) loop_.drain();  // a step that ran beyond the last request's end was read when it ended
    idle_until(arrival + (rested ? static_cast<TimeNs>(model_.profile().pickup_us * 1e3) : 0));
  }
  const auto after = [sent](TimeNs time) { return time == kNoDeadline ? kNoDeadline : sent + time; };
  Request request;
  request.id = static_cast<RequestId>(next_request_++);
  append_prompt(given, request.prompt);
  OutputTokens output = workload_.output(given);
  request.sampling.max_tokens = options_.stage == Stage::Prefill ? 1 : given.max_tokens;
  int64_t tokens = options_.stage == Stage::Prefill ? 1 : given.output_tokens;  // that it is given here
  if (options_.stage == Stage::Decode) {                                        // it has its first token
    request.prompt.push_back(output.at(given.prompt_tokens));
    --request.sampling.max_tokens;
    --tokens;
  }
  request.arrival = sent;
  request.priority = given.priority;
  request.tenant = given.tenant;
  request.adapter = given.adapter;
  request.cache_salt = given.cache_salt;
  if (options_.stage != Stage::Decode) request.ttft_deadline = after(given.ttft_deadline);
  request.e2e_deadline = after(given.e2e_deadline);
  request.itl_target = given.itl_target;
  request.predicted_output_tokens = given.predicted_output_tokens;
  if (options_.stage == Stage::Prefill) output.end_position = 0;
  if (output.end_position > 0) request.end_tokens = {kSimEndToken};
  if (workload_.acceptance && options_.setup.config.num_speculative_tokens > 0) {
    request.prediction = workload_.prediction(index);
  }
  const int32_t slot = scheduler_.add(std::move(request), clock_.now());
  executor_.set_script(scheduler_.sequence(slot).id, {.output = std::move(output)});
  if (static_cast<size_t>(slot) >= progress_.size()) progress_.resize(static_cast<size_t>(slot) + 1);
  tokens += prompt_work(given);
  progress_[static_cast<size_t>(slot)] = {.request = index, .arrival = arrival, .outstanding_tokens = tokens};
  ++request_count_;
  outstanding_tokens_ += tokens;
}

int64_t Replica::prompt_work(const SimRequest& request) const {
  return options_.stage == Stage::Decode ? 0 : request.prompt_tokens;
}

void Replica::note_tokens(Progress& progress, int64_t count) {
  progress.outstanding_tokens -= count;
  outstanding_tokens_ -= count;
}

// Time, latencies and load of carried steps.
class Replica::Carrier final : public CarriedSteps {
 public:
  Carrier(Replica& replica, TimeNs until) : replica_(replica), until_(until) {}

  int32_t certain_tokens(const Sequence& sequence) override {
    slots_.push_back(sequence.slot);
    last_token_ = sequence.last_token_time;
    const int32_t end = replica_.executor_.script(sequence.id).output.end_position;
    return end == 0 ? limits::kContextTokensMax : end - static_cast<int32_t>(sequence.tokens.size());
  }
  std::optional<TimeNs> submit(const StepWork& work) override {
    const TimeNs now = replica_.clock_.now();
    if (now >= until_) return std::nullopt;
    replica_.executor_.submit_carried(
        {.tokens = work.decode_sequences, .sequences = work.decode_sequences, .decode_context = work.decode_context});
    return now;
  }
  Ended wait() override {
    replica_.note_usage();
    const TimeNs duration = replica_.executor_.wait_carried();
    const TimeNs now = replica_.clock_.now();
    replica_.itl_.add(now - last_token_, static_cast<int64_t>(slots_.size()));
    last_token_ = now;
    return {.now = now, .duration = duration};
  }
  void read_tokens(const Sequence& sequence, int32_t position, std::span<TokenId> tokens) override {
    replica_.executor_.script(sequence.id).output.read(position, tokens);
  }

  void end(int64_t steps) {
    replica_.executor_.end_carried(steps);
    for (const int32_t slot : slots_) {
      Progress& progress = replica_.progress_[static_cast<size_t>(slot)];
      progress.last_token = last_token_;
      replica_.note_tokens(progress, steps);
    }
    replica_.skipped_steps_ += steps;
  }

 private:
  Replica& replica_;
  TimeNs until_;
  std::vector<int32_t> slots_;
  TimeNs last_token_ = 0;
};

bool Replica::carry_on(TimeNs until) {
  if (!options_.skip_decodes) return false;
  Carrier carrier(*this, until);
  const int64_t steps = scheduler_.carry_on(carrier);
  if (steps == 0) return false;
  carrier.end(steps);
  return true;
}

bool Replica::step(TimeNs until) {
  if (carry_on(until)) return true;
  const bool busy = loop_.step();
  note_usage();
  return collect() || busy;
}

// Called when blocks have been taken for a step and when those of ended requests have been given back.
void Replica::note_usage() {
  const int32_t used = blocks_.pool().referenced_count();
  usage_sum_ += static_cast<double>(clock_.now() - usage_until_) * usage_last_;
  usage_until_ = clock_.now();
  usage_last_ = used;
  usage_max_ = std::max(usage_max_, used);
  kv_growth_.note({.time = clock_.now(),
                   .sequences = scheduler_.running_count(),
                   .tokens = int64_t{used} * blocks_.block_token_count()});
}

bool Replica::collect() {
  SchedulerOutput& output = scheduler_.output();
  const TimeNs now = clock_.now();
  // Most tokens of a step have the same gap: they are counted together. Those that came with the one before (guesses)
  // have none.
  TimeNs gap = 0;
  int64_t count = 0;
  for (const TokenOutput& token : output.tokens) {
    Progress& progress = progress_[static_cast<size_t>(token.slot)];
    const TimeNs previous = std::exchange(progress.last_token, now);
    note_tokens(progress, 1);
    if (previous == kNotYet) {
      note_tokens(progress, prompt_work(workload_.requests[static_cast<size_t>(progress.request)]));
      continue;
    }
    if (now - previous != gap) {
      if (gap > 0) itl_.add(gap, count);
      gap = now - previous;
      count = 0;
    }
    ++count;
  }
  if (gap > 0) itl_.add(gap, count);
  if (output.finished.empty()) {
    output.clear();
    return false;
  }
  const std::vector<FinishedOutput> finished = output.finished;
  output.clear();
  for (const FinishedOutput& end : finished) {
    const Sequence& sequence = scheduler_.sequence(end.slot);
    Progress& progress = progress_[static_cast<size_t>(end.slot)];
    --request_count_;
    note_tokens(progress, progress.outstanding_tokens);
    on_end_({.request = progress.request,
             .replica = options_.index,
             .arrival = progress.arrival,
             .first_scheduled = sequence.first_scheduled_time,
             .first_token = sequence.first_token_time,
             .end = now,
             .cached_tokens = sequence.prefix_hit_token_count,
             .output_tokens = sequence.output_token_count(),
             .preemptions = sequence.preemption_count,
             .draft_tokens = sequence.draft_token_count,
             .accepted_tokens = sequence.accepted_token_count,
             .reason = end.reason});
  }
  return true;
}

int32_t Replica::stored_prefix_tokens(const SimRequest& request) const {
  if (!blocks_.prefix_caching()) return 0;
  std::vector<TokenId> tokens;
  append_prompt(request, tokens);
  const auto width = static_cast<size_t>(blocks_.block_token_count());
  const uint64_t salt = adapter_salt(request.cache_salt, request.adapter);
  PrefixKey key = root_key(salt);
  BlockId parent = kNoBlock;
  int32_t stored = 0;
  for (size_t end = width; end <= tokens.size(); end += width) {
    const auto block = std::span(tokens).subspan(end - width, width);
    key = child_key(key, block);
    const auto found = blocks_.tree().find({key, salt, parent, block});
    if (!found) break;
    parent = *found;
    stored = static_cast<int32_t>(end);
  }
  return stored;
}

void Replica::add_to(SimResult& result, TimeNs makespan) const {
  const SchedulerStats& stats = scheduler_.stats();
  SchedulerStats& sum = result.scheduler;
  for (const auto member : {&SchedulerStats::steps,
                            &SchedulerStats::requests_added,
                            &SchedulerStats::requests_finished,
                            &SchedulerStats::requests_aborted,
                            &SchedulerStats::requests_failed,
                            &SchedulerStats::prompt_tokens,
                            &SchedulerStats::cached_tokens,
                            &SchedulerStats::output_tokens,
                            &SchedulerStats::drafts,
                            &SchedulerStats::draft_tokens,
                            &SchedulerStats::accepted_tokens,
                            &SchedulerStats::scheduled_tokens,
                            &SchedulerStats::preemptions,
                            &SchedulerStats::preemptions_for_others,
                            &SchedulerStats::recomputed_tokens,
                            &SchedulerStats::swapped_out_blocks,
                            &SchedulerStats::swapped_in_blocks,
                            &SchedulerStats::offloaded_blocks,
                            &SchedulerStats::restored_blocks,
                            &SchedulerStats::host_cached_tokens,
                            &SchedulerStats::thrashing_steps,
                            &SchedulerStats::attended_tokens,
                            &SchedulerStats::slot_steps,
                            &SchedulerStats::used_slot_steps,
                            &SchedulerStats::backlog_slot_steps,
                            &SchedulerStats::backlog_used_slot_steps}) {
    sum.*member += stats.*member;
  }
  sum.scheduled_tokens -= executor_.entered().tokens;
  sum.attended_tokens -= executor_.entered().pairs;
  for (size_t i = 0; i < kAdmissionResultCount; ++i) {
    sum.admissions[i] += stats.admissions[i];
    sum.admission_steps[i] += stats.admission_steps[i];
  }
  const auto blocks = static_cast<double>(blocks_.pool().block_count());
  if (makespan > 0) {
    const double last_step = static_cast<double>(clock_.now() - usage_until_) * usage_last_;
    result.kv_usage_mean += (usage_sum_ + last_step) / static_cast<double>(makespan) / blocks;
  }
  result.kv_usage_max = std::max(result.kv_usage_max, usage_max_ / blocks);
  if (kv_growth_.peak().tokens > result.kv_growth.peak().tokens) result.kv_growth = kv_growth_;
  result.skipped_steps += skipped_steps_;
  result.evicted_blocks += blocks_.evicted_total();
  result.policy_strikes += policy_->instance().strike_count() + eviction_->instance().strike_count();
  for (const PolicyInstance* const instance : {&policy_->instance(), &eviction_->instance()}) {
    for (const auto& [name, value] : instance->metrics()) result.policy_metrics.try_emplace(name, value);
    if (instance->active()) continue;
    result.policies_taken_out.push_back({options_.index, instance->exit_step(), instance->exit_message()});
  }
}

}  // namespace inflight
