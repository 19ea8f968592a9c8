// SPDX-License-Identifier: Apache-2.0
// The engine: requests in from any thread, steps on one thread, tokens out through streams. Knows nothing of OpenCL,
// models or text: it is given an Executor. engine/runtime.h puts a real one together.
//
// THREAD: the public functions may be called from any thread. What they ask for travels through the inbox; everything
// else belongs to the engine thread, which is its own thread or, when host_driven, whoever calls step().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "cache/kv_blocks.h"
#include "core/executor.h"
#include "engine/engine_stats.h"
#include "engine/metrics.h"
#include "engine/output_stream.h"
#include "plugin_host/policies.h"
#include "plugin_host/policy_slots.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"

namespace inflight {

struct EngineOptions {
  SchedulerSetup setup;
  bool overlap = true;
  bool host_driven = false;
  int32_t vocabulary_size = 0;
  std::vector<TokenId> end_tokens;  // of the model
  std::string model_name;           // for metrics
  int32_t log_interval_steps = 0;   // a line of figures to the log every so many steps; 0 = never
  const Clock* clock = nullptr;     // borrowed; null = the machine's
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
  int32_t predicted_output_tokens = 0;  // 0 = none
};

class Engine {
 public:
  // ERRORS: InvalidArgument, NotFound, Plugin (options and policies).
  Engine(const EngineOptions& options, std::unique_ptr<Executor> executor);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends every request with reason abort.
  ~Engine();

  // The stream belongs to the caller (OutputStream::release()) and to the engine.
  // ERRORS: InvalidArgument (names the field), Rejected (max_requests are here), EngineFailed.
  [[nodiscard]] OutputStream* submit(SubmitOptions options);
  void cancel(RequestId request);

  // Replaces a policy while requests run; the kind follows from the name. It takes over after PolicySlots::kShadowSteps
  // steps in the shadow of the one in force (one step when it is built in), unless it makes a mistake there.
  // ERRORS: InvalidArgument, NotFound, Plugin, EngineFailed; the old one stays then.
  void set_policy(const std::string& spec);

  // host_driven only: takes what has come in and runs one round of the step loop. False: nothing is to be done.
  // ERRORS: Unsupported (own thread), EngineFailed.
  bool step();

  // As of the last step.
  [[nodiscard]] EngineStats stats() const;
  // All metrics in Prometheus' text form, each name behind `prefix`; see metrics.h.
  [[nodiscard]] std::string metrics_text(std::string_view prefix = "inflight_") const;
  [[nodiscard]] const EngineOptions& options() const { return options_; }

 private:
  struct SubmitCommand {
    Request request;
    OutputStream* stream;
  };
  struct CancelCommand {
    RequestId request;
  };
  using PolicyCommand = std::variant<std::unique_ptr<SchedAdapter>, std::unique_ptr<EvictAdapter>>;
  using Command = std::variant<SubmitCommand, CancelCommand, PolicyCommand>;

  [[nodiscard]] Request checked_request(SubmitOptions options) const;
  [[nodiscard]] PolicyOptions policy_options() const { return {.seed = options_.setup.seed, .clock = &clock_}; }
  void send(Command command);

  void run();  // the engine thread
  bool round();
  void take_commands();
  void execute(SubmitCommand& command);
  void execute(const CancelCommand& command);
  void execute(PolicyCommand& command);
  void deliver();
  void warn_of_preemptions(TimeNs now);
  void log_figures();
  void publish_stats();
  // Ends every request, those in the inbox too. With Error: for good.
  void end_all(FinishReason reason, const std::string& why);

  // A sequence's stream and what its metrics need; by slot.
  struct Client {
    OutputStream* stream = nullptr;  // null: no request
    int32_t choice = 0;
    TimeNs last_token_time = kNotYet;
  };

  EngineOptions options_;
  SteadyClock steady_clock_;
  const Clock& clock_;
  std::unique_ptr<Executor> executor_;
  PolicySlots policies_;
  KvBlocks blocks_;
  Scheduler scheduler_;
  StepLoop loop_;
  EngineMetrics metrics_;
  EngineTimes times_;
  std::vector<Client> clients_;  // by slot
  int64_t observed_steps_ = 0;   // what metrics_ and the log have seen
  int64_t observed_tokens_ = 0;
  TimeNs observed_scheduling_ = 0;
  RateWindow departures_;
  std::optional<TimeNs> last_preemption_warning_;
  int64_t preemptions_not_warned_of_ = 0;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::vector<Command> inbox_;
  uint64_t next_request_ = 1;
  int32_t sequence_count_ = 0;  // in the inbox and in the scheduler
  bool stopping_ = false;
  std::string failure_;  // empty: running
  EngineStats stats_;
  RateWindow arrivals_;

  std::vector<Command> commands_;  // taken from the inbox; engine thread
  std::jthread thread_;            // last: it uses everything above
};

}  // namespace inflight
