// SPDX-License-Identifier: Apache-2.0
// One created instance of a loaded policy: its host table, its clock and random numbers, its strikes. Shared by the two
// adapters, which translate between scheduler types and the C structs.
//
// A call is answered by the policy, or it is not: INFLIGHT_PASS, a missing op and every mistake mean "the built-in
// decides this call". A mistake is also a strike; kStrikesMax strikes within kStrikeWindow calls, or the policy's own
// wish, take it out for good (exit, destroy) and the built-in goes on.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/rng.h"
#include "inflight/plugin.h"
#include "sched/latency_model.h"

namespace inflight {

struct PolicyOptions {
  uint64_t seed = 0;
  bool simulated = false;
  // Times each op; nullptr: no time limit (virtual time).
  const Clock* clock = nullptr;
  TimeNs op_time_max = 20'000'000;
};

class PolicyInstance {
 public:
  PolicyInstance(const inflight_policy_t& policy, const PolicyOptions& options);
  PolicyInstance(const PolicyInstance&) = delete;
  PolicyInstance& operator=(const PolicyInstance&) = delete;
  // Ends it with reason INFLIGHT_EXIT_UNLOAD if it is still there.
  ~PolicyInstance();

  // create() has returned `status` and `self`.  ERRORS: Plugin, with the policy's own text.
  void created(inflight_plugin_status_t status, void* self);

  // Runs op() (which returns a status) with the host's clock at `now`. True: the policy answered.
  template <typename Op>
  bool call(const char* name, TimeNs now, Op&& op) {
    if (!active()) return false;
    begin(now);
    const TimeNs start = options_.clock != nullptr ? options_.clock->now() : 0;
    const inflight_plugin_status_t status = op();
    const TimeNs taken = options_.clock != nullptr ? options_.clock->now() - start : 0;
    return finish(name, status, taken);
  }
  // The answer of the last call was no answer; counts, logs, and may end the instance.
  void strike(const char* op, std::string_view why);
  // Ends the instance at once: a fault that must not happen twice.
  void eject(uint32_t reason, const char* op, std::string_view why);

  [[nodiscard]] bool active() const { return self_ != nullptr; }
  [[nodiscard]] void* self() const { return self_; }
  [[nodiscard]] const inflight_policy_t& policy() const { return policy_; }
  [[nodiscard]] const inflight_host_t& host() const { return host_; }
  [[nodiscard]] int64_t strike_count() const { return strikes_total_; }
  // Why it was taken out; empty while it is active.
  [[nodiscard]] const std::string& exit_message() const { return exit_message_; }
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
  };
  void set_services(const Services* services) { services_ = services; }

  static constexpr int kStrikesMax = 8;
  static constexpr int64_t kStrikeWindow = 1000;  // calls
  static constexpr size_t kMetricsMax = 64;
  static constexpr int kLogLinesMax = 100;  // per kStrikeWindow calls

 private:
  void begin(TimeNs now);
  bool finish(const char* name, inflight_plugin_status_t status, TimeNs taken);
  void end(uint32_t reason, int32_t code, const char* op, std::string_view message);
  static PolicyInstance& of(void* context) { return *static_cast<PolicyInstance*>(context); }
  static inflight_host_t make_host(PolicyInstance* instance, bool simulated);

  const inflight_policy_t& policy_;
  PolicyOptions options_;
  inflight_host_t host_;
  void* self_ = nullptr;
  TimeNs now_ = 0;
  Rng rng_;
  const Services* services_ = nullptr;
  std::string error_;  // set_error() of the current call
  std::map<std::string, double> metrics_;
  int64_t allocation_count_ = 0;

  int64_t calls_ = 0;
  int64_t window_begin_ = 0;
  int strikes_in_window_ = 0;
  int log_lines_in_window_ = 0;
  int64_t strikes_total_ = 0;
  bool exit_requested_ = false;
  int32_t exit_code_ = 0;
  std::string exit_why_;
  std::string exit_message_;
};

}  // namespace inflight
