// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace inflight {
namespace {

double share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }
double milliseconds(double ns) { return ns * 1e-6; }

nlohmann::ordered_json kv_growth_json(const KvGrowth& growth) {
  const auto use_json = [](const KvUse& use) {
    return nlohmann::ordered_json{{"time_s", milliseconds(static_cast<double>(use.time)) * 1e-3},
                                  {"sequences", use.sequences},
                                  {"tokens_per_sequence", use.tokens_per_sequence()},
                                  {"tokens", use.tokens}};
  };
  const KvGrowthParts parts = growth.to_peak();
  return {{"first", use_json(growth.first())},
          {"peak", use_json(growth.peak())},
          {"by_concurrency_tokens", parts.by_concurrency},
          {"by_length_tokens", parts.by_length}};
}

}  // namespace

LatencySummary LatencySummary::of(std::vector<TimeNs> durations) {
  if (durations.empty()) return {};
  std::ranges::sort(durations);
  const auto at = [&](double q) {
    const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(durations.size())));
    return milliseconds(static_cast<double>(durations[std::max<size_t>(rank, 1) - 1]));
  };
  const double sum = std::accumulate(durations.begin(), durations.end(), 0.0);
  return {.mean = milliseconds(sum / static_cast<double>(durations.size())),
          .p50 = at(0.50),
          .p95 = at(0.95),
          .p99 = at(0.99),
          .max = at(1.0)};
}

LatencySummary LatencySummary::of(const LatencyHistogram& durations) {
  return {.mean = milliseconds(durations.mean()),
          .p50 = milliseconds(durations.quantile(0.50)),
          .p95 = milliseconds(durations.quantile(0.95)),
          .p99 = milliseconds(durations.quantile(0.99)),
          .max = milliseconds(static_cast<double>(durations.max()))};
}

void to_json(nlohmann::ordered_json& json, const LatencySummary& summary) {
  json = {
      {"mean", summary.mean}, {"p50", summary.p50}, {"p95", summary.p95}, {"p99", summary.p99}, {"max", summary.max}};
}

std::string table_row(const char* name, const LatencySummary& summary) {
  if (summary.max == 0.0) return fmt::format("  {:<6} {:>12} {:>12} {:>12} {:>12}\n", name, "-", "-", "-", "-");
  return fmt::format("  {:<6} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f}\n", name, summary.mean, summary.p50, summary.p95,
                     summary.p99);
}

double GuessCounts::acceptance_rate() const {
  return share(static_cast<double>(accepted_tokens), static_cast<double>(draft_tokens));
}
double GuessCounts::mean_acceptance_length() const {
  return 1.0 + share(static_cast<double>(accepted_tokens), static_cast<double>(drafts));
}

std::string describe_guesses(const GuessCounts& guesses) {
  if (guesses.drafts == 0) return {};
  return fmt::format("  guessed {} tokens in {} drafts, {:.1f} % right: {:.2f} tokens a step of a sequence\n",
                     guesses.draft_tokens, guesses.drafts, 100.0 * guesses.acceptance_rate(),
                     guesses.mean_acceptance_length());
}

void add_guesses(nlohmann::ordered_json& json, const GuessCounts& guesses) {
  json["spec_decode_num_drafts"] = guesses.drafts;
  json["spec_decode_num_draft_tokens"] = guesses.draft_tokens;
  json["spec_decode_num_accepted_tokens"] = guesses.accepted_tokens;
  json["spec_decode_acceptance_rate"] = guesses.acceptance_rate();
  json["spec_decode_mean_acceptance_length"] = guesses.mean_acceptance_length();
}

double SimResult::useful_slot_share() const {
  return share(static_cast<double>(scheduler.used_slot_steps), static_cast<double>(scheduler.slot_steps));
}
double SimResult::output_tokens_per_second() const {
  return share(static_cast<double>(scheduler.output_tokens), makespan_s());
}
double SimResult::prefix_hit_rate() const {
  return share(static_cast<double>(scheduler.cached_tokens), static_cast<double>(scheduler.prompt_tokens));
}
double SimResult::recompute_tax() const {
  return share(static_cast<double>(scheduler.recomputed_tokens), static_cast<double>(scheduler.scheduled_tokens));
}
GuessCounts SimResult::guesses() const { return {scheduler.drafts, scheduler.draft_tokens, scheduler.accepted_tokens}; }
double SimResult::goodput() const { return share(static_cast<double>(deadlines_met), makespan_s()); }
double SimResult::deadlines_met_share() const {
  return share(static_cast<double>(deadlines_met),
               static_cast<double>(requests.size()) + static_cast<double>(unfinished));
}

std::vector<std::string> SimResult::describe_taken_out() const {
  std::vector<std::string> lines;
  for (const TakenOut& one : policies_taken_out) {
    const std::string where = replicas > 1 ? fmt::format(" of replica {}", one.replica) : "";
    lines.push_back(fmt::format("from step {} on{} a built-in policy decided: {}", one.step, where, one.message));
  }
  return lines;
}

