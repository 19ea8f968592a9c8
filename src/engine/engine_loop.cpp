// SPDX-License-Identifier: Apache-2.0
// The engine thread: commands in, a round of the step loop, tokens and figures out.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"

namespace inflight {

void Engine::execute(SubmitCommand& command) {
  metrics_.on_request(command.request, options_.setup.config.max_model_len);
  const RequestId id = command.request.id;
  if (command.expiry != kNoDeadline) expiries_.emplace(command.expiry, id);
  if (!command.filter_source) return add(command, nullptr);
  compiler_.start(id, std::move(command.filter_source));
  compiling_.emplace(to_integer(id), std::move(command));
}

void Engine::execute(FilterCompiler::Result& result) {
  if (result.filter == nullptr) {
    end_compiling(result.request, {.reason = FinishReason::Error, .error = result.error, .error_code = result.code});
    return;
  }
  const auto found = compiling_.find(to_integer(result.request));
  if (found == compiling_.end()) return;  // it was cancelled
  add(found->second, std::move(result.filter));
  compiling_.erase(found);
}

// Ends a request that the scheduler does not know yet.  False: it is not one of these.
bool Engine::end_compiling(RequestId request, const OutputStream::Finish& finish) {
  const auto found = compiling_.find(to_integer(request));
  if (found == compiling_.end()) return false;
  compiler_.forget(request);
  OutputStream* const stream = found->second.stream;
  expiries_.erase({found->second.expiry, request});
  const int32_t count = found->second.request.sampling.choice_count();
  departures_.add(clock_.now(), count);
  metrics_.count_ended(finish.reason, count);
  compiling_.erase(found);
  (finish.reason == FinishReason::Error ? failed_compiling_ : aborted_compiling_) += count;
  give_back(count);
  stream->push_finish_to_all(finish);
  stream->release();
  return true;
}

// To the scheduler.  filter: null = any token may come.
void Engine::add(SubmitCommand& command, std::unique_ptr<TokenFilter> filter) {
  int32_t slot = scheduler_.add(std::move(command.request), clock_.now());
  for (int32_t choice = 0; slot >= 0; ++choice) {
    if (static_cast<size_t>(slot) >= clients_.size()) clients_.resize(static_cast<size_t>(slot) + 1);
    clients_[static_cast<size_t>(slot)] = {
        .stream = command.stream, .choice = choice, .expiry = command.expiry, .adapter = command.adapter.again()};
    const Sequence& sequence = scheduler_.sequence(slot);
    slot = sequence.next_choice_slot;
    if (filter == nullptr) continue;
    sampler_.set_filter(sequence.id, slot >= 0 ? filter->clone() : std::move(filter));
  }
}

void Engine::execute(const CancelCommand& command) {
  if (command.choice) {
    scheduler_.cancel_choice(command.request, *command.choice, command.reason, clock_.now());
  } else if (!end_compiling(command.request, {.reason = command.reason})) {
    scheduler_.cancel(command.request, command.reason, clock_.now());
  }
  deliver();
}

void Engine::execute(PolicyCommand& command) {
  std::visit(
      [&](auto& policy) {
        constexpr bool kSchedule = std::is_same_v<decltype(policy), std::unique_ptr<SchedAdapter>&>;
        Candidate& candidate = kSchedule ? schedule_candidate_ : eviction_candidate_;
        candidate.spec = command.spec;
        candidate.instance = &policy->instance();
        const TimeNs now = clock_.now();
        policies_.replace(std::move(policy), now);
        recorder_.trial(command.spec, now);
      },
      command.policy);
}

void Engine::execute(ChangeCommand& command) {
  try {
    command.change();
    publish_stats();  // who waits for the change finds it there
    command.done.set_value();
  } catch (const std::exception& error) {
    if (options_.host_driven) log(LogLevel::Warning, "{}", error.what());
    command.done.set_exception(std::current_exception());
  }
}

// Policies that have taken over name themselves to the trace, as when their trial began, so that a replay changes them
// at the same step.
void Engine::record_takeovers() {
  const auto record = [this](Candidate& candidate, uint32_t kind, const PolicyInstance& in_force) {
    if (candidate.instance == &in_force) {
      recorder_.policy(candidate.spec, clock_.now());
    } else if (policies_.trial(kind)) {
      return;
    }
    candidate = {};
  };
  record(schedule_candidate_, INFLIGHT_KIND_SCHED, policies_.schedule().instance());
  record(eviction_candidate_, INFLIGHT_KIND_EVICT, policies_.eviction().instance());
}

void Engine::take_commands() {
  {
    const std::scoped_lock lock(mutex_);
    commands_.swap(inbox_);
  }
  for (; executing_ < commands_.size(); ++executing_) {
    std::visit([this](auto& it) { execute(it); }, commands_[executing_]);
  }
  commands_.clear();
  executing_ = 0;
}

namespace {

ChoiceProgress progress_of(const Sequence& sequence) {
  const auto since_arrival = [&sequence](TimeNs time) {
    return time == kNotYet ? 0.0 : static_cast<double>(time - sequence.request.arrival) * 1e-9;
  };
  return {.preemption_count = sequence.preemption_count,
          .draft_token_count = sequence.draft_token_count,
          .accepted_token_count = sequence.accepted_token_count,
          .times = {.first_scheduled_s = since_arrival(sequence.first_scheduled_time),
                    .first_token_s = since_arrival(sequence.first_token_time),
                    .last_token_s = since_arrival(sequence.last_token_time)}};
}

}  // namespace

void Engine::deliver() {
  SchedulerOutput& output = scheduler_.output();
  const TimeNs now = clock_.now();
  const auto top = [&output](int32_t first, int32_t count) {
    return std::span(output.top_logprobs).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  };
  for (const PromptLogprobOutput& prompt : output.prompt_logprobs) {
    clients_[static_cast<size_t>(prompt.slot)].stream->push_prompt_logprob(prompt.logprob,
                                                                           top(prompt.top_first, prompt.top_count));
  }
  for (const TokenOutput& token : output.tokens) {
    Client& client = clients_[static_cast<size_t>(token.slot)];
    const Sequence& sequence = scheduler_.sequence(token.slot);
    if (client.last_token_time == kNotYet) {
      client.stream->set_cached(client.choice, sequence.prefix_hit_token_count);
      metrics_.on_first_token(sequence);
      watch_.on_first_token(sequence.first_token_time - sequence.request.arrival);
    } else {
      metrics_.on_next_token(sequence.last_token_time - client.last_token_time);
      watch_.on_next_token(sequence.last_token_time - client.last_token_time);
    }
    client.last_token_time = sequence.last_token_time;
    const bool goes_on =
        client.stream->push_token(client.choice, token.token, token.logprob, top(token.top_first, token.top_count),
                                  token.ends, progress_of(sequence));
    if (!goes_on) stop(sequence.request.id, client.choice);
  }
  for (const PreemptedOutput& victim : output.preempted) {
    watch_.on_preempted(victim.sequence, victim.lost_tokens, victim.swapped_blocks);
  }
  for (EmbeddingOutput& embedding : output.embeddings) {
    clients_[static_cast<size_t>(embedding.slot)].stream->set_embedding(std::move(embedding.values));
  }
  give_back(static_cast<int32_t>(output.finished.size()));
  for (const FinishedOutput& finished : output.finished) end_client(finished, now);
  if (!output.preempted.empty()) warn_of_preemptions(now);
  output.clear();
}

// The places of so many sequences that have ended, before anybody is told of it: who then submits anew has a place.
void Engine::give_back(int32_t sequences) {
  if (sequences == 0) return;
  ended_sequences_ += sequences;
  publish_stats();
}

void Engine::end_client(const FinishedOutput& finished, TimeNs now) {
  Client& client = clients_[static_cast<size_t>(finished.slot)];
  const Sequence& sequence = scheduler_.sequence(finished.slot);
  metrics_.on_finish(sequence, finished.reason, now);
  watch_.on_finished();
  departures_.add(now, 1);
  OutputStream::Finish finish{
      .reason = finished.reason,
      .progress = progress_of(sequence),
      .error = finished.reason == FinishReason::Abort ? abort_note_ : to_string(finished.cause)};
  if (finished.cause == FinishCause::FilterFailed) finish.error_code = ErrorCode::InvalidArgument;
  if (finished.cause == FinishCause::RejectedByPolicy) finish.error_code = ErrorCode::Rejected;
  if (finished.stopped_by_token) finish.stop_token = sequence.tokens.back();
  sampler_.forget(finished.sequence);
  if (proposer_) proposer_->forget(finished.sequence);
  if (client.last_token_time == kNotYet) client.stream->set_cached(client.choice, sequence.prefix_hit_token_count);
  if (client.stream->push_finish(client.choice, finish)) {
    client.stream->release();
    expiries_.erase({client.expiry, sequence.request.id});
  }
  client.stream = nullptr;
  client.adapter = {};
}

// At most one line in ten seconds.
void Engine::warn_of_preemptions(TimeNs now) {
  constexpr TimeNs kInterval = 10'000'000'000;
  const PreemptedOutput* out_of_blocks = nullptr;  // the last
  for (const PreemptedOutput& preempted : scheduler_.output().preempted) {
    if (preempted.for_another) continue;
    out_of_blocks = &preempted;
    ++preemptions_not_warned_of_;
  }
  if (out_of_blocks == nullptr) return;
  if (last_preemption_warning_ && now - *last_preemption_warning_ < kInterval) return;
  const PreemptedOutput& last = *out_of_blocks;
  log(LogLevel::Warning,
      "the KV storage is full: request {} was preempted and loses {} computed tokens ({} blocks to host memory); {} of "
      "{} blocks were in use, {} are now; {} preemptions since the last warning. Raise kv_blocks or "
      "schedule_conservativeness, or lower max_num_seqs",
      to_integer(last.request), last.lost_tokens, last.swapped_blocks, last.blocks_used_before,
      blocks_.pool().block_count(), last.blocks_used_after, preemptions_not_warned_of_);
  last_preemption_warning_ = now;
  preemptions_not_warned_of_ = 0;
}

// One line of key=value.
void Engine::log_figures() {
  const SchedulerStats& stats = scheduler_.stats();
  const BlockPool& pool = blocks_.pool();
  log(LogLevel::Info,
      "step={} running={} waiting={} kv_used_blocks={} kv_stored_blocks={} kv_free_blocks={} prompt_tokens={} "
      "cached_tokens={} generation_tokens={} preemptions={} recompute_tax={:.4f}",
      stats.steps, scheduler_.running_count(), scheduler_.waiting_count(), pool.referenced_count(), pool.stored_count(),
      pool.free_count(), stats.prompt_tokens, stats.cached_tokens, stats.output_tokens, stats.preemptions,
      scheduler_.recompute_tax());
}

// Requests whose expiry has come, in whatever state.
void Engine::end_expired() {
  if (expiries_.empty()) return;
  const TimeNs now = clock_.now();
  abort_note_ = "the request's time has run out";
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const RequestId request = expiries_.extract(expiries_.begin()).value().second;
    const bool ended = end_compiling(request, {.reason = FinishReason::Abort, .error = abort_note_}) ||
                       scheduler_.cancel(request, FinishReason::Abort, now);
    expired_ += ended ? 1 : 0;
  }
  deliver();
  abort_note_.clear();
}

