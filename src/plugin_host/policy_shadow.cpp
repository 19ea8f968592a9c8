// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_shadow.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "plugin_host/policy_state.h"

namespace inflight {

void ShadowSchedule::compared(ShadowCounts::Compared& counts, bool same, uint64_t step) {
  ++counts.all;
  if (same) return;
  ++counts.differing;
  if (counts.first_step == 0) counts.first_step = step;
}

// One that ranks once is content to be asked again: its keys do not change.
SchedulePolicy::Ranking ShadowSchedule::ranking() const { return std::max(in_force_.ranking(), candidate_.ranking()); }

void ShadowSchedule::sorted(std::span<Sequence* const> waiting, std::span<const WaitingKey> keys,
                            std::vector<uint64_t>& ids) {
  indices_.resize(waiting.size());
  std::iota(indices_.begin(), indices_.end(), size_t{0});
  const auto rank_of = [&](size_t i) {
    return std::tuple(keys[i].key0, keys[i].key1, to_integer(waiting[i]->request.id));
  };
  std::ranges::sort(indices_, {}, rank_of);
  ids.clear();
  for (const size_t i : indices_) ids.push_back(to_integer(waiting[i]->request.id));
}

bool ShadowSchedule::rank(const StepView& view, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) {
  keys_.assign(keys.size(), WaitingKey{});
  const auto ask = [&](SchedAdapter& policy, std::span<WaitingKey> to) {
    const bool answered = policy.ranking() == Ranking::Arrival || policy.rank(view, waiting, to);
    if (!answered) std::ranges::fill(to, WaitingKey{});
    return answered;
  };
  ask(candidate_, keys_);
  const bool answered = ask(in_force_, keys);
  sorted(waiting, keys, order_);
  sorted(waiting, keys_, candidate_order_);
  compared(counts_.order, order_ == candidate_order_, view.step);
  return answered;
}

bool ShadowSchedule::looks_at_prefixes() const {
  return in_force_.looks_at_prefixes() || candidate_.looks_at_prefixes();
}

uint32_t ShadowSchedule::wanted_events() const { return in_force_.wanted_events() | candidate_.wanted_events(); }

void ShadowSchedule::on_events(std::span<const SchedulerEvent> events) {
  constexpr uint32_t kAttach = 1U << static_cast<uint32_t>(EventType::Attach);
  const auto tell = [&](SchedAdapter& policy, uint32_t wanted) {
    events_.clear();
    std::ranges::copy_if(events, std::back_inserter(events_), [wanted](const SchedulerEvent& event) {
      return (wanted >> static_cast<uint32_t>(event.type) & 1U) != 0;
    });
    if (!events_.empty()) policy.on_events(events_);
  };
  tell(in_force_, in_force_.wanted_events() & ~kAttach);
  tell(candidate_, candidate_.wanted_events());
}

void ShadowSchedule::limit_step(const StepView& view, StepLimits& limits) {
  if (!state_handed_over_) {  // after the Attach events, as plugin.h says of load()
    state_handed_over_ = true;
    if (can_hand_over_state(in_force_.instance(), candidate_.instance())) {
      static_cast<void>(hand_over_state(in_force_.instance(), candidate_.instance(), view.now));
    }
  }
  ++counts_.steps;
  StepLimits wished = limits;
  candidate_.limit_step(view, wished);
  in_force_.limit_step(view, limits);
  const auto all = [](const StepLimits& it) {
    return std::tuple(it.token_budget, it.prefill_tokens, it.chunk, it.admissions, it.shape, it.reserve_ratio);
  };
  compared(counts_.limits, all(wished) == all(limits), view.step);
}

bool ShadowSchedule::decides_admission() const {
  return in_force_.decides_admission() || candidate_.decides_admission();
}
bool ShadowSchedule::preempts() const { return in_force_.preempts(); }

void ShadowSchedule::admit(const StepView& view, const Candidate& candidate, Admission& admission) {
  Admission wished = admission;
  if (candidate_.decides_admission()) candidate_.admit(view, candidate, wished);
  if (in_force_.decides_admission()) in_force_.admit(view, candidate, admission);
  const bool same = wished.decision == admission.decision && wished.max_tokens == admission.max_tokens;
  compared(counts_.admissions, same, view.step);
}

void ShadowSchedule::pick_victims(const StepView& view, const Need& need, std::vector<Sequence*>& victims) {
  victims_.clear();
  candidate_.pick_victims(view, need, victims_);
  const size_t before = victims.size();
  in_force_.pick_victims(view, need, victims);
  // Whoever would go first is what matters; none is "the built-in decides".
  const auto first = [&view](std::span<Sequence* const> named) -> const Sequence* {
    for (const Sequence* one : named) {
      if (one != view.running.front()) return one;  // the oldest is passed over
    }
    return nullptr;
  };
  compared(counts_.victims, first(std::span<Sequence* const>(victims).subspan(before)) == first(victims_), view.step);
}

void ShadowSchedule::on_liveness_fault(LivenessFault fault) { in_force_.on_liveness_fault(fault); }

void ShadowEvict::announced() {
  announcing_ = false;
  if (can_hand_over_state(in_force_.instance(), candidate_.instance())) {
    static_cast<void>(hand_over_state(in_force_.instance(), candidate_.instance(), now_));
  }
}

void ShadowEvict::set_time(TimeNs now, uint64_t step) {
  now_ = now;
  candidate_.set_time(now, step);
  if (!announcing_) {
    counts_.steps += step != step_;
    in_force_.set_time(now, step);
  }
  step_ = step;
}

void ShadowEvict::on_insert(std::span<const BlockId> blocks) {
  candidate_.on_insert(blocks);
  if (!announcing_) in_force_.on_insert(blocks);
}
void ShadowEvict::on_hit(std::span<const BlockId> blocks) {
  candidate_.on_hit(blocks);
  in_force_.on_hit(blocks);
}
void ShadowEvict::on_pin(std::span<const BlockId> blocks) {
  candidate_.on_pin(blocks);
  in_force_.on_pin(blocks);
}
void ShadowEvict::on_release(std::span<const BlockId> blocks) {
  candidate_.on_release(blocks);
  if (!announcing_) in_force_.on_release(blocks);
}
void ShadowEvict::on_evict(BlockId block) {
  // One in force that ranks is not asked to pick, so whom the candidate would pick is asked here.
  if (candidate_.keeps_order() && !in_force_.keeps_order()) {
    picked_.clear();
    candidate_.pick(1, picked_);
    ++counts_.victims.all;
    if (picked_.empty() || picked_.front() != block) ++counts_.victims.differing;
  }
  candidate_.on_evict(block);
  in_force_.on_evict(block);
}

bool ShadowEvict::keeps_order() const { return in_force_.keeps_order(); }

EvictKey ShadowEvict::rank(BlockId block, int64_t release_tick) {
  const EvictKey key = in_force_.rank(block, release_tick);
  if (candidate_.keeps_order()) return key;
  const EvictKey other = candidate_.rank(block, release_tick);
  const auto sooner = [](const EvictKey& a, const EvictKey& b) {
    return std::tuple(a.key0, a.key1) < std::tuple(b.key0, b.key1);
  };
  if (ranked_before_) {
    ++counts_.order.all;
    if (sooner(key, last_key_) != sooner(other, candidate_last_key_)) ++counts_.order.differing;
  }
  ranked_before_ = true;
  last_key_ = key;
  candidate_last_key_ = other;
  return key;
}

void ShadowEvict::pick(int32_t need, std::vector<BlockId>& out) {
  const size_t before = out.size();
  in_force_.pick(need, out);
  if (!candidate_.keeps_order()) return;
  picked_.clear();
  candidate_.pick(need, picked_);
  ++counts_.victims.all;
  const bool none = out.size() == before;
  const bool same = none == picked_.empty() && (none || out[before] == picked_.front());
  if (!same) ++counts_.victims.differing;
}

}  // namespace inflight
