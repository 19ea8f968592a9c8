// SPDX-License-Identifier: Apache-2.0
#include "sim/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/sim_spec.h"

namespace inflight {
namespace {

struct Limit {
  const char* key;
  int32_t low, high, value;
};
using Limits = std::array<Limit, 3>;

class Tuner {
 public:
  Tuner(std::string_view base_spec_json, const TuneGoal& goal, const Clock& wall,
        const std::function<void(double)>& progress)
      : base_(nlohmann::ordered_json::parse(base_spec_json)), goal_(goal), wall_(wall), progress_(progress) {}

  TuneResult search() {
    // From what the user gave, or the defaults.
    const SchedulerConfig config = parse_sim_spec(base_.dump()).options.setup.config;
    Limits limits = {Limit{"max_num_batched_tokens", 64, 16384, config.max_num_batched_tokens},
                     Limit{"max_num_seqs", 1, 1024, config.max_num_seqs},
                     Limit{"long_prefill_token_threshold", 0, 8192, config.long_prefill_token_threshold}};
    result_.best = attempt(limits);
    while (improve(limits)) {
    }
    result_.max_num_batched_tokens = limits[0].value;
    result_.max_num_seqs = limits[1].value;
    result_.long_prefill_token_threshold = limits[2].value;
    result_.meets = result_.best.meets;
    return std::move(result_);
  }

 private:
  // One limit after the other; true when any became better.
  bool improve(Limits& limits) {
    bool improved = false;
    for (size_t which = 0; which < limits.size(); ++which) {
      Limits best = limits;
      for (int32_t value = limits[which].low; value <= limits[which].high; value = value == 0 ? 64 : 2 * value) {
        Limits candidate = limits;
        candidate[which].value = value;
        if (candidate[0].value < candidate[1].value) continue;  // every sequence must be able to decode
        const TuneStep step = attempt(candidate);
        if (!better(step, result_.best)) continue;
        result_.best = step;
        best = candidate;
        improved = true;
      }
      limits = best;
    }
    return improved;
  }

  TuneStep attempt(const Limits& limits) {
    TuneStep step;
    nlohmann::ordered_json json = base_;
    for (const Limit& limit : limits) {
      json[limit.key] = limit.value;
      step.setting += fmt::format("{}{}={}", step.setting.empty() ? "" : " ", limit.key, limit.value);
    }
    const auto known = std::ranges::find(result_.tried, step.setting, &TuneStep::setting);
    if (known != result_.tried.end()) return *known;
    const SimSpec spec = parse_sim_spec(json.dump());
    const SimResult run = run_simulation(spec.options, load_workload(spec), wall_);
    step.output_tokens_per_second = run.output_tokens_per_second();
    step.ttft_p95_ms = run.ttft.p95;
    step.itl_p95_ms = run.itl.p95;
    step.meets = excess(step) == 0.0;
    result_.tried.push_back(step);
    constexpr double kUsualTries = 40.0;
    if (progress_) progress_(std::min(0.99, static_cast<double>(result_.tried.size()) / kUsualTries));
    return step;
  }

  // How far it misses the goal; 0 when it meets it.
  [[nodiscard]] double excess(const TuneStep& step) const {
    const auto over = [](double value, double most) { return most > 0.0 ? std::max(0.0, value / most - 1.0) : 0.0; };
    return over(step.ttft_p95_ms, goal_.ttft_p95_ms) + over(step.itl_p95_ms, goal_.itl_p95_ms);
  }
  [[nodiscard]] bool better(const TuneStep& a, const TuneStep& b) const {
    if (!a.meets || !b.meets) return excess(a) < excess(b);
    constexpr double kNoise = 1.001;
    return a.output_tokens_per_second > b.output_tokens_per_second * kNoise;
  }

  nlohmann::ordered_json base_;
  TuneGoal goal_;
  const Clock& wall_;
  const std::function<void(double)>& progress_;
  TuneResult result_;
};

}  // namespace

TuneResult tune_limits(std::string_view base_spec_json, const TuneGoal& goal, const Clock& wall,
                       const std::function<void(double)>& progress) {
  return Tuner(base_spec_json, goal, wall, progress).search();
}

}  // namespace inflight
