// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/request_error.h"
#include "plugin_host/plugin_registry.h"

namespace inflight {

namespace {

Error hang_error() { return {ErrorCode::EngineFailed, "a step of the engine hangs"}; }

std::unique_ptr<DraftProposer> make_proposer(const EngineOptions& options, Executor& target, Executor* draft,
                                             const Clock& clock) {
  INFLIGHT_CHECK((draft != nullptr) == options.setup.config.draft_model);
  if (draft == nullptr) return nullptr;
  const DraftProposer::Limits limits{.step_tokens = options.setup.config.max_num_batched_tokens,
                                     .block_tokens = options.setup.blocks.block_token_count,
                                     .vocabulary_size = options.vocabulary_size,
                                     .draft_vocabulary_size = options.draft_vocabulary_size};
  return std::make_unique<DraftProposer>(target, *draft, limits, clock);
}

}  // namespace

Engine::Engine(const EngineOptions& options, std::unique_ptr<Executor> executor, std::unique_ptr<Executor> draft)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : steady_clock_),
      executor_(std::move(executor)),
      draft_(std::move(draft)),
      sampler_(*executor_, options.vocabulary_size),
      proposer_(make_proposer(options, sampler_, draft_.get(), clock_)),
      watch_(proposer_ ? static_cast<Executor&>(*proposer_) : sampler_, clock_),
      recorder_(to_json(options.setup), options.service.recent_trace_bytes, options.service.record_path),
      policies_(make_schedule_policy(options.setup.schedule_policy, options.setup, policy_options()),
                make_eviction_policy(options.setup.eviction_policy, options.setup, policy_options())),
      blocks_(options.setup.blocks, policies_.eviction()),
      scheduler_(options.setup.config, blocks_, policies_.schedule()),
      loop_(scheduler_, watch_, clock_, options.overlap),
      metrics_({.model_name = options.model_name,
                .block_size = options.setup.blocks.block_token_count,
                .block_bytes = options.setup.block_bytes,
                .kv_cache_dtype = options.kv_cache_dtype}),
      watchdog_(static_cast<TimeNs>(options.service.watchdog_timeout_s * 1e9), clock_,
                [this](TimeNs passed) { on_hang(passed); }),
      compiler_([this](FilterCompiler::Result result) { send(std::move(result)); }) {
  policies_.connect(scheduler_, blocks_);
  if (options.service.recent_trace_bytes > 0 || !options.service.record_path.empty()) scheduler_.set_trace(&recorder_);
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

// Whoever waits for the engine thread is told, for it may never come.
void Engine::on_hang(TimeNs passed) {
  log(LogLevel::Error, "a step has not come back after {:.1f} s; {}", static_cast<double>(passed) * 1e-9, state_text());
  const std::scoped_lock lock(mutex_);
  std::erase_if(inbox_, [](Command& command) {
    auto* const change = std::get_if<ChangeCommand>(&command);
    if (change != nullptr) change->done.set_exception(std::make_exception_ptr(hang_error()));
    return change != nullptr;
  });
  changed_.notify_all();
}

void Engine::check_prompt_length(size_t count, bool generates) const {
  const int32_t context = options_.setup.config.max_model_len;
  const int32_t limit = prompt_tokens_max(context, generates);
  if (count == 0) throw RequestError("prompt", fmt::format("the prompt is empty, allowed: 1 to {} tokens", limit));
  if (count > static_cast<size_t>(limit)) {  // in the words by which clients know that they must shorten it
    throw RequestError("prompt_length", fmt::format("the prompt is too long: {} tokens; this model's maximum context "
                                                    "length is {} tokens (max_model_len){}",
                                                    count, context, generates ? ", one left to answer" : ""));
  }
}

// What never fits is a mistake, not a matter of trying again later.
void Engine::check_fits(const SamplingParams& sampling) const {
  const SchedulerConfig& config = options_.setup.config;
  const int32_t room = sequences_max(options_.service.queue, config.max_num_seqs, config.max_requests);
  if (sampling.choice_count() <= room) return;
  const char* const field = sampling.best_of > sampling.n ? "best_of" : "n";
  throw RequestError(field, fmt::format("'{}' makes {} sequences, at most {} can run and wait here", field,
                                        sampling.choice_count(), room));
}

Request Engine::checked_request(SubmitOptions& options) const {
  if (options.pooling != Pooling::None) options.sampling = {.max_tokens = 1};
  options.sampling.validate();
  if (options.sampling.max_tokens == 0) {
    options.pooling = Pooling::Discard;
    if (options.sampling.choice_count() > 1) {
      fail(ErrorCode::InvalidArgument, "n or best_of makes {} answers, allowed with max_tokens 0: 1",
           options.sampling.choice_count());
    }
    options.sampling = {.max_tokens = 1, .prompt_logprobs = options.sampling.prompt_logprobs};
  }
  if (options_.service.max_tokens_limit > 0 && options.sampling.max_tokens > options_.service.max_tokens_limit) {
    if (!options_.service.clip_max_tokens) {
      fail(ErrorCode::InvalidArgument, "max_tokens is {}, allowed: 1 to {} (max_tokens_limit)",
           options.sampling.max_tokens, options_.service.max_tokens_limit);
    }
    options.sampling.max_tokens = options_.service.max_tokens_limit;
    options.sampling.min_tokens = std::min(options.sampling.min_tokens, options_.service.max_tokens_limit);
  }
  check_fits(options.sampling);
  check_prompt_length(options.prompt.size(), options.pooling == Pooling::None);
  const auto check_token = [this](const char* field, const char* what, TokenId token) {
    if (token < 0 || token >= options_.vocabulary_size) {
      throw RequestError(field,
                         fmt::format("{} {} is no token, allowed: 0 to {}", what, token, options_.vocabulary_size - 1));
    }
  };
  for (const TokenId token : options.prompt) check_token("prompt", "prompt id", token);
  for (const TokenId token : options.sampling.stop_token_ids) check_token("stop_token_ids", "stop token id", token);
  for (const auto& [token, bias] : options.sampling.logit_bias) check_token("logit_bias", "logit bias id", token);
  if (options.pooling == Pooling::None) {
    for (const TokenId token : options_.suppressed_tokens) {
      options.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
  if (options.predicted_output_tokens < 0) {
    fail(ErrorCode::InvalidArgument, "predicted_output_tokens is {}, allowed: 0 (none) or more",
         options.predicted_output_tokens);
  }
  if (options.tenant >= limits::kTenantsMax) {
    fail(ErrorCode::InvalidArgument, "tenant is {}, allowed: 0 to {}", options.tenant, limits::kTenantsMax - 1);
  }
  const bool speculates = options_.setup.config.num_speculative_tokens > 0;
  options.prediction.resize(
      speculates ? std::min(options.prediction.size(), static_cast<size_t>(options_.setup.config.max_model_len)) : 0);
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
          .predicted_output_tokens = options.predicted_output_tokens,
          .prediction = std::move(options.prediction),
          .pooling = options.pooling};
}

// REQUIRES: mutex_ is held.
void Engine::check_queue_for(const Request& request) {
  try {
    if (draining_)
      throw Rejection(RejectReason::Draining, std::nullopt, "the engine is draining: it takes no requests");
    const TimeNs now = request.arrival;
    const TimeNs patience = request.ttft_deadline == kNoDeadline ? 0 : std::max<TimeNs>(request.ttft_deadline - now, 1);
    check_queue(options_.service.queue,
                {.sequences = sequence_count_,
                 .max_requests = options_.setup.config.max_requests,
                 .waiting = stats_.waiting + inbox_sequences_,
                 .free_rows = stats_.free_rows,
                 .waiting_tokens = stats_.queued_tokens + inbox_tokens_,
                 .service_rate = stats_.departures.per_second(now)},
                {.sequences = request.sampling.choice_count(),
                 .tokens = static_cast<int64_t>(request.prompt.size()),
                 .until_deadline = patience});
  } catch (const Rejection& rejection) {
    ++rejections_[static_cast<size_t>(rejection.reason())];
    throw;
  }
}

OutputStream* Engine::submit(SubmitOptions options, FilterSource filter, AdapterLease adapter) {
  SubmitCommand command{checked_request(options), nullptr, options.expiry, std::move(filter), std::move(adapter)};
  command.request.adapter = command.adapter.id();
  if (command.expiry == kNoDeadline && options_.service.request_timeout > 0) {
    command.expiry = command.request.arrival + options_.service.request_timeout;
  }
  command.request.has_token_filter = command.filter_source != nullptr;
  command.request.filter_sleeps = options.filter_sleeps;
  const auto release_for_both = [](OutputStream* made) {
    made->release();
    made->release();
  };
  std::unique_ptr<OutputStream, decltype(release_for_both)> stream(nullptr, release_for_both);
  {
    const std::scoped_lock lock(mutex_);
    throw_if_failed();
    arrivals_.add(command.request.arrival, command.request.sampling.choice_count());
    check_queue_for(command.request);
    const SamplingParams& sampling = command.request.sampling;
    const int32_t sequences = sampling.choice_count();
    const auto tokens = static_cast<int32_t>(command.request.prompt.size());
    command.request.id = static_cast<RequestId>(next_request_);
    stream.reset(new OutputStream(command.request.id, tokens, sampling.n, sampling.best_of, std::move(options.ends)));
    command.stream = stream.get();
    inbox_.emplace_back(std::move(command));  // the last that may throw: what has been refused is not counted
    ++next_request_;
    sequence_count_ += sequences;
    inbox_sequences_ += sequences;
    inbox_tokens_ += tokens;
  }
  wake_.notify_all();
  return stream.release();
}

void Engine::throw_if_failed() const {
  if (!failure_.empty()) throw Error(ErrorCode::EngineFailed, failure_);
}

void Engine::send(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) return;  // nobody takes it, and all streams have ended
    inbox_.push_back(std::move(command));
  }
  wake_.notify_all();
}

