// SPDX-License-Identifier: Apache-2.0
// The engine: requests in from any thread, steps on one thread, tokens out through streams. Knows nothing of OpenCL,
// models or text: it is given an Executor. engine/runtime.h puts a real one together.
//
// THREAD: the public functions may be called from any thread. What they ask for travels through the inbox; everything
// else belongs to the engine thread, which is its own thread or, when host_driven, whoever calls step().
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "cache/kv_blocks.h"
#include "core/executor.h"
#include "engine/engine_stats.h"
#include "engine/filter_compiler.h"
#include "engine/metrics.h"
#include "engine/output_stream.h"
#include "engine/queue_limits.h"
#include "engine/step_watch.h"
#include "engine/trace_recorder.h"
#include "engine/watchdog.h"
#include "exec/adapter_store.h"
#include "plugin_host/policies.h"
#include "plugin_host/policy_slots.h"
#include "sample/draft_proposer.h"
#include "sample/host_sampler.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"

namespace inflight {

// How an engine serves, whatever it runs on.
struct ServiceOptions {
  QueueLimits queue;
  int32_t max_tokens_limit = 0;  // output tokens of any request at most; 0 = no limit
  bool clip_max_tokens = true;   // a request that wants more gets the limit; false: it is refused
  TimeNs request_timeout = 0;    // a request ends with abort so long after submit, unless it says so itself; 0 = none
  double watchdog_timeout_s = 0.0;  // a step that takes longer is reported, and the engine is not healthy; 0 = off
  size_t recent_trace_bytes = size_t{4} << 20;  // decisions kept for recent_trace(); 0 = none
  std::string record_path;         // every decision to this file, for `inflight replay` and `explain`; empty = none
  int32_t log_interval_steps = 0;  // a line of figures to the log every so many steps; 0 = never
};

struct EngineOptions {
  SchedulerSetup setup;
  bool overlap = true;
  bool host_driven = false;
  int32_t vocabulary_size = 0;
  int32_t draft_vocabulary_size = 0;       // with a draft model
  std::vector<TokenId> end_tokens;         // of the model
  std::vector<TokenId> suppressed_tokens;  // of the model: never drawn
  std::string model_name;                  // for metrics
  std::string kv_cache_dtype;              // for metrics
  ServiceOptions service;
  const Clock* clock = nullptr;  // borrowed; null = the machine's
};

// What a client asks for; token ids, not text.
struct SubmitOptions {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int32_t priority = 0;
  uint32_t tenant = 0;
  uint64_t cache_salt = 0;
  TimeNs ttft_deadline = kNoDeadline;  // by the engine's clock
  TimeNs e2e_deadline = kNoDeadline;
  TimeNs itl_target = kNoDeadline;
  TimeNs expiry = kNoDeadline;          // by the engine's clock: then the request ends with abort, wherever it is
  int32_t predicted_output_tokens = 0;  // 0 = none
  std::vector<TokenId> prediction;      // Request::prediction; at most max_model_len of them are kept
  bool filter_sleeps = false;           // the filter lets everything come until it wakes
  EndRule ends = {};                    // what ends a choice, besides its tokens
  Pooling pooling = Pooling::None;      // not None: an embedding is wanted, `sampling` is not looked at
};

// Which requests rest.
enum class PauseMode : uint8_t {
  None,
  New,  // nothing is admitted; what runs continues
  All,  // no step is made
};

class Engine {
 public:
  // draft: of the draft model, if the options' scheduler has one (draft_model); else null.
  // ERRORS: InvalidArgument, NotFound, Plugin (options and policies).
  Engine(const EngineOptions& options, std::unique_ptr<Executor> executor, std::unique_ptr<Executor> draft = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends every request with reason abort.
  ~Engine();

  // The stream belongs to the caller (OutputStream::release()) and to the engine.
  // ERRORS: InvalidArgument (names the field), Rejection (a queue limit, a deadline that cannot be met, draining),
  // EngineFailed.
  // filter: makes what says which tokens may come; empty = any may. It runs on another thread; meanwhile the request
  // waits, and others go on. When it throws the request ends with reason error and the text.
  // adapter: held until the request has ended.
  [[nodiscard]] OutputStream* submit(SubmitOptions options, FilterSource filter = {}, AdapterLease adapter = {});
  // ERRORS: InvalidArgument unless submit() takes prompts of so many tokens.   generates: something is wanted after it.
  void check_prompt_length(size_t count, bool generates) const;
  // Ends the request with reason abort.
  void cancel(RequestId request);
  // Ends one answer with reason stop: its reader has found a stop string in it.
  void stop(RequestId request, int32_t choice);

  // Returns when it holds: with All no token leaves from then on, until resume(). Requests may still be submitted.
  // With host_driven it holds from the next step() on.
  // ERRORS: EngineFailed (a step hangs: it will hold when that has come back).
  void pause(PauseMode mode);
  void resume() { pause(PauseMode::None); }

  // From now on no request is taken in. Waits until the last one has ended (host_driven: does not wait) or a step
  // hangs. True: none is left.
  bool drain(std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  // Requests are taken in again.
  void undrain();

  // Replaces a policy while requests run; the kind follows from the name. It takes over after PolicySlots::kShadowSteps
  // steps in the shadow of the one in force (one step when it is built in), unless it makes a mistake there.
  // ERRORS: InvalidArgument, NotFound, Plugin, EngineFailed; the old one stays then.
  void set_policy(const std::string& spec);

  // Changes parameters of a policy in force that may change while it runs: "name:key=value,...".
  // ERRORS: InvalidArgument (not in force, no such parameter, not changeable, out of range, refused), NotFound, Plugin.
  void set_policy_parameters(const std::string& spec);
  // Changes limits of the scheduler from the next step on: a JSON object of max_num_seqs, max_num_batched_tokens,
  // max_prefill_tokens, long_prefill_token_threshold, max_num_partial_prefills, enable_mixed_chunk, max_batch_delay_ms,
  // schedule_conservativeness, kv_headroom, priority_preemption_threshold, preempt_victim.
  // ERRORS: InvalidArgument (names the key), EngineFailed (also when a step hangs).
  // Both return when it is done; with host_driven it is done by the next step(), and a refusal goes to the log.
  void reconfigure(const std::string& json);
  // Forgets the stored prefixes that no running request refers to, in host memory too; returns as these do.
  void reset_prefix_cache();

  // host_driven only: takes what has come in and runs one round of the step loop. False: nothing is to be done now,
  // while the engine is paused or a batch waits for more requests though some are waiting. Where a grammar is all that
  // is being worked on it waits for that, for what comes in or for the next deadline.
  // ERRORS: Unsupported (own thread), EngineFailed.
  bool step();

  // As of the last step.
  [[nodiscard]] EngineStats stats() const;
  // It has not failed and no step hangs.
  [[nodiscard]] bool healthy() const;
  // The last decisions, as a trace file's content.
  [[nodiscard]] std::vector<std::byte> recent_trace() const { return recorder_.recent(); }
  // What is going on, as text for people: figures and the last plan.
  [[nodiscard]] std::string state_text() const;
  // All metrics in Prometheus' text form, each name behind `prefix`; see metrics.h.
  [[nodiscard]] std::string metrics_text(std::string_view prefix = "inflight_") const;
  // The steps after number `since` that are kept, and figures of now: inflight_engine_steps_json().
  [[nodiscard]] std::string steps_json(uint64_t since);
  [[nodiscard]] const EngineOptions& options() const { return options_; }

 private:
  struct SubmitCommand {
    Request request;
    OutputStream* stream;
    TimeNs expiry;
    FilterSource filter_source;
    AdapterLease adapter;
  };
  struct CancelCommand {
    RequestId request;
    std::optional<int32_t> choice;  // nullopt: all
    FinishReason reason = FinishReason::Abort;
  };
  struct PolicyCommand {
    std::string spec;
    std::variant<std::unique_ptr<SchedAdapter>, std::unique_ptr<EvictAdapter>> policy;
  };
  struct ChangeCommand {
    std::function<void()> change;
    std::promise<void> done;
  };
  using Command = std::variant<SubmitCommand, FilterCompiler::Result, CancelCommand, PolicyCommand, ChangeCommand>;

  [[nodiscard]] Request checked_request(SubmitOptions& options) const;
  void check_fits(const SamplingParams& sampling) const;
  void check_queue_for(const Request& request);
  [[nodiscard]] PolicyOptions policy_options() const {
    return {.seed = options_.setup.seed, .clock = &clock_, .real_time = options_.clock == nullptr};
  }
  void send(Command command);
  void throw_if_failed() const;  // REQUIRES: mutex_ is held
  // Runs `change` in the engine thread between two steps.  ERRORS: what it throws; EngineFailed.
  void between_steps(std::function<void()> change);

  void run();  // the engine thread
  bool run_step();
  bool round();  // a step, then what it changed goes to whoever waits for it
  void take_commands();
  void execute(SubmitCommand& command);
  void execute(FilterCompiler::Result& result);
  void add(SubmitCommand& command, std::unique_ptr<TokenFilter> filter);
  bool end_compiling(RequestId request, const OutputStream::Finish& finish);
  void execute(const CancelCommand& command);
  void execute(PolicyCommand& command);
  void execute(ChangeCommand& command);
  void record_takeovers();
  void pause_or_go_on();
  void end_expired();
  void deliver();
  void give_back(int32_t sequences);
  void end_client(const FinishedOutput& finished, TimeNs now);
  void observe_step();
  [[nodiscard]] std::optional<TimeNs> wake_time() const;
  [[nodiscard]] bool called() const;  // something is to be done for a caller.   REQUIRES: mutex_ is held
  void wait_for_work(std::unique_lock<std::mutex>& lock);  // until called(), or wake_time()
  void warn_of_preemptions(TimeNs now);
  void log_figures();
  void publish_stats();
  void on_hang(TimeNs passed);  // the watchdog's thread
  // Ends all requests and fails all waiting commands, those of the inbox included; after Error the engine accepts
  // nothing more.
  void note_failure(const std::string& why);
  void end_all(FinishReason reason, const std::string& why);

  // A sequence's stream and what its metrics need; by slot.
  struct Client {
    OutputStream* stream = nullptr;  // null: no request
    int32_t choice = 0;
    TimeNs last_token_time = kNotYet;
    TimeNs expiry = kNoDeadline;
    AdapterLease adapter{};
  };

  EngineOptions options_;
  SteadyClock steady_clock_;
  const Clock& clock_;
  std::unique_ptr<Executor> executor_, draft_;
  HostSampler sampler_;
  std::unique_ptr<DraftProposer> proposer_;  // null: no draft model
  StepWatch watch_;
  TraceRecorder recorder_;
  PolicySlots policies_;
  struct Candidate {  // on trial in policies_
    std::string spec;
    const PolicyInstance* instance = nullptr;
  };
  Candidate schedule_candidate_, eviction_candidate_;
  KvBlocks blocks_;
  Scheduler scheduler_;
  StepLoop loop_;
  EngineMetrics metrics_;
  EngineTimes times_;
  std::vector<Client> clients_;  // by slot
  int64_t observed_steps_ = 0;   // what metrics_ and the log have seen
  int64_t observed_tokens_ = 0;
  TimeNs observed_scheduling_ = 0;
  TimeNs observed_swap_ = 0;
  RateWindow departures_;
  std::set<std::pair<TimeNs, RequestId>> expiries_;  // of requests that have one and have not ended
  // Requests whose filter is being made; the scheduler does not know them yet.
  std::unordered_map<uint64_t, SubmitCommand> compiling_;
  int64_t aborted_compiling_ = 0, failed_compiling_ = 0;
  std::string abort_note_;  // what clients of requests that the engine ends now are told
  int64_t expired_ = 0;
  int32_t ended_sequences_ = 0;  // since the last publish_stats()
  std::optional<TimeNs> last_preemption_warning_;
  int64_t preemptions_not_warned_of_ = 0;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::vector<Command> inbox_;
  uint64_t next_request_ = 1;
  int32_t sequence_count_ = 0;      // in the inbox and in the scheduler
  bool ends_on_their_way_ = false;  // of sequences that it counts no more: their streams may not have them yet
  int32_t inbox_sequences_ = 0;     // submitted since the last step's stats
  int64_t inbox_tokens_ = 0;
  PauseMode wanted_pause_ = PauseMode::None, pause_ = PauseMode::None;
  std::condition_variable changed_;  // pause_ or failure_ or what drain() waits for
  bool draining_ = false;
  std::array<int64_t, kRejectReasonCount> rejections_{};
  bool stopping_ = false;
  std::string failure_;  // empty: running
  EngineStats stats_;
  RateWindow arrivals_;

  Watchdog watchdog_;              // its thread reads what is above
  std::vector<Command> commands_;  // taken from the inbox; engine thread
  size_t executing_ = 0;           // of commands_: those before it are done
  FilterCompiler compiler_;        // its threads send to the inbox
  std::jthread thread_;            // last: it uses everything above
};

}  // namespace inflight