void Engine::pause_or_go_on() {
  PauseMode wanted = PauseMode::None;
  {
    const std::scoped_lock lock(mutex_);
    wanted = wanted_pause_;
    if (wanted == pause_) return;
  }
  if (wanted == PauseMode::All) {
    loop_.drain();
    deliver();
  }
  if (const bool holds = wanted == PauseMode::New; holds || pause_ == PauseMode::New) {
    scheduler_.hold_admissions(holds);
    recorder_.hold(holds, clock_.now());
  }
  {
    const std::scoped_lock lock(mutex_);
    pause_ = wanted;
  }
  changed_.notify_all();
}

bool Engine::run_step() {
  const Watchdog::Step watched(watchdog_);
  const TimeNs begin = clock_.now();
  pause_or_go_on();  // before the inbox: what was submitted ahead of resume() is there for the next step
  take_commands();
  end_expired();
  times_.commands += clock_.now() - begin;
  return pause_ != PauseMode::All && loop_.step();  // pause_ is written by this thread only
}

bool Engine::round() {
  const bool busy = run_step();
  policies_.advance();
  record_takeovers();
  const TimeNs stepped = clock_.now();
  deliver();
  observe_step();
  watch_.publish(scheduler_.waiting_count() + scheduler_.held_count(), scheduler_.running_count(), blocks_);
  if (!busy) recorder_.flush();
  times_.deliver += clock_.now() - stepped;
  publish_stats();
  return busy;
}

