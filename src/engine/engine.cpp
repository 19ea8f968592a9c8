// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "plugin_host/plugin_registry.h"

namespace inflight {

Engine::Engine(const EngineOptions& options, std::unique_ptr<Executor> executor)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : steady_clock_),
      executor_(std::move(executor)),
      policies_(make_schedule_policy(options.setup.schedule_policy, options.setup, policy_options()),
                make_eviction_policy(options.setup.eviction_policy, options.setup, policy_options())),
      blocks_(options.setup.blocks, policies_.eviction()),
      scheduler_(options.setup.config, blocks_, policies_.schedule()),
      loop_(scheduler_, *executor_, clock_, options.overlap),
      metrics_({.model_name = options.model_name,
                .max_num_seqs = options.setup.config.max_num_seqs,
                .block_size = options.setup.blocks.block_token_count,
                .block_bytes = options.setup.block_bytes}) {
  policies_.connect(scheduler_, blocks_);
  publish_stats();
  if (!options_.host_driven) thread_ = std::jthread([this] { run(); });
}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  end_all(FinishReason::Abort, "");
}

Request Engine::checked_request(SubmitOptions options) const {
  options.sampling.validate();
  const auto count = static_cast<int64_t>(options.prompt.size());
  const int64_t limit = options_.setup.config.max_model_len - 1;
  if (count == 0) fail(ErrorCode::InvalidArgument, "the prompt is empty, allowed: 1 to {} tokens", limit);
  if (count > limit) {
    fail(ErrorCode::InvalidArgument,
         "the prompt has {} tokens, allowed: 1 to {} (max_model_len {}, one left to answer)", count, limit, limit + 1);
  }
  const auto check_token = [this](const char* what, TokenId token) {
    if (token < 0 || token >= options_.vocabulary_size) {
      fail(ErrorCode::InvalidArgument, "{} {} is no token, allowed: 0 to {}", what, token,
           options_.vocabulary_size - 1);
    }
  };
  for (const TokenId token : options.prompt) check_token("prompt id", token);
  for (const TokenId token : options.sampling.stop_token_ids) check_token("stop token id", token);
  if (options.predicted_output_tokens < 0) {
    fail(ErrorCode::InvalidArgument, "predicted_output_tokens is {}, allowed: 0 (none) or more",
         options.predicted_output_tokens);
  }
  if (options.tenant >= limits::kTenantsMax) {
    fail(ErrorCode::InvalidArgument, "tenant is {}, allowed: 0 to {}", options.tenant, limits::kTenantsMax - 1);
  }
  return {.id = {},
          .prompt = std::move(options.prompt),
          .sampling = std::move(options.sampling),
          .end_tokens = options_.end_tokens,
          .arrival = clock_.now(),
          .priority = options.priority,
          .tenant = options.tenant,
          .cache_salt = options.cache_salt,
          .ttft_deadline = options.ttft_deadline,
          .e2e_deadline = options.e2e_deadline,
          .itl_target = options.itl_target,
          .predicted_output_tokens = options.predicted_output_tokens};
}

OutputStream* Engine::submit(SubmitOptions options) {
  SubmitCommand command{checked_request(std::move(options)), nullptr};
  OutputStream* stream = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw Error(ErrorCode::EngineFailed, failure_);
    const SamplingParams& sampling = command.request.sampling;
    if (sequence_count_ + sampling.choice_count() > options_.setup.config.max_requests) {
      fail(ErrorCode::Rejected, "{} requests are waiting or running, allowed: {} (max_requests)", sequence_count_,
           options_.setup.config.max_requests);
    }
    sequence_count_ += sampling.choice_count();
    arrivals_.add(command.request.arrival);
    command.request.id = static_cast<RequestId>(next_request_++);
    stream = new OutputStream(command.request.id, static_cast<int32_t>(command.request.prompt.size()), sampling.n,
                              sampling.best_of);
    command.stream = stream;
    inbox_.emplace_back(std::move(command));
  }
  wake_.notify_all();
  return stream;
}

