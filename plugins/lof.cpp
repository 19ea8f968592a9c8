// SPDX-License-Identifier: Apache-2.0
// lof: longest output first. Requests that may produce the most tokens start first, so that the long ones do not run
// alone at the end of a batch job. Source: SGLang's `lof`.
#include "inflight/plugin.hpp"

namespace {

struct Lof {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.lof", "the request that may produce the most tokens starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_LENGTHS)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS);

  explicit Lof(const inflight::SchedSetup&) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) key0[i] = -int64_t{waiting.max_output_tokens[i]};
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Lof)
