// SPDX-License-Identifier: Apache-2.0
#include "sim/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
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
  Tuner(const nlohmann::ordered_json& base, const TuneGoal& goal, const Clock& wall,
        const std::function<void(double)>& progress)
      : base_(base), goal_(goal), wall_(wall), progress_(progress) {}

  TuneResult search() {
    // From what the user gave, or the defaults.
    const SchedulerConfig config = read_sim_spec(base_).options.setup.config;
    attempt({Limit{"max_num_batched_tokens", 64, 16384, config.max_num_batched_tokens},
             Limit{"max_num_seqs", 1, std::min(1024, config.max_requests), config.max_num_seqs},
             Limit{"long_prefill_token_threshold", 0, 8192, config.long_prefill_token_threshold}});
    climb([](const Limit& limit) {
      std::vector<int32_t> values;
      for (int32_t value = limit.low; value <= limit.high; value = value == 0 ? 64 : 2 * value) values.push_back(value);
      return values;
    });
    climb([](const Limit& limit) {
      std::vector<int32_t> values = {limit.value * 3 / 4, limit.value * 5 / 4, limit.value * 3 / 2};
      std::erase_if(values, [&](int32_t value) { return value < limit.low || value > limit.high; });
      return values;
    });
    const Limits& limits = tried_[best()];
    result_.max_num_batched_tokens = limits[0].value;
    result_.max_num_seqs = limits[1].value;
    result_.long_prefill_token_threshold = limits[2].value;
    result_.best = result_.tried[best()];
    result_.meets = result_.best.meets;
    return std::move(result_);
  }

 private:
  // Tries values_of(limit) for one limit of the best setting after the other, until that stays the best.
  template <typename ValuesOf>
  void climb(const ValuesOf& values_of) {
    for (size_t before = tried_.size(); before != best();) {
      before = best();
      for (size_t which = 0; which < tried_.front().size(); ++which) {
        Limits candidate = tried_[best()];
        for (const int32_t value : values_of(candidate[which])) {
          candidate[which].value = value;
          if (candidate[0].value >= candidate[1].value) attempt(candidate);  // every sequence must be able to decode
        }
      }
    }
  }

  void attempt(const Limits& limits) {
    TuneStep step;
    nlohmann::ordered_json json = base_;
    for (const Limit& limit : limits) {
      json[limit.key] = limit.value;
      step.setting += fmt::format("{}{}={}", step.setting.empty() ? "" : " ", limit.key, limit.value);
    }
    if (std::ranges::find(result_.tried, step.setting, &TuneStep::setting) != result_.tried.end()) return;
    const SimSpec spec = read_sim_spec(json);
    const SimResult run = run_simulation(spec.options, load_workload(spec), wall_);
    step.output_tokens_per_second = run.output_tokens_per_second();
    step.ttft_p95_ms = run.ttft.p95;
    step.itl_p95_ms = run.itl.p95;
    step.turned_away = run.rejected + run.unfinished;
    step.meets = excess(step) == 0.0;
    result_.tried.push_back(step);
    tried_.push_back(limits);
    constexpr double kUsualTries = 60.0;
    if (progress_) progress_(std::min(0.99, static_cast<double>(result_.tried.size()) / kUsualTries));
  }

  // How far it misses the goal; 0 when it meets it.
  [[nodiscard]] double excess(const TuneStep& step) const {
    const auto over = [](double value, double most) { return most > 0.0 ? std::max(0.0, value / most - 1.0) : 0.0; };
    const int64_t first = result_.tried.empty() ? step.turned_away : result_.tried.front().turned_away;
    return over(step.ttft_p95_ms, goal_.ttft_p95_ms) + over(step.itl_p95_ms, goal_.itl_p95_ms) +
           static_cast<double>(std::max<int64_t>(step.turned_away - first, 0));
  }
  // Which of those tried, by index.
  [[nodiscard]] size_t best() const {
    constexpr double kEqual = 0.99;
    double most = 0.0;  // output tokens a second within the goal
    for (const TuneStep& step : result_.tried) {
      if (step.meets) most = std::max(most, step.output_tokens_per_second);
    }
    const auto rank = [&](const TuneStep& step) {
      if (!step.meets) return std::pair(2, excess(step));
      const bool fast = step.output_tokens_per_second >= kEqual * most;
      return fast ? std::pair(0, step.ttft_p95_ms) : std::pair(1, -step.output_tokens_per_second);
    };
    return static_cast<size_t>(std::ranges::min_element(result_.tried, {}, rank) - result_.tried.begin());
  }

  nlohmann::ordered_json base_;
  TuneGoal goal_;
  const Clock& wall_;
  const std::function<void(double)>& progress_;
  std::vector<Limits> tried_;  // result_.tried's
  TuneResult result_;
};

}  // namespace

TuneResult tune_limits(const nlohmann::ordered_json& base, const TuneGoal& goal, const Clock& wall,
                       const std::function<void(double)>& progress) {
  for (const auto& [what, value] : {std::pair{"ttft_p95_ms", goal.ttft_p95_ms}, {"itl_p95_ms", goal.itl_p95_ms}}) {
    if (std::isfinite(value) && value >= 0.0) continue;
    fail(ErrorCode::InvalidArgument, "{} is {}, allowed: 0 (whatever) or more", what, value);
  }
  return Tuner(base, goal, wall, progress).search();
}

}  // namespace inflight
