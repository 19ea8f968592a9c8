// SPDX-License-Identifier: Apache-2.0
// A policy on trial: it is asked everything that the one in force is asked and hears the same events, but only the
// answers of the one in force count. How often they differ is counted; each mistake is the candidate's own.
// THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin_host/evict_adapter.h"
#include "plugin_host/sched_adapter.h"

namespace inflight {

struct ShadowCounts {
  int64_t steps = 0;
  // Decisions that both took, and those on which they did not agree.
  struct Compared {
    int64_t all = 0;
    int64_t differing = 0;
    uint64_t first_step = 0;  // of a difference; 0: none
  };
  Compared order, limits, admissions, victims;
};

class ShadowSchedule final : public SchedulePolicy {
 public:
  // Both are borrowed. The first call is Scheduler::set_policy(), whose Attach events are the candidate's alone.
  ShadowSchedule(SchedAdapter& in_force, SchedAdapter& candidate) : in_force_(in_force), candidate_(candidate) {}

  [[nodiscard]] const ShadowCounts& counts() const { return counts_; }
  // The candidate has made no mistake.
  [[nodiscard]] bool good() const {
    return candidate_.instance().active() && candidate_.instance().strike_count() == 0;
  }

  [[nodiscard]] Ranking ranking() const override;
  bool rank(const StepView& view, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) override;
  [[nodiscard]] bool looks_at_prefixes() const override;
  [[nodiscard]] bool limits_steps() const override { return in_force_.limits_steps() || candidate_.limits_steps(); }
  [[nodiscard]] uint32_t wanted_events() const override;
  void on_events(std::span<const SchedulerEvent> events) override;
  void limit_step(const StepView& view, StepLimits& limits) override;
  [[nodiscard]] bool decides_admission() const override;
  [[nodiscard]] bool preempts() const override;
  void admit(const StepView& view, const Candidate& candidate, Admission& admission) override;
  void pick_victims(const StepView& view, const Need& need, std::vector<Sequence*>& victims) override;
  void on_liveness_fault(LivenessFault fault) override;

 private:
  void compared(ShadowCounts::Compared& counts, bool same, uint64_t step);
  void sorted(std::span<Sequence* const> waiting, std::span<const WaitingKey> keys, std::vector<uint64_t>& ids);

  SchedAdapter& in_force_;
  SchedAdapter& candidate_;
  ShadowCounts counts_;
  bool state_handed_over_ = false;
  std::vector<WaitingKey> keys_;
  std::vector<uint64_t> order_, candidate_order_;
  std::vector<size_t> indices_;
  std::vector<SchedulerEvent> events_;
  std::vector<Sequence*> victims_;
};

class ShadowEvict final : public EvictPolicy {
 public:
  // Both are borrowed. KvBlocks::set_policy() comes first, then announced(): until then only the candidate is told.
  ShadowEvict(EvictAdapter& in_force, EvictAdapter& candidate) : in_force_(in_force), candidate_(candidate) {}
  void announced();

  [[nodiscard]] const ShadowCounts& counts() const { return counts_; }  // order: pairs of blocks ranked one by one
  [[nodiscard]] bool good() const {
    return candidate_.instance().active() && candidate_.instance().strike_count() == 0;
  }

  void set_time(TimeNs now, uint64_t step) override;
  void on_insert(std::span<const BlockId> blocks) override;
  void on_hit(std::span<const BlockId> blocks) override;
  void on_pin(std::span<const BlockId> blocks) override;
  void on_release(std::span<const BlockId> blocks) override;
  void on_evict(BlockId block) override;
  [[nodiscard]] bool keeps_order() const override;
  [[nodiscard]] bool ranks() const override { return in_force_.ranks(); }
  [[nodiscard]] EvictKey rank(BlockId block, int64_t release_tick) override;
  void pick(int32_t need, std::vector<BlockId>& out) override;

 private:
  EvictAdapter& in_force_;
  EvictAdapter& candidate_;
  ShadowCounts counts_;
  bool announcing_ = true;
  TimeNs now_ = 0;
  uint64_t step_ = 0;
  bool ranked_before_ = false;
  EvictKey last_key_, candidate_last_key_;
  std::vector<BlockId> picked_;
};

}  // namespace inflight
