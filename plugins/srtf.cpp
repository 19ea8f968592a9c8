// SPDX-License-Identifier: Apache-2.0
// srtf: shortest remaining time first. As sjf, but what a preempted request has produced is taken off, prefill still to
// be done is added (prefill_cost of an output token each), and when blocks run out, whoever has the most left to
// produce goes.
#include <algorithm>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"prefill_cost", INFLIGHT_TYPE_FLOAT64, 0, "0.05", "0", "10", "time of a prefilled token in output tokens"}};

struct Srtf {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.srtf", "the shortest predicted remaining work starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_PREDICTED | INFLIGHT_COLUMN_CACHED)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Srtf(const inflight::SchedSetup& setup) : prefill_cost(setup.config.float64("prefill_cost")) {}

  static int64_t remaining_output(const inflight_requests_t& requests, uint32_t i) {
    const uint32_t predicted = requests.predicted_output_tokens[i];
    const int64_t total = predicted > 0 ? predicted : requests.max_output_tokens[i];
    return std::max<int64_t>(total - requests.output_tokens[i], 1);
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const int64_t known = int64_t{waiting.prompt_tokens[i]} + waiting.output_tokens[i];
      const auto prefill = static_cast<double>(std::max<int64_t>(known - waiting.cached_tokens[i], 1));
      // In thousandths of an output token, so that the key is a whole number.
      key0[i] = 1000 * remaining_output(waiting, i) + static_cast<int64_t>(1000.0 * prefill_cost * prefill);
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick_victims(const inflight_step_t& step, const inflight_need_t&, uint32_t* index,
                                        uint32_t* count) {
    *count =
        inflight::name_victims(*step.running, index, [&](uint32_t i) { return remaining_output(*step.running, i); });
    return INFLIGHT_PLUGIN_OK;
  }

  double prefill_cost;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Srtf)
