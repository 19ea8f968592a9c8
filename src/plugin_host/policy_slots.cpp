// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_slots.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "plugin_host/plugin_module.h"
#include "plugin_host/plugin_registry.h"

namespace inflight {
namespace {

void check_values(const inflight_policy_t& policy, const PolicySpec& spec) {
  for (const auto& [key, value] : spec.parameters) {
    static_cast<void>(parse_parameter(policy, changeable_parameter(policy, key), value));
  }
}

}  // namespace

template <typename Adapter, typename Shadow>
PolicySlots::Trial<Adapter, Shadow>::Trial(Adapter& in_force, std::unique_ptr<Adapter> on_trial)
    : candidate(std::move(on_trial)), shadow(in_force, *candidate) {
  const PluginModule* const module = candidate->instance().options().module;
  steps_wanted = module != nullptr && module->is_file() ? kShadowSteps : 1;
}

PolicySlots::PolicySlots(std::unique_ptr<SchedAdapter> schedule, std::unique_ptr<EvictAdapter> eviction)
    : schedule_(std::move(schedule)), eviction_(std::move(eviction)) {}
PolicySlots::~PolicySlots() = default;

void PolicySlots::connect(Scheduler& scheduler, KvBlocks& blocks) {
  scheduler_ = &scheduler;
  blocks_ = &blocks;
  eviction_->attach(blocks, scheduler.latency_model());
}

void PolicySlots::replace(std::unique_ptr<SchedAdapter> candidate, TimeNs now) {
  if (schedule_trial_) {
    scheduler_->hand_policy_back(*schedule_);
    schedule_trial_.reset();
  }
  schedule_trial_ = std::make_unique<ScheduleTrial>(*schedule_, std::move(candidate));
  scheduler_->set_policy(schedule_trial_->shadow, now);
}

void PolicySlots::replace(std::unique_ptr<EvictAdapter> candidate, TimeNs) {
  if (eviction_trial_) {
    blocks_->hand_policy_to(*eviction_);
    eviction_trial_.reset();
  }
  candidate->attach(*blocks_, scheduler_->latency_model());
  eviction_trial_ = std::make_unique<EvictionTrial>(*eviction_, std::move(candidate));
  blocks_->set_policy(eviction_trial_->shadow);
  eviction_trial_->shadow.announced();
}

template <typename Adapter, typename TrialType, typename HandOver>
void PolicySlots::end_trial(std::unique_ptr<Adapter>& in_force, std::unique_ptr<TrialType>& trial,
                            HandOver&& hand_over) {
  const ShadowCounts& counts = trial->shadow.counts();
  const bool good = trial->shadow.good();
  if (good && counts.steps < trial->steps_wanted) return;
  PolicyInstance& candidate = trial->candidate->instance();
  last_swap_ = {.from = in_force->instance().policy().id,
                .to = candidate.policy().id,
                .taken_over = good,
                .why_not = good ? "" : "it made a mistake while it was on trial",
                .counts = counts};
  if (!candidate.active()) last_swap_->why_not = candidate.exit_message();
  hand_over(good ? *trial->candidate : *in_force);
  if (good) {
    log(LogLevel::Info, "policy {} takes over from {} after {} steps beside it; other orders: {} of {}", last_swap_->to,
        last_swap_->from, counts.steps, counts.order.differing, counts.order.all);
    in_force->instance().set_leave_reason(INFLIGHT_EXIT_SWAP);
    std::swap(in_force, trial->candidate);
    ++takeovers_;
  } else {
    log(LogLevel::Warning, "policy {} does not take over, {} stays: {}", last_swap_->to, last_swap_->from,
        last_swap_->why_not);
  }
  retired_strikes_ += trial->candidate->instance().strike_count();
  trial.reset();
}

PolicySlots::Named PolicySlots::resolve(const std::string& text) {
  const PolicySpec spec = parse_policy_spec(text);
  PluginRegistry& registry = plugin_registry();
  return {spec, registry.search(spec, INFLIGHT_KIND_SCHED), registry.search(spec, INFLIGHT_KIND_EVICT)};
}

void PolicySlots::check_parameters(const Named& named) {
  if (named.schedules != nullptr && named.evicts != nullptr) return;
  const uint32_t kind = plugin_registry().kind_of(named.spec);  // tells where there is none
  check_values(kind == INFLIGHT_KIND_SCHED ? *named.schedules : *named.evicts, named.spec);
}

std::optional<uint32_t> PolicySlots::kind_in_force(const Named& named) const {
  const auto is = [](const PolicyInstance& instance, const inflight_policy_t* policy) {
    return instance.active() && policy != nullptr && std::string_view(instance.policy().id) == policy->id;
  };
  const bool schedules = is(schedule().instance(), named.schedules), evicts = is(eviction().instance(), named.evicts);
  if (schedules && evicts) {
    fail(ErrorCode::InvalidArgument, "'{}' names both that are in force, {} and {}: give the id of one",
         named.spec.name, named.schedules->id, named.evicts->id);
  }
  if (schedules) return INFLIGHT_KIND_SCHED;
  if (evicts) return INFLIGHT_KIND_EVICT;
  return std::nullopt;
}

void PolicySlots::set_parameters(const Named& named, TimeNs now) {
  const PolicySpec& spec = named.spec;
  const std::optional<uint32_t> kind = kind_in_force(named);
  if (!kind) {
    fail(ErrorCode::InvalidArgument, "{} is not in force, but {} and {} are", spec.name,
         schedule_->instance().policy().id, eviction_->instance().policy().id);
  }
  const auto set = [&](auto& adapter) {
    check_values(adapter.instance().policy(), spec);  // all of them, before the first is set
    adapter.set_parameters(spec.parameters, now);
  };
  if (*kind == INFLIGHT_KIND_SCHED) {
    set(*schedule_);
  } else {
    set(*eviction_);
  }
}

void PolicySlots::advance() {
  advance_schedule();
  advance_eviction();
}

void PolicySlots::advance_schedule() {
  if (!schedule_trial_) return;
  end_trial(schedule_, schedule_trial_, [this](SchedAdapter& policy) {
    const bool stays = &policy == schedule_.get();
    stays ? scheduler_->hand_policy_back(policy) : scheduler_->hand_policy_to(policy);
  });
}

void PolicySlots::advance_eviction() {
  if (!eviction_trial_) return;
  end_trial(eviction_, eviction_trial_, [this](EvictAdapter& policy) { blocks_->hand_policy_to(policy); });
}

void PolicySlots::end_trial(uint32_t kind) {
  if (kind == INFLIGHT_KIND_SCHED && schedule_trial_) {
    schedule_trial_->steps_wanted = 0;
    advance_schedule();
  }
  if (kind == INFLIGHT_KIND_EVICT && eviction_trial_) {
    eviction_trial_->steps_wanted = 0;
    advance_eviction();
  }
}

std::optional<PolicySlots::TrialView> PolicySlots::trial(uint32_t kind) const {
  if (kind == INFLIGHT_KIND_SCHED && schedule_trial_) {
    return TrialView{schedule_trial_->shadow.counts(), schedule_trial_->candidate->instance()};
  }
  if (kind == INFLIGHT_KIND_EVICT && eviction_trial_) {
    return TrialView{eviction_trial_->shadow.counts(), eviction_trial_->candidate->instance()};
  }
  return std::nullopt;
}

int64_t PolicySlots::strike_count() const {
  int64_t count = retired_strikes_ + schedule_->instance().strike_count() + eviction_->instance().strike_count();
  if (schedule_trial_) count += schedule_trial_->candidate->instance().strike_count();
  if (eviction_trial_) count += eviction_trial_->candidate->instance().strike_count();
  return count;
}

}  // namespace inflight
