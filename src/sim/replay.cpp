// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "plugin_host/plugin_registry.h"
#include "plugin_host/policies.h"
#include "plugin_host/policy_slots.h"
#include "sched/scheduler.h"

namespace inflight {
namespace {

std::string text_of(const std::vector<TracePlan::Entry>& entries) {
  std::string text;
  for (const TracePlan::Entry& entry : entries) {
    text +=
        fmt::format("{}{}:{}+{}", text.empty() ? "" : " ", to_integer(entry.sequence), entry.computed, entry.scheduled);
  }
  return text.empty() ? "(nothing)" : text;
}

class Replay {
 public:
  Replay(const SchedulerSetup& setup, const ReplayOptions& options)
      : setup_(setup),
        fixed_schedule_(!options.schedule_policy.empty()),
        fixed_eviction_(!options.eviction_policy.empty()),
        policies_(make_schedule_policy(fixed_schedule_ ? options.schedule_policy : setup.schedule_policy, setup,
                                       policy_options()),
                  make_eviction_policy(fixed_eviction_ ? options.eviction_policy : setup.eviction_policy, setup,
                                       policy_options())),
        blocks_(setup.blocks, policies_.eviction()),
        scheduler_(setup.config, blocks_, policies_.schedule()) {
    policies_.connect(scheduler_, blocks_);
    if (setup.latency) scheduler_.set_latency_model(LatencyModel(*setup.latency));
    if (options.shadow_policy.empty()) return;
    shadow_kind_ = kind_of(options.shadow_policy);
    replace_policy(options.shadow_policy, 0);
  }

  // False: the plans differ, see result().
  bool apply(const TraceRecord& record) {
    std::visit([&](const auto& content) { apply(content, record.time); }, record.content);
    scheduler_.output().clear();
    return !result_.difference;
  }

  [[nodiscard]] const ReplayResult& result() {
    if (const auto trial = policies_.trial(shadow_kind_)) {
      result_.shadow = trial->counts;
      result_.shadow_strikes = trial->candidate.strike_count();
      result_.shadow_fault = trial->candidate.exit_message();
    }
    if (!result_.difference) result_.unfinished = static_cast<int64_t>(unfinished_.size());
    return result_;
  }

 private:
  [[nodiscard]] PolicyOptions policy_options() const { return {.seed = setup_.seed}; }

  void apply(const TraceBegin&, TimeNs) {}
  void apply(const TraceFinish& finish, TimeNs) {
    const auto found = choice_of_.find(to_integer(finish.sequence));
    if (found == choice_of_.end()) return;
    const auto open = unfinished_.find(to_integer(found->second.first));
    if (open != unfinished_.end() && --open->second == 0) unfinished_.erase(open);
  }

  void apply(const TraceAdd& add, TimeNs now) {
    if (static_cast<int32_t>(add.request.prompt.size()) != add.prompt_token_count) {
      fail(ErrorCode::CorruptFile, "the recording holds no prompts; record with inputs to replay");
    }
    const int32_t most = prompt_tokens_max(setup_.config.max_model_len, add.request.pooling == Pooling::None);
    if (add.prompt_token_count < 1 || add.prompt_token_count > most) {
      fail(ErrorCode::CorruptFile, "the recording's request {} has {} prompt tokens, allowed: 1 to {}",
           to_integer(add.request.id), add.prompt_token_count, most);
    }
    if (!requests_.insert(to_integer(add.request.id)).second) {
      fail(ErrorCode::CorruptFile, "the recording's request {} comes twice", to_integer(add.request.id));
    }
    const int32_t slot = scheduler_.add(add.request, now);
    for (int32_t choice = 0; choice < add.request.sampling.choice_count(); ++choice) {
      choice_of_[to_integer(add.sequence) + static_cast<uint64_t>(choice)] = {add.request.id, choice};
    }
    unfinished_[to_integer(add.request.id)] = add.request.sampling.choice_count();
    ++result_.requests;
    if (scheduler_.sequence(slot).id != add.sequence) {
      fail(ErrorCode::CorruptFile, "the recording begins in the middle: sequence {} comes first",
           to_integer(add.sequence));
    }
  }

  void apply(const TraceCancel& cancel, TimeNs now) {
    const auto found = choice_of_.find(to_integer(cancel.sequence));
    if (found == choice_of_.end()) return;
    const auto& [request, choice] = found->second;
    if (cancel.whole_request) {
      scheduler_.cancel(request, cancel.reason, now);
    } else {
      scheduler_.cancel_choice(request, choice, cancel.reason, now);
    }
  }

  void apply(const TracePlan& recorded, TimeNs now) {
    const BatchPlan& plan = scheduler_.plan(now);
    std::vector<TracePlan::Entry> entries;
    Submitted submitted;
    for (const BatchEntry& entry : plan.entries) {
      entries.push_back({entry.sequence, entry.computed_token_count, entry.scheduled_token_count});
      if (entry.samples) submitted.sampled.push_back(entry.sequence);
      for (int32_t i = 0; i < entry.prompt_logprobs_wanted; ++i) {
        submitted.prompt_logprobs.push_back({.sequence = entry.sequence, .position = entry.first_told_position() + i});
      }
    }
    ++result_.plans;
    if (entries != recorded.entries) {
      result_.difference = {recorded.step, text_of(recorded.entries), text_of(entries)};
    }
    if (!plan.empty()) submitted_.push_back(std::move(submitted));
  }

