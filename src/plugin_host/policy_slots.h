// SPDX-License-Identifier: Apache-2.0
// The two policies in force, and their replacement while requests run. A candidate first runs in the shadow of the one
// in force (policy_shadow.h): it learns of every request and every stored block, takes over the state when it can, and
// is asked the same for some steps. If it makes no mistake it takes over between two steps; if it makes one, the old
// one simply stays. Nothing is lost either way, since the scheduler owns everything.
// THREAD: the engine thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "plugin_host/plugin_config.h"
#include "plugin_host/policy_shadow.h"
#include "sched/scheduler.h"

namespace inflight {

// How a replacement ended.
struct SwapReport {
  std::string from, to;  // ids
  bool taken_over = false;
  std::string why_not;  // empty when taken over
  ShadowCounts counts;
};

class PolicySlots {
 public:
  PolicySlots(std::unique_ptr<SchedAdapter> schedule, std::unique_ptr<EvictAdapter> eviction);
  PolicySlots(const PolicySlots&) = delete;
  PolicySlots& operator=(const PolicySlots&) = delete;
  ~PolicySlots();
  // Once, before the first step. Both were made with schedule() and eviction() and are borrowed: no function of this
  // object may be called after their end, but its destructor.
  void connect(Scheduler& scheduler, KvBlocks& blocks);

  // In force.
  [[nodiscard]] SchedAdapter& schedule() { return *schedule_; }
  [[nodiscard]] EvictAdapter& eviction() { return *eviction_; }
  [[nodiscard]] const SchedAdapter& schedule() const { return *schedule_; }
  [[nodiscard]] const EvictAdapter& eviction() const { return *eviction_; }

  // Between two steps: begins the trial of a candidate; one already on trial is dropped. It ends in advance() after
  // kShadowSteps steps, or one step when the candidate is built in.
  void replace(std::unique_ptr<SchedAdapter> candidate, TimeNs now);
  void replace(std::unique_ptr<EvictAdapter> candidate, TimeNs now);
  // The policy of each kind that "name:key=value,..." names; null where there is none.
  struct Named {
    PolicySpec spec;
    const inflight_policy_t* schedules;
    const inflight_policy_t* evicts;
  };
  // THREAD: any, and not the engine's, since it may read folders and files.   ERRORS: as PluginRegistry::search().
  [[nodiscard]] static Named resolve(const std::string& spec);
  // The checks of set_parameters() as far as they do not depend on what is in force (as does what a name of both kinds
  // means).   THREAD: as resolve().   ERRORS: as set_parameters(); NotFound, Plugin.
  static void check_parameters(const Named& named);
  // The kind (INFLIGHT_KIND_*) of the policy in force that is named, if one is.
  // ERRORS: InvalidArgument (both that are in force have the name).
  [[nodiscard]] std::optional<uint32_t> kind_in_force(const Named& named) const;
  // Changes parameters of a policy in force.
  // ERRORS: InvalidArgument (not in force, no such parameter, not changeable, out of range, refused).
  void set_parameters(const Named& named, TimeNs now);
  // After every step: ends trials that are over.
  void advance();
  // The same for a policy of this kind (INFLIGHT_KIND_*), however short its trial was.
  void end_trial(uint32_t kind);

  [[nodiscard]] bool on_trial() const { return schedule_trial_ != nullptr || eviction_trial_ != nullptr; }
  struct TrialView {
    const ShadowCounts& counts;
    const PolicyInstance& candidate;
  };
  // The trial in progress of a policy of this kind (INFLIGHT_KIND_*).
  [[nodiscard]] std::optional<TrialView> trial(uint32_t kind) const;
  // Of all policies there were.
  [[nodiscard]] int64_t strike_count() const;
  // How often a policy has taken over.
  [[nodiscard]] int64_t takeover_count() const { return takeovers_; }
  // The last replacement that ended; absent before the first.
  [[nodiscard]] const std::optional<SwapReport>& last_swap() const { return last_swap_; }

  static constexpr int64_t kShadowSteps = 64;

 private:
  template <typename Adapter, typename Shadow>
  struct Trial {
    Trial(Adapter& in_force, std::unique_ptr<Adapter> on_trial);
    std::unique_ptr<Adapter> candidate;
    Shadow shadow;
    int64_t steps_wanted;
  };
  using ScheduleTrial = Trial<SchedAdapter, ShadowSchedule>;
  using EvictionTrial = Trial<EvictAdapter, ShadowEvict>;
  template <typename Adapter, typename TrialType, typename HandOver>
  void end_trial(std::unique_ptr<Adapter>& in_force, std::unique_ptr<TrialType>& trial, HandOver&& hand_over);
  void advance_schedule();
  void advance_eviction();

  std::unique_ptr<SchedAdapter> schedule_;
  std::unique_ptr<EvictAdapter> eviction_;
  std::unique_ptr<ScheduleTrial> schedule_trial_;
  std::unique_ptr<EvictionTrial> eviction_trial_;
  Scheduler* scheduler_ = nullptr;
  KvBlocks* blocks_ = nullptr;
  int64_t retired_strikes_ = 0;
  int64_t takeovers_ = 0;
  std::optional<SwapReport> last_swap_;
};

}  // namespace inflight
