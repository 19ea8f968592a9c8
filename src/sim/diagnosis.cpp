// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace inflight {
namespace {

struct Wait {
  TimeNs arrival, scheduled;
  [[nodiscard]] double seconds() const { return static_cast<double>(scheduled - arrival) * 1e-9; }
};

// In order of arrival.
std::vector<Wait> waits_of(const SimResult& result) {
  std::vector<Wait> waits;
  for (const RequestRecord& record : result.requests) {
    if (record.first_scheduled != kNotYet) waits.push_back({record.arrival, record.first_scheduled});
  }
  std::ranges::sort(waits, {}, [](const Wait& wait) { return std::pair(wait.arrival, wait.scheduled); });
  return waits;
}

bool lacks_blocks(const SimResult& result) {
  const auto refused = result.scheduler.admissions[static_cast<size_t>(AdmissionResult::OutOfMemory)];
  return static_cast<double>(refused) > 0.2 * static_cast<double>(result.scheduler.steps) &&
         result.kv_usage_mean > 0.85;
}

std::optional<Finding> memory_pressure(const SimResult& result) {
  const SchedulerStats& stats = result.scheduler;
  const auto count = static_cast<double>(std::max<size_t>(result.requests.size(), 1));
  const bool preempts = static_cast<double>(stats.preemptions) > 0.05 * count;
  if (result.recompute_tax() <= 0.02 && !preempts && !lacks_blocks(result)) return std::nullopt;
  const KvGrowthParts growth = result.kv_growth.to_peak();
  return Finding{
      "memory_pressure",
      fmt::format("{} preemptions of {} requests, {:.1f} % of the tokens computed again, KV {:.0f} % used on "
                  "average, {:.0f} % at most",
                  stats.preemptions, result.requests.size(), 100 * result.recompute_tax(), 100 * result.kv_usage_mean,
                  100 * result.kv_usage_max),
      fmt::format("{}, more --kv-blocks, or --preempt swap with --host-kv-blocks",
                  growth.by_concurrency > growth.by_length
                      ? "a lower --max-num-seqs: it is the number of sequences that fills the storage"
                      : "--schedule-conservativeness 1 or a lower --max-model-len: it is their length that fills the "
                        "storage")};
}

// The request that waited longest of those that many later ones were started before.
std::optional<Finding> starvation(const SimResult& result, const std::vector<Wait>& waits, int32_t slots) {
  constexpr size_t kWindow = 4096;
  int64_t passed_most = 0;
  double longest = 5.0 * std::max(result.queue.p50, 1.0) * 1e-3;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].seconds() <= longest) continue;
    int64_t passed = 0;
    for (size_t j = i + 1; j < std::min(waits.size(), i + kWindow); ++j)
      passed += waits[j].scheduled < waits[i].scheduled;
    if (passed <= 2 * slots) continue;
    passed_most = passed;
    longest = waits[i].seconds();
  }
  if (passed_most == 0) return std::nullopt;
  return Finding{"starvation",
                 fmt::format("a request waited {:.1f} s while {} later ones were started; half wait less than {:.1f} s",
                             longest, passed_most, result.queue.p50 * 1e-3),
                 fmt::format("a policy that ages: --policy fcfs or hrrn instead of {}", result.schedule_policy)};
}

std::optional<Finding> low_utilisation(const SimResult& result, const SchedulerConfig& config) {
  const SchedulerStats& stats = result.scheduler;
  if (stats.backlog_slot_steps == 0 || lacks_blocks(result)) return std::nullopt;
  const double filled =
      static_cast<double>(stats.backlog_used_slot_steps) / static_cast<double>(stats.backlog_slot_steps);
  if (stats.backlog_slot_steps > stats.slot_steps / 10 && filled < 0.7) {
    const bool fixed = config.batching == BatchingMode::Static || config.batching == BatchingMode::Dynamic;
    return Finding{
        "low_utilisation",
        fmt::format("{:.0f} % of the {} slots worked while requests waited", 100 * filled, config.max_num_seqs),
        fixed ? "--batching continuous"
              : "a larger --max-num-batched-tokens, so that prompts enter faster; or fewer slots"};
  }
  const bool waits_for_slots = stats.backlog_slot_steps > stats.slot_steps / 2 && result.queue.p50 > result.e2e.p50 / 2;
  if (!waits_for_slots || result.kv_usage_max >= 0.5) return std::nullopt;
  return Finding{"low_utilisation",
                 fmt::format("requests wait {:.1f} s (median) for one of {} slots, KV {:.0f} % used at most",
                             result.queue.p50 * 1e-3, config.max_num_seqs, 100 * result.kv_usage_max),
                 "a larger --max-num-seqs"};
}