  void apply(const TraceCommit& commit, TimeNs now) {
    if (submitted_.empty() || submitted_.front().sampled.size() != commit.tokens.size()) {
      fail(ErrorCode::CorruptFile, "the recording's result of step {} does not fit its plan", commit.step);
    }
    StepResult result{.step = commit.step, .sampled = {}, .duration = commit.duration};
    const std::vector<SequenceId>& rows = submitted_.front().sampled;
    for (size_t i = 0; i < commit.tokens.size(); ++i) {
      const TokenId token = commit.tokens[i];
      result.sampled.push_back({.sequence = rows[i], .token = token, .logprob = 0.0F, .valid = token >= 0});
    }
    std::vector<std::vector<TokenLogprob>> further(commit.following.size());
    for (size_t i = 0; i < further.size(); ++i) {
      const auto& [row, tokens, further_count] = commit.following[i];
      if (row >= result.sampled.size()) {
        fail(ErrorCode::CorruptFile, "the recording's further tokens of step {} have no row", commit.step);
      }
      for (size_t k = 0; k < further_count; ++k) further[i].push_back({tokens[k], 0.0F});
      result.sampled[row].further = further[i];
      result.sampled[row].forced = std::span(tokens).subspan(further_count);
    }
    for (const size_t row : commit.waking) {
      if (row >= result.sampled.size()) {
        fail(ErrorCode::CorruptFile, "the recording's filter that wakes in step {} has no row", commit.step);
      }
      result.sampled[row].filter_wakes = true;
    }
    result.prompt_logprobs = std::move(submitted_.front().prompt_logprobs);
    submitted_.pop_front();
    scheduler_.commit(result, now);
  }

  // Trials begin and end where they did in the engine; a shadow stays one to the end.
  void apply(const TraceTrial& trial, TimeNs now) {
    if (shadow_kind_ == 0 && !is_fixed(trial.spec)) replace_policy(trial.spec, now);
  }
  void apply(const TracePolicy& policy, TimeNs now) {
    if (shadow_kind_ != 0) {
      fail(ErrorCode::Unsupported, "the recording goes on with {}: compare with one that keeps its policy",
           policy.spec);
    }
    if (is_fixed(policy.spec)) return;
    const uint32_t kind = kind_of(policy.spec);
    if (!policies_.trial(kind)) replace_policy(policy.spec, now);  // recorded before there was Trial
    policies_.end_trial(kind);
  }

  void apply(const TraceParameters& parameters, TimeNs now) {
    const PolicySlots::Named named = PolicySlots::resolve(parameters.spec);
    if (policies_.kind_in_force(named)) policies_.set_parameters(named, now);
  }
  void apply(const TraceLimits& limits, TimeNs) {
    scheduler_.reconfigure(with_limits(scheduler_.config(), limits.json));
  }

  void apply(const TraceHold& hold, TimeNs) { scheduler_.hold_admissions(hold.holds); }
  void apply(const TraceResetPrefixCache&, TimeNs now) { scheduler_.reset_prefix_cache(now); }

  static uint32_t kind_of(const std::string& spec) { return plugin_registry().kind_of(parse_policy_spec(spec)); }
  // The options name the policy in its place.
  [[nodiscard]] bool is_fixed(const std::string& spec) const {
    return kind_of(spec) == INFLIGHT_KIND_SCHED ? fixed_schedule_ : fixed_eviction_;
  }
  void replace_policy(const std::string& spec, TimeNs now) {
    if (kind_of(spec) == INFLIGHT_KIND_SCHED) {
      policies_.replace(make_schedule_policy(spec, setup_, policy_options()), now);
    } else {
      policies_.replace(make_eviction_policy(spec, setup_, policy_options()), now);
    }
  }

  SchedulerSetup setup_;
  bool fixed_schedule_, fixed_eviction_;
  uint32_t shadow_kind_ = 0;  // of shadow_policy; 0: none
  PolicySlots policies_;
  KvBlocks blocks_;
  Scheduler scheduler_;
  std::unordered_set<uint64_t> requests_;
  std::unordered_map<uint64_t, std::pair<RequestId, int32_t>> choice_of_;  // by sequence
  std::unordered_map<uint64_t, int32_t> unfinished_;                       // choices that run or wait, by request
  // What the result of a step in flight has to hold.
  struct Submitted {
    std::vector<SequenceId> sampled;
    std::vector<PromptLogprob> prompt_logprobs;
  };
  std::deque<Submitted> submitted_;
  ReplayResult result_;
};

}  // namespace

ReplayResult replay_trace(std::span<const TraceRecord> records, const ReplayOptions& options) {
  if (records.empty() || !std::holds_alternative<TraceBegin>(records.front().content)) {
    fail(ErrorCode::CorruptFile, "the trace does not begin with a configuration: it is no recording");
  }
  const auto& begin = std::get<TraceBegin>(records.front().content);
  Replay replay(parse_setup_json(begin.configuration_json), options);
  for (const TraceRecord& record : records) {
    if (!replay.apply(record)) break;
  }
  const ReplayResult& result = replay.result();
  if (result.plans == 0 && result.requests > 0) {
    fail(ErrorCode::CorruptFile, "the recording ends before its first plan: there is nothing to compare");
  }
  return result;
}

}  // namespace inflight
