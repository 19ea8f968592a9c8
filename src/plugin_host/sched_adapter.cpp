// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/sched_adapter.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/limits.h"
#include "plugin_host/policy_report.h"

namespace inflight {
namespace {

static_assert(sizeof(SchedulerEvent) == sizeof(inflight_event_t) &&
              offsetof(SchedulerEvent, slot) == offsetof(inflight_event_t, slot) &&
              offsetof(SchedulerEvent, request) == offsetof(inflight_event_t, request) &&
              offsetof(SchedulerEvent, time) == offsetof(inflight_event_t, time_ns) &&
              offsetof(SchedulerEvent, c) == offsetof(inflight_event_t, c));
static_assert(static_cast<uint32_t>(EventType::Attach) == INFLIGHT_EVENT_ATTACH &&
              static_cast<uint32_t>(EventType::Step) == INFLIGHT_EVENT_STEP &&
              static_cast<uint32_t>(EventType::Param) == INFLIGHT_EVENT_PARAM);
static_assert(static_cast<uint32_t>(NeedReason::Priority) == INFLIGHT_NEED_PRIORITY);

// A wish of the policy as a limit: cut to what int32 holds; the scheduler cuts it to what is possible.
int32_t limit(uint32_t value) {
  return static_cast<int32_t>(std::min<uint32_t>(value, std::numeric_limits<int32_t>::max()));
}

}  // namespace

SchedAdapter::SchedAdapter(const inflight_policy_t& policy, const PluginConfig& config,
                           const SchedEnvironment& environment, const PolicyOptions& options)
    : ops_(*policy.sched), instance_(policy, options) {
  const inflight_sched_environment_t given{.struct_size = sizeof(inflight_sched_environment_t),
                                           .max_requests = to_count(environment.max_requests),
                                           .max_tenants = limits::kTenantsMax,
                                           .block_tokens = to_count(environment.block_token_count),
                                           .total_blocks = to_count(environment.block_count),
                                           .max_step_tokens = to_count(environment.max_num_batched_tokens),
                                           .max_running = to_count(environment.max_num_seqs),
                                           .reserved = 0,
                                           .seed = options.seed};
  instance_.create([&](void** self) { return ops_.create(&instance_.host(), &given, &config.config(), self); });
  instance_.set_services(this);
}

void SchedAdapter::fill_step(const StepView& view, std::span<Sequence* const> waiting) {
  const uint32_t columns = instance_.policy().request_columns;
  instance_.at_step(view.step);
  holds_newcomers_ = false;
  waiting_.fill(waiting, columns, *view.blocks);
  running_.fill(view.running, columns, *view.blocks);
  view_ = &view;
  last_now_ = view.now;
  const BlockPool& pool = view.blocks->pool();
  step_ = {.struct_size = sizeof(step_),
           .flags = 0,
           .step = view.step,
           .now_ns = view.now,
           .max_step_tokens = to_count(view.config->max_num_batched_tokens),
           .max_step_sequences = to_count(view.config->max_num_seqs),
           .max_running = to_count(view.config->max_num_seqs),
           .block_tokens = to_count(view.blocks->block_token_count()),
           .free_blocks = to_count(pool.free_count()),
           .evictable_blocks = to_count(pool.stored_count()),
           .total_blocks = to_count(pool.block_count()),
           .watermark_blocks = 0,
           .tokens_left = to_count(view.tokens_left),
           .sequences_left = to_count(view.sequences_left),
           .prefilling = to_count(view.prefilling_count),
           .decoding = to_count(static_cast<int32_t>(view.running.size()) - view.prefilling_count),
           .last_step_ns = view.last_step_duration,
           .last_prefill_tokens = to_count(view.last_prefill_tokens),
           .last_decode_sequences = to_count(view.last_decode_sequences),
           .reserve_ratio = view.reserve_ratio,
           .waiting = &waiting_.view(),
           .running = &running_.view(),
           .scratch = scratch_.data(),
           .scratch_bytes = scratch_.size()};
}

std::optional<uint32_t> SchedAdapter::stored_tokens(uint32_t slot) const {
  if (view_ == nullptr) return std::nullopt;
  const std::optional<size_t> row = waiting_.row_of(slot);
  if (!row) return std::nullopt;
  const Sequence& sequence = *waiting_.sequences()[*row];
  const int32_t width = view_->blocks->block_token_count();
  const std::span keys = std::span(sequence.keys).first(sequence.skippable_block_count(width));
  matched_.clear();
  view_->blocks->match(sequence.request.cache_salt, keys, sequence.tokens, matched_);
  return to_count(width) * static_cast<uint32_t>(matched_.size());
}

TimeNs SchedAdapter::estimate(const StepWork& work) const {
  return view_ == nullptr ? 0 : view_->latency->estimate(work);
}

std::optional<uint32_t> SchedAdapter::parent_of(uint32_t unit) const {
  if (view_ == nullptr) return std::nullopt;
  return stored_parent(*view_->blocks, unit);
}

SchedulePolicy::Ranking SchedAdapter::ranking() const {
  if (!instance_.active() || (ops_.score == nullptr && ops_.order == nullptr)) return Ranking::Arrival;
  const bool stable = (instance_.policy().capabilities & INFLIGHT_CAP_STABLE_KEYS) != 0 && ops_.order == nullptr;
  return stable ? Ranking::Stable : Ranking::EveryStep;
}

bool SchedAdapter::rank(const StepView& view, std::span<Sequence* const> waiting, std::span<WaitingKey> keys) {
  fill_step(view, waiting);
  holds_newcomers_ = ranking() == Ranking::Stable;
  return ops_.order != nullptr ? order(view, keys) : score(view, keys);
}

bool SchedAdapter::score(const StepView& view, std::span<WaitingKey> keys) {
  key0_.assign(keys.size(), kUnwrittenKey);
  key1_.assign(keys.size(), 0);
  const bool answered = instance_.call(
      "score", view.now, [&] { return ops_.score(instance_.self(), &step_, key0_.data(), key1_.data()); });
  if (!answered) return false;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (key0_[i] == kUnwrittenKey) {
      instance_.strike("score", fmt::format("left the key of request {} unwritten", waiting_.view().id[i]));
      return false;
    }
    keys[i] = {key0_[i], key1_[i]};
  }
  return true;
}