void Engine::send(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    inbox_.push_back(std::move(command));
  }
  wake_.notify_all();
}

void Engine::cancel(RequestId request) { send(CancelCommand{request}); }

void Engine::set_policy(const std::string& text) {
  const uint32_t kind = plugin_registry().kind_of(parse_policy_spec(text));
  PolicyCommand command;
  if (kind == INFLIGHT_KIND_SCHED) {
    command = make_schedule_policy(text, options_.setup, policy_options());
  } else {
    command = make_eviction_policy(text, options_.setup, policy_options());
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw Error(ErrorCode::EngineFailed, failure_);
  }
  send(std::move(command));
}

void Engine::execute(SubmitCommand& command) {
  metrics_.on_request(command.request.sampling);
  int32_t slot = scheduler_.add(std::move(command.request), clock_.now());
  for (int32_t choice = 0; slot >= 0; ++choice) {
    if (static_cast<size_t>(slot) >= clients_.size()) clients_.resize(static_cast<size_t>(slot) + 1);
    clients_[static_cast<size_t>(slot)] = {.stream = command.stream, .choice = choice};
    slot = scheduler_.sequence(slot).next_choice_slot;
  }
}

void Engine::execute(const CancelCommand& command) {
  scheduler_.cancel(command.request, FinishReason::Abort, clock_.now());
  deliver();
}

void Engine::execute(PolicyCommand& command) {
  std::visit([this](auto& policy) { policies_.replace(std::move(policy), clock_.now()); }, command);
}

void Engine::take_commands() {
  {
    const std::scoped_lock lock(mutex_);
    commands_.swap(inbox_);
  }
  for (Command& command : commands_) {
    std::visit([this](auto& it) { execute(it); }, command);
  }
  commands_.clear();
}

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
    } else {
      metrics_.on_next_token(sequence.last_token_time - client.last_token_time);
    }
    client.last_token_time = sequence.last_token_time;
    client.stream->push_token(client.choice, token.token, token.logprob, top(token.top_first, token.top_count));
  }
  for (const FinishedOutput& finished : output.finished) {
    Client& client = clients_[static_cast<size_t>(finished.slot)];
    const Sequence& sequence = scheduler_.sequence(finished.slot);
    metrics_.on_finish(sequence, finished.reason, now);
    departures_.add(now);
    OutputStream::Finish finish{
        .reason = finished.reason, .preemption_count = sequence.preemption_count, .error = to_string(finished.cause)};
    if (finished.reason == FinishReason::Stop) finish.stop_token = sequence.tokens.back();
    if (client.stream->push_finish(client.choice, finish)) client.stream->release();
    client.stream = nullptr;
  }
  if (!output.finished.empty()) {
    const std::scoped_lock lock(mutex_);
    sequence_count_ -= static_cast<int32_t>(output.finished.size());
  }
  if (!output.preempted.empty()) warn_of_preemptions(now);
  output.clear();
}

// At most one line in ten seconds (checklist 66).
void Engine::warn_of_preemptions(TimeNs now) {
  constexpr TimeNs kInterval = 10'000'000'000;
  const auto& preempted = scheduler_.output().preempted;
  preemptions_not_warned_of_ += static_cast<int64_t>(preempted.size());
  if (last_preemption_warning_ && now - *last_preemption_warning_ < kInterval) return;
  const PreemptedOutput& last = preempted.back();
  log(LogLevel::Warning,
      "the KV storage is full: request {} was preempted and loses {} computed tokens ({} blocks to host memory); {} of "
      "{} blocks were in use, {} are now; {} preemptions since the last warning. Raise kv_blocks or "
      "schedule_conservativeness, or lower max_num_seqs",
      to_integer(last.request), last.lost_tokens, last.swapped_blocks, last.blocks_used_before,
      blocks_.pool().block_count(), last.blocks_used_after, preemptions_not_warned_of_);
  last_preemption_warning_ = now;
  preemptions_not_warned_of_ = 0;
}

// One line of key=value (checklist 114).
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

