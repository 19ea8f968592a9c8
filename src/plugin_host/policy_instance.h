// SPDX-License-Identifier: Apache-2.0
// One created instance of a loaded policy: its host table, its clock and random numbers, its strikes and its end.
// Shared by the two adapters, which translate between scheduler types and the C structs.
//
// A call is answered by the policy, or it is not: INFLIGHT_PASS, a missing op and every mistake mean "the built-in
// decides this call". A mistake is also a strike, and so is a late answer, though it counts; kStrikesMax strikes within
// kStrikeWindow steps take it out for good (exit, destroy) and the built-in goes on. A crash, an exception or a call
// that does not return in time take it out at once; after a crash or a cut call neither exit nor destroy is called and
// what it had allocated is left. Whoever is taken out leaves a report (policy_report.h). THREAD: the engine thread
// only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/rng.h"
#include "inflight/plugin.h"
#include "plugin_host/plugin_guard.h"
#include "sched/latency_model.h"

namespace inflight {

class PluginModule;

// What key0 holds before a policy writes it: a key that is left unwritten is a mistake.
inline constexpr int64_t kUnwrittenKey = std::numeric_limits<int64_t>::min() + 0x5eed;

// Whether crashes and endless loops of a policy are contained.
enum class PluginMode : uint8_t {
  Auto,     // as $INFLIGHT_PLUGIN_MODE says (inline, guarded); else files are guarded, built-in policies are not
  Inline,   // plain calls: a crash is a crash of the process, in a debugger at its place
  Guarded,  // plugin_guard.h
};

struct PolicyOptions {
  uint64_t seed = 0;
  bool simulated = false;
  // Times each op; nullptr: no time limit (virtual time).
  const Clock* clock = nullptr;
  // The clock is real time: an op that takes too long because the system gave its processor to somebody else is spared.
  bool real_time = false;
  TimeNs op_time_max = limits::kPluginOpNs;
  PluginMode mode = PluginMode::Auto;
  int32_t stuck_after_ms = limits::kPluginStuckMs;  // guarded: of real time
  std::optional<std::string> report_folder = {};    // absent: default_report_folder(); empty: no reports
  const PluginModule* module = nullptr;             // where it is from; null: built in
  std::string spec = {};                            // what the user wrote, for reports
};

// "left 2 allocations behind" or "freed 2 allocations that it had not made", for a count that is not 0.
[[nodiscard]] std::string describe_live_allocations(int64_t count);
// What is wrong with the name of a metric, as plugin.h allows them; empty when nothing is. JSON and Prometheus take it.
[[nodiscard]] std::string metric_name_problem(const char* name);

class PolicyInstance {
 public:
  PolicyInstance(const inflight_policy_t& policy, const PolicyOptions& options);
  PolicyInstance(const PolicyInstance&) = delete;
  PolicyInstance& operator=(const PolicyInstance&) = delete;
  // Ends it with `leave_reason` (INFLIGHT_EXIT_UNLOAD) if it is still there.
  ~PolicyInstance();

  // Runs the policy's create().  ERRORS: Plugin, with the policy's own text or what it did instead of returning.
  template <typename Create>
  void create(Create&& create) {
    void* self = nullptr;
    inflight_plugin_status_t status = INFLIGHT_PLUGIN_OK;
    begin("create", 0);
    const GuardResult result = run([&] { status = create(&self); });
    created(result, status, self);
  }

  // A step begins: strikes and times are counted by step.
  void at_step(uint64_t step);

  // Runs op() (which returns a status) with the host's clock at `now`. True: the policy answered.
  template <typename Op>
  bool call(const char* name, TimeNs now, Op&& op) {
    if (!active()) return false;
    begin(name, now);
    const TimeNs start = options_.clock != nullptr ? options_.clock->now() : 0;
    if (watches_thread_) thread_before_ = thread_use();
    inflight_plugin_status_t status = INFLIGHT_PLUGIN_OK;
    const auto taken = [&] { return options_.clock != nullptr ? options_.clock->now() - start : 0; };
    if (guarded_) {
      const GuardResult result = run_guarded(guard_limits_, [&] { status = op(); });
      if (result.outcome != GuardOutcome::Returned) return fault(result, status, taken());
    } else {
      try {
        status = op();
      } catch (...) {
        return fault(caught(), status, taken());
      }
    }
    return returned(status, taken());
  }
  // The answer of the last call was no answer; counts, logs, and may end the instance.
  void strike(const char* op, std::string_view why, uint32_t reason = INFLIGHT_EXIT_BAD_OUTPUT);
  // Ends the instance at once: a fault that must not happen twice.
  void eject(uint32_t reason, const char* op, std::string_view why);
  // Changes parameters by the policy's set_param().
  // ERRORS: InvalidArgument (no such parameter, not changeable, out of range, refused); those before it are changed.
  using SetParam = inflight_plugin_status_t (*)(void* self, const inflight_key_value_t* pair);
  void set_parameters(SetParam set_param, const std::vector<std::pair<std::string, std::string>>& given, TimeNs now);
  // What exit() is told when the instance ends in good order.
  void set_leave_reason(uint32_t reason) { leave_reason_ = reason; }