void Engine::cancel(RequestId request) { send(CancelCommand{.request = request}); }

void Engine::stop(RequestId request, int32_t choice) {
  send(CancelCommand{.request = request, .choice = choice, .reason = FinishReason::Stop});
}

void Engine::pause(PauseMode mode) {
  std::unique_lock lock(mutex_);
  throw_if_failed();
  wanted_pause_ = mode;
  wake_.notify_all();
  if (options_.host_driven) return;
  const auto holds = [this] { return pause_ == wanted_pause_; };
  changed_.wait(lock, [&] { return holds() || !failure_.empty() || watchdog_.hung(); });
  throw_if_failed();
  if (!holds()) throw hang_error();
}

bool Engine::drain(std::optional<std::chrono::milliseconds> timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto drained = [this] { return sequence_count_ == 0 && !ends_on_their_way_; };
  const auto told = [&] { return drained() || watchdog_.hung(); };
  if (options_.host_driven) return drained();
  if (!timeout) {
    changed_.wait(lock, told);
  } else {
    changed_.wait_for(lock, *timeout, told);
  }
  return drained();
}

void Engine::undrain() {
  const std::scoped_lock lock(mutex_);
  draining_ = false;
}

bool Engine::healthy() const {
  const std::scoped_lock lock(mutex_);
  return failure_.empty() && !watchdog_.hung();
}