bool SchedAdapter::check_indices(const char* op, std::span<const uint32_t> indices, size_t count) {
  seen_.resize(std::max(seen_.size(), count), 0);
  ++generation_;
  for (const uint32_t index : indices) {
    if (index >= count) {
      instance_.strike(op, fmt::format("gave the index {}, allowed: below {}", index, count));
      return false;
    }
    if (seen_[index] == generation_) {
      instance_.strike(op, fmt::format("gave the index {} twice", index));
      return false;
    }
    seen_[index] = generation_;
  }
  return true;
}

bool SchedAdapter::order(const StepView& view, std::span<WaitingKey> keys) {
  indices_.resize(keys.size());
  auto given = static_cast<uint32_t>(keys.size());
  const bool answered =
      instance_.call("order", view.now, [&] { return ops_.order(instance_.self(), &step_, indices_.data(), &given); });
  if (!answered) return false;
  if (given > keys.size()) {
    instance_.strike("order", fmt::format("gave {} indices, there was room for {}", given, keys.size()));
    return false;
  }
  if (!check_indices("order", std::span(indices_).first(given), keys.size())) return false;
  std::ranges::fill(keys, WaitingKey{.key0 = given, .key1 = 0});  // not named: behind, in order of arrival
  for (uint32_t i = 0; i < given; ++i) keys[indices_[i]].key0 = i;
  return true;
}

bool SchedAdapter::looks_at_prefixes() const {
  return instance_.active() && (instance_.policy().request_columns & INFLIGHT_COLUMN_CACHED) != 0;
}

uint32_t SchedAdapter::wanted_events() const {
  return instance_.active() && ops_.on_events != nullptr ? instance_.policy().events : 0;
}

void SchedAdapter::on_events(std::span<const SchedulerEvent> events) {
  const inflight_events_t given{.struct_size = sizeof(inflight_events_t),
                                .count = static_cast<uint32_t>(events.size()),
                                .stride = sizeof(SchedulerEvent),
                                .reserved = 0,
                                .events = reinterpret_cast<const inflight_event_t*>(events.data())};
  last_now_ = events.back().time;
  events_ = &given;
  instance_.call("on_events", last_now_, [&] { return ops_.on_events(instance_.self(), &given); });
  events_ = nullptr;
}

