// SPDX-License-Identifier: Apache-2.0
// sjf: shortest job first, by predicted output length: the client's guess, else the mean of its tenant's finished
// requests, else the most it may produce. Least mean waiting time when the guess is right. Source: Fu et al.,
// "Efficient LLM Scheduling by Learning to Rank", NeurIPS 2024 (the order; its predictor is the host's business).
#include "inflight/plugin.hpp"

namespace {

struct Sjf {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.sjf", "the shortest predicted output starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_PREDICTED)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS);

  explicit Sjf(const inflight::SchedSetup&) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const uint32_t predicted = waiting.predicted_output_tokens[i];
      key0[i] = predicted > 0 ? predicted : waiting.max_output_tokens[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Sjf)