void Engine::observe_step() {
  times_.step = loop_.times();
  if (const TimeNs swap = loop_.times().swap - observed_swap_; swap > 0) {
    metrics_.on_swap(swap);
    observed_swap_ += swap;
  }
  const SchedulerStats& stats = scheduler_.stats();
  if (stats.steps == observed_steps_) return;
  const TimeNs scheduling = loop_.times().plan + loop_.times().commit;
  metrics_.on_step(stats.scheduled_tokens - observed_tokens_, scheduling - observed_scheduling_);
  observed_steps_ = stats.steps;
  observed_tokens_ = stats.scheduled_tokens;
  observed_scheduling_ = scheduling;
  if (options_.service.log_interval_steps > 0 && stats.steps % options_.service.log_interval_steps == 0) log_figures();
}

void Engine::publish_stats() {
  const BlockPool& pool = blocks_.pool();
  int32_t compiling = 0;
  int64_t compiling_tokens = 0;
  for (const auto& [id, command] : compiling_) {
    compiling += command.request.sampling.choice_count();
    compiling_tokens += static_cast<int64_t>(command.request.prompt.size());
  }
  const std::scoped_lock lock(mutex_);
  stats_ = {.scheduler = scheduler_.stats(),
            .waiting = scheduler_.waiting_count() + scheduler_.held_count() + compiling,
            .compiling = compiling,
            .running = scheduler_.running_count(),
            .free_rows = scheduler_.free_row_count(),
            .max_num_seqs = scheduler_.config().max_num_seqs,
            .max_num_batched_tokens = scheduler_.config().max_num_batched_tokens,
            .blocks_free = pool.free_count(),
            .blocks_stored = pool.stored_count(),
            .blocks_referenced = pool.referenced_count(),
            .blocks_total = pool.block_count(),
            .evicted_blocks = blocks_.evicted_total(),
            .policy_strikes = policies_.strike_count(),
            .schedule_active = policies_.schedule().instance().active(),
            .eviction_active = policies_.eviction().instance().active(),
            .times = loop_.times(),
            .engine_times = times_,
            .new_token_ratio = scheduler_.new_token_ratio(),
            .recompute_tax = scheduler_.recompute_tax(),
            .thrashing = scheduler_.thrashing(),
            .queued_tokens = scheduler_.queued_token_count() + compiling_tokens,
            .expired = expired_,
            .departures = departures_};
  stats_.scheduler.requests_added += compiling + aborted_compiling_ + failed_compiling_;
  stats_.scheduler.requests_aborted += aborted_compiling_;
  stats_.scheduler.requests_failed += failed_compiling_;
  ends_on_their_way_ = ended_sequences_ > 0;
  sequence_count_ -= std::exchange(ended_sequences_, 0);  // here: who waits for the last one finds it in the stats
  if (sequence_count_ == 0 && !ends_on_their_way_) changed_.notify_all();
  // What the scheduler has not seen: commands in the middle of take_commands(), and what came since.
  inbox_sequences_ = 0;
  inbox_tokens_ = 0;
  const auto count = [this](const Command& command) {
    if (const auto* submitted = std::get_if<SubmitCommand>(&command)) {
      inbox_sequences_ += submitted->request.sampling.choice_count();
      inbox_tokens_ += static_cast<int64_t>(submitted->request.prompt.size());
    }
  };
  std::ranges::for_each(std::span(commands_).subspan(executing_), count);
  std::ranges::for_each(inbox_, count);
}