  [[nodiscard]] bool active() const { return self_ != nullptr; }
  [[nodiscard]] void* self() const { return self_; }
  [[nodiscard]] const inflight_policy_t& policy() const { return policy_; }
  [[nodiscard]] const PolicyOptions& options() const { return options_; }
  [[nodiscard]] const inflight_host_t& host() const { return host_; }
  [[nodiscard]] bool guarded() const { return guarded_; }
  [[nodiscard]] int64_t strike_count() const { return strikes_total_; }
  [[nodiscard]] int64_t slow_step_count() const { return slow_steps_; }  // over the policy's own promise; needs a clock
  // Why it was taken out; empty while it is active.
  [[nodiscard]] const std::string& exit_message() const { return exit_message_; }
  [[nodiscard]] uint32_t exit_reason() const { return exit_reason_; }  // INFLIGHT_EXIT_*; meaningful after its end
  [[nodiscard]] uint64_t exit_step() const { return exit_step_; }      // likewise
  [[nodiscard]] const std::string& report_path() const { return report_path_; }  // empty: none was written
  [[nodiscard]] const std::map<std::string, double>& metrics() const { return metrics_; }

  // Who answers what a policy asks the host during a call.
  class Services {
   public:
    virtual ~Services() = default;
    // Stored tokens of the waiting request in `slot`; nullopt: no such request is waiting.
    [[nodiscard]] virtual std::optional<uint32_t> stored_tokens(uint32_t slot) const = 0;
    [[nodiscard]] virtual TimeNs estimate(const StepWork& work) const = 0;
    // The unit before `unit`, or INFLIGHT_UNIT_ROOT; nullopt: it is not stored.
    [[nodiscard]] virtual std::optional<uint32_t> parent_of(uint32_t unit) const = 0;
    // What the last call of `op` was given and what it answered, for a report.
    virtual void describe(std::string_view op, nlohmann::ordered_json& json) const = 0;
  };
  void set_services(const Services* services) { services_ = services; }
  [[nodiscard]] const Services* services() const { return services_; }

  // One call, for the report.
  struct Call {
    uint64_t step = 0;
    TimeNs now = 0;
    TimeNs taken = 0;
    const char* op = "";
    inflight_plugin_status_t status = 0;
  };
  // The last calls, oldest first.
  template <typename Visit>
  void for_each_recent_call(Visit&& visit) const {
    const auto kept = static_cast<int64_t>(recent_.size());
    for (int64_t i = calls_ > kept ? calls_ - kept : 0; i < calls_; ++i) {
      visit(recent_[static_cast<size_t>(i % kept)]);
    }
  }

  static constexpr int kStrikesMax = 8;
  static constexpr uint64_t kStrikeWindow = 1000;  // steps
  static constexpr TimeNs kSoftStepNs = 200'000;   // what a policy that promises nothing is measured against
  static constexpr size_t kMetricsMax = 64;
  static constexpr int kLogLinesMax = 100;  // per kStrikeWindow steps

 private:
  template <typename Function>
  GuardResult run(Function&& function) {
    return guarded_ ? run_guarded(guard_limits_, function) : run_catching(function);
  }
  void begin(const char* name, TimeNs now) {
    guard_limits_.op = name;
    now_ = now;
    if (!error_.empty()) error_.clear();
  }
  void set_metric(const char* name, double value);
  void created(const GuardResult& result, inflight_plugin_status_t status, void* self);
  // The end of a call: true when it was answered.
  bool returned(inflight_plugin_status_t status, TimeNs taken) {
    note_call(status, taken);
    const bool fine = status == INFLIGHT_PLUGIN_OK && taken <= options_.op_time_max && !exit_requested_;
    return fine ? active() : judge(status, taken);
  }
  bool fault(const GuardResult& result, inflight_plugin_status_t status, TimeNs taken);
  bool judge(inflight_plugin_status_t status, TimeNs taken);
  bool was_preempted();
  void note_call(inflight_plugin_status_t status, TimeNs taken) {
    recent_[static_cast<size_t>(calls_++) % recent_.size()] = {step_, now_, taken, guard_limits_.op, status};
    step_time_ += taken;
  }
  // `consequence`: who decided this call, unless this strike is the last.
  void count_strike(const char* op, std::string_view why, const char* consequence, uint32_t reason);
  void end(uint32_t reason, int32_t code, const char* op, std::string_view message);
  void note_strike();
  [[nodiscard]] int recent_strikes() const;
  void leave(const inflight_exit_t& info);
  static PolicyInstance& of(void* context) { return *static_cast<PolicyInstance*>(context); }
  static inflight_host_t make_host(PolicyInstance* instance, bool simulated);

  const inflight_policy_t& policy_;
  PolicyOptions options_;
  bool guarded_;
  GuardLimits guard_limits_;  // op: in progress or last
  std::optional<CallWatchUser> call_watch_;
  inflight_host_t host_;
  void* self_ = nullptr;
  TimeNs now_ = 0;
  uint64_t step_ = 0;
  Rng rng_;
  const Services* services_ = nullptr;
  std::string error_;  // set_error() of the current call
  std::map<std::string, double> metrics_;
  std::atomic<int64_t> allocation_count_ = 0;  // alloc(), free() and log() may come from any thread

  int64_t calls_ = 0;
  std::array<Call, 64> recent_{};
  uint64_t window_begin_ = 0;
  std::atomic<int> log_lines_in_window_ = 0;
  int64_t strikes_total_ = 0;
  std::array<uint64_t, kStrikesMax> strike_steps_{};  // of the last ones
  bool watches_thread_ = false;                       // from the first op on that took too long: it costs a system call
  ThreadUse thread_before_;                           // this call
  TimeNs step_time_ = 0;
  int64_t slow_steps_ = 0;
  bool exit_requested_ = false;
  int32_t exit_code_ = 0;
  std::string exit_why_;
  uint32_t leave_reason_ = INFLIGHT_EXIT_UNLOAD;
  uint32_t exit_reason_ = INFLIGHT_EXIT_UNLOAD;
  uint64_t exit_step_ = 0;
  std::string exit_message_;
  std::string report_path_;
};

}  // namespace inflight