bool SchedAdapter::limits_steps() const { return instance_.active() && ops_.plan != nullptr; }

void SchedAdapter::limit_step(const StepView& view, StepLimits& limits) {
  if (!instance_.active() || ops_.plan == nullptr) return;
  fill_step(view, view.waiting);
  inflight_plan_t plan{
      .struct_size = sizeof(inflight_plan_t),
      .flags = limits.shape == StepShape::PrefillOnly ? INFLIGHT_PLAN_PREFILL_ONLY : INFLIGHT_PLAN_DECODE_FIRST,
      .step_tokens = to_count(limits.token_budget),
      .prefill_tokens = to_count(limits.prefill_tokens),
      .max_chunk = to_count(limits.chunk),
      .max_admit = to_count(limits.admissions),
      .reserve_ratio = limits.reserve_ratio};
  if (!instance_.call("plan", view.now, [&] { return ops_.plan(instance_.self(), &step_, &plan); })) return;
  if (!(plan.reserve_ratio >= 0.0 && plan.reserve_ratio <= 1.0)) {
    instance_.strike("plan", fmt::format("gave the reserve_ratio {}, allowed: 0 to 1", plan.reserve_ratio));
    return;
  }
  limits.reserve_ratio = plan.reserve_ratio;
  limits.token_budget = limit(plan.step_tokens);
  limits.prefill_tokens = limit(plan.prefill_tokens);
  limits.chunk = limit(plan.max_chunk);
  limits.shape = (plan.flags & INFLIGHT_PLAN_PREFILL_ONLY) != 0 ? StepShape::PrefillOnly : StepShape::DecodeFirst;
  const bool host_admits = limits.admissions > 0;
  limits.admissions = (plan.flags & INFLIGHT_PLAN_NO_ADMIT) != 0 ? 0 : limit(plan.max_admit);
  if ((host_admits && limits.admissions == 0) || limits.prefill_tokens == 0) holds_back("plan");
}

bool SchedAdapter::decides_admission() const { return instance_.active() && ops_.admit != nullptr; }

void SchedAdapter::admit(const StepView& view, const Candidate& candidate, Admission& admission) {
  // The view of this pass, with what is left now; the candidate is looked up in the snapshot of all that wait.
  const uint32_t slot = to_count(candidate.sequence->slot);
  const bool of_now = view_ != nullptr && step_.step == view.step && step_.now_ns == view.now;
  if (!of_now || holds_newcomers_ || !waiting_.row_of(slot)) fill_step(view, view.waiting);
  const std::optional<size_t> row = waiting_.row_of(slot);
  INFLIGHT_CHECK(row);
  step_.tokens_left = to_count(view.tokens_left);
  step_.sequences_left = to_count(view.sequences_left);
  step_.free_blocks = to_count(view.blocks->pool().free_count());
  step_.evictable_blocks = to_count(view.blocks->pool().stored_count());
  const inflight_candidate_t given{.struct_size = sizeof(inflight_candidate_t),
                                   .index = static_cast<uint32_t>(*row),
                                   .uncached_tokens = to_count(candidate.uncached_tokens),
                                   .cached_tokens = to_count(candidate.cached_tokens),
                                   .blocks_now = to_count(candidate.blocks_now),
                                   .blocks_full = to_count(candidate.blocks_full)};
  inflight_admission_t answer{.struct_size = sizeof(inflight_admission_t),
                              .decision = INFLIGHT_ADMIT,
                              .max_tokens = to_count(admission.max_tokens),
                              .reserve_blocks = 0,
                              .reason = 0,
                              .reserved = 0};
  if (!instance_.call("admit", view.now, [&] { return ops_.admit(instance_.self(), &step_, &given, &answer); })) return;
  const auto allowed = [this](const char* decision, uint64_t capability) {
    const bool yes = (instance_.policy().capabilities & capability) != 0;
    if (!yes) instance_.strike("admit", fmt::format("gave {}, which its capabilities do not claim", decision));
    return yes;
  };
  switch (answer.decision) {
    case INFLIGHT_ADMIT:
      admission.max_tokens = limit(answer.max_tokens);
      return;
    case INFLIGHT_ADMIT_SKIP:
      admission.decision = Decision::Skip;
      holds_back("admit");
      return;
    case INFLIGHT_ADMIT_STOP:
      admission.decision = Decision::Stop;
      holds_back("admit");
      return;
    case INFLIGHT_ADMIT_REJECT:
      if (allowed("REJECT", INFLIGHT_CAP_REJECT)) admission.decision = Decision::Reject;
      return;
    case INFLIGHT_ADMIT_PREEMPT:
      if (allowed("PREEMPT", INFLIGHT_CAP_PREEMPTS)) admission.decision = Decision::Preempt;
      return;
    default:
      instance_.strike("admit", fmt::format("gave the unknown decision {}", answer.decision));
  }
}