bool Engine::round() {
  const TimeNs begin = clock_.now();
  take_commands();
  const TimeNs taken = clock_.now();
  times_.commands += taken - begin;
  const bool busy = loop_.step();
  policies_.advance();
  const TimeNs stepped = clock_.now();
  deliver();
  const SchedulerStats& stats = scheduler_.stats();
  if (stats.steps > observed_steps_) {
    const TimeNs scheduling = loop_.times().plan + loop_.times().commit;
    metrics_.on_step(stats.scheduled_tokens - observed_tokens_, scheduling - observed_scheduling_);
    observed_steps_ = stats.steps;
    observed_tokens_ = stats.scheduled_tokens;
    observed_scheduling_ = scheduling;
    if (options_.log_interval_steps > 0 && stats.steps % options_.log_interval_steps == 0) log_figures();
  }
  times_.step = loop_.times();
  times_.deliver += clock_.now() - stepped;
  publish_stats();
  return busy;
}

void Engine::publish_stats() {
  const BlockPool& pool = blocks_.pool();
  const std::scoped_lock lock(mutex_);
  stats_ = {.scheduler = scheduler_.stats(),
            .waiting = scheduler_.waiting_count(),
            .running = scheduler_.running_count(),
            .blocks_free = pool.free_count(),
            .blocks_stored = pool.stored_count(),
            .blocks_referenced = pool.referenced_count(),
            .blocks_total = pool.block_count(),
            .evicted_blocks = blocks_.evicted_total(),
            .policy_strikes = policies_.strike_count(),
            .failed = !failure_.empty(),
            .times = loop_.times(),
            .engine_times = times_,
            .new_token_ratio = scheduler_.new_token_ratio(),
            .recompute_tax = scheduler_.recompute_tax(),
            .thrashing = scheduler_.thrashing(),
            .arrivals = arrivals_,
            .departures = departures_};
}

std::string Engine::metrics_text(std::string_view prefix) const { return metrics_.text(stats(), clock_.now(), prefix); }

EngineStats Engine::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

bool Engine::step() {
  if (!options_.host_driven) {
    fail(ErrorCode::Unsupported, "the engine has its own thread; step() is for engines made with host_driven");
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw Error(ErrorCode::EngineFailed, failure_);
  }
  try {
    return round();
  } catch (const std::exception& error) {
    end_all(FinishReason::Error, error.what());
    throw Error(ErrorCode::EngineFailed, error.what());
  }
}

void Engine::run() {
  for (;;) {
    bool busy = false;
    try {
      busy = round();
    } catch (const std::exception& error) {
      end_all(FinishReason::Error, error.what());
      return;
    }
    std::unique_lock lock(mutex_);
    if (!busy) {
      const TimeNs begin = clock_.now();
      const auto called = [this] { return stopping_ || !inbox_.empty(); };
      if (const auto wake = scheduler_.wake_time()) {
        wake_.wait_for(lock, std::chrono::nanoseconds(*wake - clock_.now()), called);
      } else {
        wake_.wait(lock, called);
      }
      times_.idle += clock_.now() - begin;
    }
    if (stopping_) return;
  }
}

void Engine::end_all(FinishReason reason, const std::string& why) {
  std::vector<Command> late;
  {
    const std::scoped_lock lock(mutex_);
    if (reason == FinishReason::Error) {
      failure_ = "the engine has failed: " + why;
      stats_.failed = true;
      log(LogLevel::Error, "{}", failure_);
    }
    late.swap(inbox_);
    sequence_count_ = 0;
  }
  for (Command& command : late) {
    auto* const submitted = std::get_if<SubmitCommand>(&command);
    if (submitted == nullptr) continue;
    for (int32_t choice = 0; choice < submitted->request.sampling.choice_count(); ++choice) {
      clients_.push_back({.stream = submitted->stream, .choice = choice});
    }
  }
  for (Client& client : clients_) {
    if (client.stream == nullptr) continue;
    if (client.stream->push_finish(client.choice, {.reason = reason, .error = why})) client.stream->release();
    client.stream = nullptr;
  }
}

}  // namespace inflight