std::optional<TimeNs> Engine::wake_time() const {
  std::optional<TimeNs> wake = pause_ == PauseMode::All ? std::nullopt : scheduler_.wake_time();
  if (!expiries_.empty()) wake = std::min(wake.value_or(kNoDeadline), expiries_.begin()->first);
  return wake;
}

bool Engine::called() const { return stopping_ || !inbox_.empty() || wanted_pause_ != pause_ || watch_.map_wanted(); }

void Engine::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto is_called = [this] { return called(); };
  if (const auto wake = wake_time()) {
    wake_.wait_for(lock, std::chrono::nanoseconds(*wake - clock_.now()), is_called);
  } else {
    wake_.wait(lock, is_called);
  }
}

bool Engine::step() {
  if (!options_.host_driven) {
    fail(ErrorCode::Unsupported, "the engine has its own thread; step() is for engines made with host_driven");
  }
  {
    const std::scoped_lock lock(mutex_);
    throw_if_failed();
  }
  try {
    if (round()) return true;
    if (compiling_.empty()) return false;
    std::unique_lock lock(mutex_);  // nothing else is to be done
    wait_for_work(lock);
    return true;
  } catch (const std::exception& error) {
    end_all(FinishReason::Error, error.what());
    throw Error(ErrorCode::EngineFailed, error.what());
  }
}