bool SchedAdapter::preempts() const {
  return decides_admission() && (instance_.policy().capabilities & INFLIGHT_CAP_PREEMPTS) != 0;
}

void SchedAdapter::pick_victims(const StepView& view, const Need& need, std::vector<Sequence*>& victims) {
  if (!instance_.active() || ops_.pick_victims == nullptr) return;
  fill_step(view, {});  // thousands may wait, and a pressed step asks several times
  const inflight_need_t given{.struct_size = sizeof(inflight_need_t),
                              .why = static_cast<uint32_t>(need.reason),
                              .blocks = to_count(need.blocks),
                              .for_slot = to_count(need.sequence->slot),
                              .for_request = to_integer(need.sequence->id)};
  indices_.resize(view.running.size());
  auto named = static_cast<uint32_t>(indices_.size());
  const bool answered = instance_.call("pick_victims", view.now, [&] {
    return ops_.pick_victims(instance_.self(), &step_, &given, indices_.data(), &named);
  });
  if (!answered) return;
  if (named > indices_.size()) {
    instance_.strike("pick_victims", fmt::format("gave {} indices, there was room for {}", named, indices_.size()));
    return;
  }
  if (!check_indices("pick_victims", std::span(indices_).first(named), indices_.size())) return;
  for (uint32_t i = 0; i < named; ++i) victims.push_back(view.running[indices_[i]]);
}

void SchedAdapter::describe(std::string_view op, nlohmann::ordered_json& json) const {
  if (op == "on_events") {
    if (events_ != nullptr) json["events"] = to_json(*events_);
    return;
  }
  if (step_.waiting == nullptr) return;  // nothing was asked yet
  json["step"] = to_json(step_);
  const auto rows = [](const auto& values) {
    return std::vector(values.begin(),
                       values.begin() + static_cast<ptrdiff_t>(std::min<size_t>(values.size(), kReportRowsMax)));
  };
  if (op == "score") json["answer"] = {{"key0", rows(key0_)}, {"key1", rows(key1_)}};
  if (op == "order" || op == "pick_victims") json["answer"] = {{"index", rows(indices_)}};
}

const char* SchedAdapter::op_to_blame(const char* likely) const {
  if (held_back_by_ != nullptr && held_back_step_ == step_.step) return held_back_by_;
  return likely != nullptr ? likely : ops_.plan != nullptr ? "plan" : "admit";
}

void SchedAdapter::on_liveness_fault(LivenessFault fault) {
  // Nothing is scheduled once in a while: a strike. Step after step, or somebody starves: out.
  const char* const ranks = ops_.order != nullptr ? "order" : ops_.score != nullptr ? "score" : nullptr;
  if (fault == LivenessFault::NoProgress) {
    constexpr int kNoProgressMax = 3;
    const bool again = step_.step == last_idle_step_ + 1;
    idle_steps_ = again ? idle_steps_ + 1 : 1;
    last_idle_step_ = step_.step;
    const char* const op = op_to_blame(ops_.plan != nullptr ? "plan" : ranks);
    constexpr const char* kWhy = "let nothing run, though something could have";
    if (idle_steps_ >= kNoProgressMax) {
      instance_.eject(INFLIGHT_EXIT_NO_PROGRESS, op, kWhy);
    } else {
      instance_.strike(op, kWhy, INFLIGHT_EXIT_NO_PROGRESS);
    }
  } else {
    instance_.eject(INFLIGHT_EXIT_STARVATION, op_to_blame(ranks),
                    fmt::format("kept the first request waiting for more than {} s with room for it",
                                limits::kStarvationNs / 1'000'000'000));
  }
}

}  // namespace inflight
