// SPDX-License-Identifier: Apache-2.0
// A loaded scheduling policy as the scheduler's SchedulePolicy. Checks every answer; where there is none, or a wrong
// one, the base class (the built-in policy) decides the call. THREAD: the engine thread only.
#pragma once

#include <memory>
#include <vector>

#include "plugin_host/plugin_config.h"
#include "plugin_host/policy_instance.h"
#include "plugin_host/request_columns.h"
#include "sched/schedule_policy.h"

namespace inflight {

// What a policy learns when it is created.
struct SchedEnvironment {
  int32_t max_requests = 0;
  int32_t block_token_count = 0;
  int32_t block_count = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t max_num_seqs = 0;
};

class SchedAdapter final : public SchedulePolicy, private PolicyInstance::Services {
 public:
  // `policy` is of kind INFLIGHT_KIND_SCHED.   ERRORS: InvalidArgument (parameters), Plugin (create failed).
  SchedAdapter(const inflight_policy_t& policy, const PluginConfig& config, const SchedEnvironment& environment,
               const PolicyOptions& options);

  [[nodiscard]] Ranking ranking() const override;
  bool rank(const StepView& view, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) override;
  [[nodiscard]] bool looks_at_prefixes() const override;
  [[nodiscard]] uint32_t wanted_events() const override;
  void on_events(std::span<const SchedulerEvent> events) override;
  [[nodiscard]] bool limits_steps() const override;
  void limit_step(const StepView& view, StepLimits& limits) override;
  [[nodiscard]] bool names_victims() const { return ops_.pick_victims != nullptr; }
  [[nodiscard]] bool decides_admission() const override;
  void admit(const StepView& view, const Candidate& candidate, Admission& admission) override;
  [[nodiscard]] bool preempts() const override;
  void pick_victims(const StepView& view, const Need& need, std::vector<Sequence*>& victims) override;
  void on_liveness_fault(LivenessFault fault) override;

  [[nodiscard]] const PolicyInstance& instance() const { return instance_; }
  [[nodiscard]] PolicyInstance& instance() { return instance_; }
  // See PolicyInstance::set_parameters().
  void set_parameters(const std::vector<std::pair<std::string, std::string>>& given, TimeNs now) {
    instance_.set_parameters(ops_.set_param, given, now);
  }

 private:
  // Fills step_ from the view; the columns of `waiting` and of the running sequences only if the policy reads them.
  void fill_step(const StepView& view, std::span<Sequence* const> waiting);
  bool score(const StepView& view, std::span<WaitingKey> keys);
  bool order(const StepView& view, std::span<WaitingKey> keys);
  [[nodiscard]] std::optional<uint32_t> stored_tokens(uint32_t slot) const override;
  [[nodiscard]] TimeNs estimate(const StepWork& work) const override;
  [[nodiscard]] std::optional<uint32_t> parent_of(uint32_t unit) const override;
  void describe(std::string_view op, nlohmann::ordered_json& json) const override;
  // In this step nobody new can start because of `op`.
  void holds_back(const char* op) {
    held_back_by_ = op;
    held_back_step_ = step_.step;
  }
  // The op that a liveness fault is laid to: the one that held back in this step, else `likely`, or one that it has.
  [[nodiscard]] const char* op_to_blame(const char* likely) const;
  // True when indices are below `count` and none repeats.
  bool check_indices(const char* op, std::span<const uint32_t> indices, size_t count);

  const inflight_sched_ops_t& ops_;
  PolicyInstance instance_;
  RequestColumns waiting_, running_;
  inflight_step_t step_{};
  const StepView* view_ = nullptr;             // of the call in progress
  const inflight_events_t* events_ = nullptr;  // of the on_events in progress
  TimeNs last_now_ = 0;
  uint64_t last_idle_step_ = 0;  // the last step in which it let nothing run
  int idle_steps_ = 0;           // and how many there were in a row
  const char* held_back_by_ = nullptr;
  uint64_t held_back_step_ = 0;
  bool holds_newcomers_ = false;  // waiting_: only those that were ranked
  std::vector<int64_t> key0_, key1_;
  mutable std::vector<BlockId> matched_;  // scratch of stored_tokens()
  std::vector<uint32_t> indices_;
  std::vector<uint64_t> seen_;  // by index: generation of the last check that saw it
  uint64_t generation_ = 0;
  alignas(64) std::array<std::byte, 4096> scratch_{};
};

}  // namespace inflight