namespace {

constexpr std::chrono::seconds kIdleCheckAfter{1};

// proposer: null: none.
void check_at_rest(const Scheduler& scheduler, const HostSampler& sampler, const DraftProposer* proposer) {
  scheduler.check_invariants();
  const bool forgotten = sampler.empty() && (proposer == nullptr || proposer->empty());
  INFLIGHT_CHECK(scheduler.running_count() + scheduler.waiting_count() + scheduler.held_count() > 0 || forgotten);
  const BlockPool& pool = scheduler.blocks().pool();
  log(LogLevel::Debug, "idle: all invariants hold; {} free + {} stored + {} in use = {} blocks", pool.free_count(),
      pool.stored_count(), pool.referenced_count(), pool.block_count());
}

}  // namespace

void Engine::run() {
  bool rested = false;   // idle for kIdleCheckAfter
  bool checked = false;  // and looked over since the last step
  for (;;) {
    bool busy = false;
    try {
      if (rested && !checked) check_at_rest(scheduler_, sampler_, proposer_.get());
      checked = rested;
      busy = round();
    } catch (const std::exception& error) {
      end_all(FinishReason::Error, error.what());
      return;
    }
    std::unique_lock lock(mutex_);
    if (!busy) {
      const TimeNs begin = clock_.now();
      if (checked || wake_time()) {
        wait_for_work(lock);
      } else {
        rested = !wake_.wait_for(lock, kIdleCheckAfter, [this] { return called(); });
      }
      times_.idle += clock_.now() - begin;
    } else {
      rested = checked = false;
    }
    if (stopping_) return;
  }
}

// Nothing is taken in any more; to the figures, what there is has failed.
void Engine::note_failure(const std::string& why) {
  publish_stats();
  {
    const std::scoped_lock lock(mutex_);
    failure_ = "the engine has failed: " + why;
    SchedulerStats& requests = stats_.scheduler;
    requests.requests_failed += sequence_count_;
    requests.requests_added = requests.requests_finished + requests.requests_aborted + requests.requests_failed;
    stats_.waiting = stats_.compiling = stats_.running = inbox_sequences_ = 0;
    stats_.queued_tokens = inbox_tokens_ = 0;
    metrics_.count_ended(FinishReason::Error, sequence_count_);
  }
  log(LogLevel::Error, "the engine has failed: {}", why);
}

void Engine::end_all(FinishReason reason, const std::string& why) {
  if (reason == FinishReason::Error) note_failure(why);
  {
    const std::scoped_lock lock(mutex_);
    std::ranges::move(inbox_, std::back_inserter(commands_));
    inbox_.clear();
    sequence_count_ = 0;
    changed_.notify_all();
  }
  std::set<OutputStream*> streams;  // the command that failed may have left its own in several places
  for (; executing_ < commands_.size(); ++executing_) {
    Command& command = commands_[executing_];
    if (const auto* const submitted = std::get_if<SubmitCommand>(&command)) streams.insert(submitted->stream);
    if (auto* const change = std::get_if<ChangeCommand>(&command)) {
      change->done.set_exception(std::make_exception_ptr(Error(ErrorCode::EngineFailed, "the engine has ended")));
    }
  }
  commands_.clear();
  executing_ = 0;
  for (const auto& [id, submitted] : compiling_) streams.insert(submitted.stream);
  compiling_.clear();
  for (Client& client : clients_) {
    if (OutputStream* const stream = std::exchange(client.stream, nullptr)) streams.insert(stream);
  }
  for (OutputStream* const stream : streams) {
    stream->push_finish_to_all({.reason = reason, .error = why});
    stream->release();
  }
}

}  // namespace inflight