std::string to_json(const SimResult& result) {
  using Json = nlohmann::ordered_json;
  const SchedulerStats& stats = result.scheduler;
  Json admissions;
  for (size_t i = 0; i < kAdmissionResultCount; ++i) {
    admissions[to_string(static_cast<AdmissionResult>(i))] = stats.admissions[i];
  }
  Json taken_out = Json::array();
  for (const SimResult::TakenOut& one : result.policies_taken_out) {
    taken_out.push_back({{"replica", one.replica}, {"step", one.step}, {"message", one.message}});
  }
  Json json = {
      {"workload", result.workload},
      {"device", result.device},
      {"schedule_policy", result.schedule_policy},
      {"radix_eviction_policy", result.eviction_policy},
      {"batching", result.batching},
      {"max_num_seqs", result.max_num_seqs},
      {"replicas", result.replicas},
      {"steps", stats.steps},
      {"requests", stats.requests_finished},
      {"requests_rejected", result.rejected},
      {"requests_unfinished", result.unfinished},
      {"requests_cut_off", result.cut_off},
      {"requests_left_out", result.left_out},
      {"useful_slot_share", result.useful_slot_share()},
      {"backlog_slot_share",
       share(static_cast<double>(stats.backlog_used_slot_steps), static_cast<double>(stats.backlog_slot_steps))},
      {"static_efficiency", result.static_batching.efficiency},
      {"static_useful_slot_share", result.static_batching.useful_slot_share},
      {"static_cycles", result.static_batching.cycles},
      {"makespan_s", result.makespan_s()},
      {"requests_per_second", share(static_cast<double>(stats.requests_finished), result.makespan_s())},
      {"output_tokens_per_second", result.output_tokens_per_second()},
      {"total_tokens_per_second",
       share(static_cast<double>(stats.prompt_tokens + stats.output_tokens), result.makespan_s())},
      {"ttft_ms", result.ttft},
      {"itl_ms", result.itl},
      {"tpot_ms", result.tpot},
      {"e2e_ms", result.e2e},
      {"queue_ms", result.queue},
      {"goodput", result.goodput()},
      {"deadlines_met_share", result.deadlines_met_share()},
      {"fairness", result.fairness.index},
      {"service_gap_max_tokens", result.fairness.gap_max_tokens},
      {"fairness_computed", result.fairness_computed.index},
      {"service_gap_max_computed_tokens", result.fairness_computed.gap_max_tokens},
      {"tenants_backlogged_s", result.fairness.backlogged_s},
      {"prompt_tokens", stats.prompt_tokens},
      {"cached_tokens", stats.cached_tokens},
      {"output_tokens", stats.output_tokens},
      {"scheduled_tokens", stats.scheduled_tokens},
      {"attended_tokens", stats.attended_tokens},
      {"preemptions", stats.preemptions},
      {"preemptions_for_others", stats.preemptions_for_others},
      {"recomputed_tokens", stats.recomputed_tokens},
      {"recompute_tax", result.recompute_tax()},
      {"swapped_out_blocks", stats.swapped_out_blocks},
      {"swapped_in_blocks", stats.swapped_in_blocks},
      {"offloaded_blocks", stats.offloaded_blocks},
      {"restored_blocks", stats.restored_blocks},
      {"host_cached_tokens", stats.host_cached_tokens},
      {"prefix_hit_rate", result.prefix_hit_rate()},
      {"kv_usage_mean", result.kv_usage_mean},
      {"kv_usage_max", result.kv_usage_max},
      {"kv_growth", kv_growth_json(result.kv_growth)},
      {"evicted_blocks", result.evicted_blocks},
      {"device_busy_share", result.device_busy_share},
      {"prefill_time_share", result.prefill_time_share},
      {"admissions", admissions},
      {"policy_strikes", result.policy_strikes},
      {"policies_taken_out", taken_out},
      {"policy_metrics", result.policy_metrics},
      {"skipped_steps", result.skipped_steps},
      {"wall_s", result.wall_s},
      {"simulated_requests_per_wall_second", share(static_cast<double>(result.requests.size()), result.wall_s)},
      {"decision_hash", fmt::format("{:016x}", result.decision_hash)},
  };
  add_guesses(json, result.guesses());
  return json.dump(2, ' ', false, Json::error_handler_t::replace);  // a trace's name need not be UTF-8
}

std::string to_csv(const SimResult& result, const Workload& workload) {
  std::string text =
      "request,tenant,priority,replica,arrival_ms,scheduled_ms,first_token_ms,end_ms,prompt_tokens,cached_tokens,"
      "output_tokens,preemptions,finish_reason,draft_tokens,accepted_tokens\n";
  const auto ms = [](TimeNs time) {
    return time == kNotYet ? std::string() : fmt::format("{:.6f}", milliseconds(static_cast<double>(time)));
  };
  for (const RequestRecord& record : result.requests) {
    const SimRequest& request = workload.requests[static_cast<size_t>(record.request)];
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", record.request, request.tenant, request.priority,
                    record.replica, ms(record.arrival), ms(record.first_scheduled), ms(record.first_token),
                    ms(record.end), request.prompt_tokens, record.cached_tokens, record.output_tokens,
                    record.preemptions, to_string(record.reason), record.draft_tokens, record.accepted_tokens);
  }
  return text;
}

}  // namespace inflight