void Engine::set_policy(const std::string& text) {
  const uint32_t kind = plugin_registry().kind_of(parse_policy_spec(text));
  PolicyCommand command{.spec = text, .policy = {}};
  if (kind == INFLIGHT_KIND_SCHED) {
    command.policy = make_schedule_policy(text, options_.setup, policy_options());
  } else {
    command.policy = make_eviction_policy(text, options_.setup, policy_options());
  }
  {
    const std::scoped_lock lock(mutex_);
    throw_if_failed();
    inbox_.emplace_back(std::move(command));
  }
  wake_.notify_all();
}

void Engine::between_steps(std::function<void()> change) {
  ChangeCommand command{.change = std::move(change), .done = {}};
  std::future<void> done = command.done.get_future();
  {
    const std::scoped_lock lock(mutex_);
    throw_if_failed();
    if (watchdog_.hung()) throw hang_error();
    inbox_.emplace_back(std::move(command));
  }
  wake_.notify_all();
  if (!options_.host_driven) done.get();
}

void Engine::set_policy_parameters(const std::string& spec) {
  const PolicySlots::Named named = PolicySlots::resolve(spec);
  PolicySlots::check_parameters(named);
  between_steps([this, spec, named] {
    policies_.set_parameters(named, clock_.now());
    recorder_.parameters(spec, clock_.now());
  });
}

void Engine::reconfigure(const std::string& json) {
  check_limits_json(json);
  between_steps([this, json] {
    const SchedulerConfig config = with_limits(scheduler_.config(), json);
    scheduler_.reconfigure(config);
    recorder_.limits(json, clock_.now());
  });
}

void Engine::reset_prefix_cache() {
  between_steps([this] {
    const TimeNs now = clock_.now();
    scheduler_.reset_prefix_cache(now);
    recorder_.reset_prefix_cache(now);
  });
}

std::string Engine::metrics_text(std::string_view prefix) const { return metrics_.text(stats(), clock_.now(), prefix); }

std::string Engine::steps_json(uint64_t since) {
  {
    const std::scoped_lock lock(mutex_);
    watch_.ask_for_map();
  }
  wake_.notify_all();  // an idle engine makes the map at once
  return watch_.json(since, stats(), options_.setup.blocks.block_token_count);
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(mutex_);
  EngineStats stats = stats_;
  stats.failed = !failure_.empty();
  stats.hung = watchdog_.hung();
  stats.paused = pause_ != PauseMode::None;
  stats.draining = draining_;
  stats.waiting += inbox_sequences_;
  stats.queued_tokens += inbox_tokens_;
  stats.rejections = rejections_;
  stats.arrivals = arrivals_;
  return stats;
}

std::string Engine::state_text() const {
  const EngineStats now = stats();
  std::string text = fmt::format(
      "step {}, {} running, {} waiting, {} prompt tokens queued, KV blocks {} in use {} stored {} free, {} preemptions",
      now.scheduler.steps, now.running, now.waiting, now.queued_tokens, now.blocks_referenced, now.blocks_stored,
      now.blocks_free, now.scheduler.preemptions);
  const auto records = decode_trace(recorder_.recent());
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const TraceRecord& record) {
    return std::holds_alternative<TracePlan>(record.content);
  });
  if (last == records.rend()) return text;
  const auto& plan = std::get<TracePlan>(last->content);
  text += fmt::format("; plan {}:", plan.step);
  for (const TracePlan::Entry& entry : plan.entries) {
    text += fmt::format(" sequence {} [{}, {})", to_integer(entry.sequence), entry.computed,
                        entry.computed + entry.scheduled);
  }
  return text;
}

}  // namespace inflight
