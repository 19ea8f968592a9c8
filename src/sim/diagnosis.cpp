// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "sim/sim_spec.h"

namespace inflight {
namespace {

constexpr const char* kLowUtilisation = "low_utilisation";
constexpr const char *kAdapters = "adapters", *kPolicy = "policy";  // binding limits

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

SimSetting set(const char* key, int64_t value) { return {{key, std::to_string(value)}}; }

int64_t preemptions_for_blocks(const SchedulerStats& stats) { return stats.preemptions - stats.preemptions_for_others; }

bool lacks_blocks(const SimResult& result) {
  const auto refused = result.scheduler.admission_steps[static_cast<size_t>(AdmissionResult::OutOfMemory)];
  return static_cast<double>(refused) > 0.2 * static_cast<double>(result.scheduler.steps) &&
         result.kv_usage_mean > 0.85;
}

std::optional<Finding> memory_pressure(const SimResult& result, const SchedulerConfig& config) {
  const SchedulerStats& stats = result.scheduler;
  const auto count = static_cast<double>(std::max<size_t>(result.requests.size(), 1));
  const int64_t preemptions = preemptions_for_blocks(stats);
  const bool costs = result.recompute_tax() > 0.02 || static_cast<double>(preemptions) > 0.05 * count;
  if (!(preemptions > 0 && costs) && !lacks_blocks(result)) return std::nullopt;
  const KvGrowthParts growth = result.kv_growth.to_peak();
  const bool many = growth.by_concurrency > growth.by_length;
  const int64_t blocks = result.kv_blocks;
  // SGLang's default first; from there on room for nearly all of what may come (its ratio is then 1).
  const char* const careful = config.schedule_conservativeness < 1.0 ? "1" : "1.5";
  return Finding{
      "memory_pressure",
      fmt::format("{} preemptions for want of blocks of {} requests, {:.1f} % of the tokens computed again, KV {:.0f} "
                  "% used on "
                  "average, {:.0f} % at most",
                  preemptions, result.requests.size(), 100 * result.recompute_tax(), 100 * result.kv_usage_mean,
                  100 * result.kv_usage_max),
      fmt::format(
          "{} that fills the storage, more --kv-blocks, or --preempt swap with --host-kv-blocks",
          many ? "a lower --max-num-seqs: it is the number of sequences"
               : fmt::format("--schedule-conservativeness {} or a lower --max-model-len: it is their length", careful)),
      {many ? set("max_num_seqs", std::max(config.max_num_seqs / 2, 1))
            : SimSetting{{"schedule_conservativeness", careful}},
       set("kv_blocks", 2 * blocks),
       {{"preempt", "swap"}, {"host_kv_blocks", std::to_string(blocks)}}}};
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
  std::vector<SimSetting> remedies;
  for (const char* const policy : {"fcfs", "hrrn"}) {
    if (result.schedule_policy != policy) remedies.push_back({{"schedule_policy", policy}});
  }
  return Finding{"starvation",
                 fmt::format("a request waited {:.1f} s while {} later ones were started; half wait less than {:.1f} s",
                             longest, passed_most, result.queue.p50 * 1e-3),
                 fmt::format("a policy that ages: --policy fcfs or hrrn instead of {}", result.schedule_policy),
                 std::move(remedies)};
}

// More slots, and a budget in which all of them can decode.
SimSetting with_slots(const SchedulerConfig& config, int32_t slots) {
  SimSetting setting = set("max_num_seqs", slots);
  if (config.max_num_batched_tokens < slots) setting.emplace_back("max_num_batched_tokens", std::to_string(slots));
  return setting;
}

std::optional<Finding> low_utilisation(const SimResult& result, const SchedulerConfig& config) {
  const SchedulerStats& stats = result.scheduler;
  if (stats.backlog_slot_steps == 0 || lacks_blocks(result)) return std::nullopt;
  const double filled =
      static_cast<double>(stats.backlog_used_slot_steps) / static_cast<double>(stats.backlog_slot_steps);
  if (stats.backlog_slot_steps > stats.slot_steps / 10 && filled < 0.7) {
    const bool fixed = config.batching == BatchingMode::Static || config.batching == BatchingMode::Dynamic;
    const std::string limit = binding_limit(result);
    Finding finding{
        kLowUtilisation,
        fmt::format("{:.0f} % of the {} slots worked while requests waited", 100 * filled, config.max_num_seqs),
        "a larger --max-num-batched-tokens, so that prompts enter faster; or fewer slots",
        {set("max_num_batched_tokens", 2 * int64_t{config.max_num_batched_tokens}),
         set("max_num_seqs", std::max(config.max_num_seqs / 2, 1))}};
    if (fixed) {
      finding.knob = "--batching continuous";
      finding.remedies = {{{"batching", "continuous"}}};
    } else if (limit == kAdapters) {
      finding.knob = "a larger --max-loras; 0: no limit";
      finding.remedies = {set("max_loras", 0)};
    } else if (limit == kPolicy) {
      finding.knob =
          fmt::format("a policy that admits whoever fits: --policy fcfs instead of {}", result.schedule_policy);
      finding.remedies = {{{"schedule_policy", "fcfs"}}};
    }
    return finding;
  }
  const bool waits_for_slots = stats.backlog_slot_steps > stats.slot_steps / 2 && result.queue.p50 > result.e2e.p50 / 2;
  if (!waits_for_slots || result.kv_usage_max >= 0.5) return std::nullopt;
  return Finding{kLowUtilisation,
                 fmt::format("requests wait {:.1f} s (median) for one of {} slots, KV {:.0f} % used at most",
                             result.queue.p50 * 1e-3, config.max_num_seqs, 100 * result.kv_usage_max),
                 "a larger --max-num-seqs",
                 {with_slots(config, 2 * config.max_num_seqs)}};
}

std::optional<Finding> prefill_interference(const SimResult& result, const SimOptions& options) {
  if (result.itl.p99 <= 5.0 * result.itl.p50 || result.prefill_time_share <= 0.2) return std::nullopt;
  const SchedulerConfig& config = options.setup.config;
  const bool much = result.prefill_time_share > 0.5;
  const int32_t replicas = std::max(options.replicas, 2);
  std::vector<SimSetting> remedies;
  if (const int32_t half = std::max(config.max_num_batched_tokens / 2, config.max_num_seqs);
      half < config.max_num_batched_tokens) {
    remedies.push_back(set("max_num_batched_tokens", half));
  }
  if (!much) {
    remedies.push_back(set("max_prefill_tokens", std::max(config.max_num_batched_tokens / 4, 1)));
  } else if (options.prefill_replicas == 0) {
    remedies.push_back({{"replicas", std::to_string(replicas)}, {"prefill_replicas", std::to_string(replicas / 2)}});
  }
  return Finding{
      "prefill_interference",
      fmt::format("ITL p99 {:.1f} ms against p50 {:.1f} ms; {:.0f} % of the device time in steps with prompts",
                  result.itl.p99, result.itl.p50, 100 * result.prefill_time_share),
      much ? "a smaller --max-num-batched-tokens; where that is not enough, separate pools: --prefill-replicas"
           : "a smaller --max-num-batched-tokens or --max-prefill-tokens",
      std::move(remedies)};
}

// The last tenth waits much longer than the first.
std::optional<Finding> overload(const std::vector<Wait>& waits, const SimOptions& options) {
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
  SimSetting more_replicas = set("replicas", 2 * options.replicas);  // of both pools, where there are two
  if (options.prefill_replicas > 0) {
    more_replicas.emplace_back("prefill_replicas", std::to_string(2 * options.prefill_replicas));
  }
  return Finding{
      "overload",
      fmt::format("the first tenth waits {:.1f} s, the last {:.1f} s: arrivals outrun the service", early, late),
      "more --replicas, or a queue limit that rejects early",
      {more_replicas, set("max_num_queued_reqs", options.setup.config.max_num_seqs)}};
}

// Nothing where the setting goes beyond what is allowed.
std::optional<Trial> try_remedy(nlohmann::ordered_json spec, const Workload& workload, const SimResult& before,
                                const Finding& finding, const SimSetting& setting, const Clock& wall) {
  constexpr double kMore = 1.02;
  for (const auto& [key, value] : setting) spec[key] = value;
  try {
    const SimOptions options = read_sim_spec(spec).options;
    Trial trial{.setting = setting, .result = run_simulation(options, workload, wall)};
    trial.mends = finding.problem == kLowUtilisation
                      ? trial.result.output_tokens_per_second() > kMore * before.output_tokens_per_second()
                      : std::ranges::count(diagnose(trial.result, options), finding.problem, &Finding::problem) == 0;
    return trial;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    return std::nullopt;
  }
}

}  // namespace

std::string binding_limit(const SimResult& result) {
  const SchedulerStats& stats = result.scheduler;
  const auto refused = [&](AdmissionResult reason) { return stats.admission_steps[static_cast<size_t>(reason)]; };
  const int64_t kv = refused(AdmissionResult::OutOfMemory) + preemptions_for_blocks(stats);
  const int64_t budget = refused(AdmissionResult::NoTokenBudget) + refused(AdmissionResult::NoInputBudget);
  const auto steps_of = [&](int64_t slot_steps) {
    return stats.slot_steps > 0 ? stats.steps * slot_steps / stats.slot_steps : 0;
  };
  const int64_t backlog_steps = steps_of(stats.backlog_slot_steps);
  // Past who is refused so others are admitted: these count for as many steps as the empty slots come to.
  const int64_t empty_steps = steps_of(stats.backlog_slot_steps - stats.backlog_used_slot_steps);
  const int64_t adapters = std::min(refused(AdmissionResult::NoAdapter), empty_steps);
  const int64_t policy = std::min(refused(AdmissionResult::Policy), empty_steps);
  // Steps at whose end somebody waited though no gate refused anybody: all slots were taken, or the mode held them
  // back.
  const int64_t slots = std::max<int64_t>(backlog_steps - kv - budget - std::max(adapters, policy), 0);
  if (backlog_steps * 20 >= stats.steps) {  // somebody waits in a twentieth of the steps
    constexpr const char* kNames[] = {"kv", "budget", kAdapters, kPolicy, "slots"};
    const std::array steps = {kv, budget, adapters, policy, slots};
    return kNames[std::ranges::max_element(steps) - steps.begin()];
  }
  return result.device_busy_share > 0.9 ? "compute" : "arrivals";
}

std::vector<Finding> diagnose(const SimResult& result, const SimOptions& options) {
  const std::vector<Wait> waits = waits_of(result);
  const SchedulerConfig& config = options.setup.config;
  const auto memory = memory_pressure(result, config);
  std::vector<Finding> findings;
  // Slots that stand empty for want of blocks are the memory's fault.
  for (const auto& finding :
       {memory, starvation(result, waits, config.max_num_seqs), memory ? std::nullopt : low_utilisation(result, config),
        prefill_interference(result, options), overload(waits, options)}) {
    if (finding) findings.push_back(*finding);
  }
  return findings;
}

std::vector<Examined> examine(const nlohmann::ordered_json& spec, const Workload& workload, const SimResult& result,
                              const Clock& wall, const std::function<void(double share)>& progress) {
  std::vector<Examined> examined;
  for (Finding& finding : diagnose(result, read_sim_spec(spec).options)) {
    examined.push_back({.finding = std::move(finding), .trials = {}});
  }
  size_t remedies = 0, tried = 0;
  for (const Examined& one : examined) remedies += one.finding.remedies.size();
  for (Examined& one : examined) {
    for (const SimSetting& setting : one.finding.remedies) {
      if (auto trial = try_remedy(spec, workload, result, one.finding, setting, wall)) {
        one.trials.push_back(std::move(*trial));
      }
      progress(static_cast<double>(++tried) / static_cast<double>(remedies));
    }
  }
  std::erase_if(examined, [](const Examined& one) {
    return one.finding.problem == kLowUtilisation && std::ranges::none_of(one.trials, &Trial::mends);
  });
  return examined;
}

}  // namespace inflight