std::optional<Finding> prefill_interference(const SimResult& result) {
  if (result.itl.p99 <= 5.0 * result.itl.p50 || result.prefill_time_share <= 0.2) return std::nullopt;
  return Finding{
      "prefill_interference",
      fmt::format("ITL p99 {:.1f} ms against p50 {:.1f} ms; {:.0f} % of the device time in steps with prompts",
                  result.itl.p99, result.itl.p50, 100 * result.prefill_time_share),
      result.prefill_time_share > 0.5
          ? "a smaller --max-num-batched-tokens; where that is not enough, separate pools: --prefill-replicas"
          : "a smaller --max-num-batched-tokens or --chunked-prefill-size"};
}

// The last tenth waits much longer than the first.
std::optional<Finding> overload(const std::vector<Wait>& waits) {
  if (waits.size() < 100 || waits.back().arrival == 0) return std::nullopt;
  const auto mean = [&](size_t begin, size_t end) {
    double sum = 0.0;
    for (size_t i = begin; i < end; ++i) sum += waits[i].seconds();
    return sum / static_cast<double>(end - begin);
  };
  const size_t tenth = waits.size() / 10;
  const double early = mean(0, tenth), late = mean(waits.size() - tenth, waits.size());
  const double span = static_cast<double>(waits.back().arrival - waits.front().arrival) * 1e-9;
  if (late <= early + 0.1 * span) return std::nullopt;
  return Finding{
      "overload",
      fmt::format("the first tenth waits {:.1f} s, the last {:.1f} s: arrivals outrun the service", early, late),
      "more --replicas, or a queue limit that rejects early"};
}

}  // namespace

std::string binding_limit(const SimResult& result) {
  const SchedulerStats& stats = result.scheduler;
  const auto refused = [&](AdmissionResult reason) { return stats.admissions[static_cast<size_t>(reason)]; };
  const int64_t kv = refused(AdmissionResult::OutOfMemory) + stats.preemptions;
  const int64_t budget = refused(AdmissionResult::NoTokenBudget) + refused(AdmissionResult::NoInputBudget);
  // Steps at whose end somebody waited though no gate refused anybody: all slots were taken, or the mode held them
  // back.
  const int64_t backlog_steps = stats.slot_steps > 0 ? stats.steps * stats.backlog_slot_steps / stats.slot_steps : 0;
  const int64_t slots = std::max<int64_t>(backlog_steps - kv - budget, 0);
  if (backlog_steps * 20 >= stats.steps) {  // somebody waits in a twentieth of the steps
    if (kv >= budget && kv >= slots) return "kv";
    return budget >= slots ? "budget" : "slots";
  }
  return result.device_busy_share > 0.9 ? "compute" : "arrivals";
}

std::vector<Finding> diagnose(const SimResult& result, const SimOptions& options) {
  const std::vector<Wait> waits = waits_of(result);
  const SchedulerConfig& config = options.setup.config;
  const auto memory = memory_pressure(result);
  std::vector<Finding> findings;
  // Slots that stand empty for want of blocks are the memory's fault.
  for (const auto& finding :
       {memory, starvation(result, waits, config.max_num_seqs), memory ? std::nullopt : low_utilisation(result, config),
        prefill_interference(result), overload(waits)}) {
    if (finding) findings.push_back(*finding);
  }
  return findings;
}

}  // namespace inflight
