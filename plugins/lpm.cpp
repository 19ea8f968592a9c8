// SPDX-License-Identifier: Apache-2.0
// lpm: longest prefix match first. Requests whose prompt is stored furthest start first, while it still is. Source:
// Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs", NeurIPS 2024, and SGLang's `lpm`.
// Differs: the host keeps every match up to date, so there is no need to fall back to fcfs when many wait (SGLang does
// above 128); max_waiting brings that rule back. A request whose next block another one is computing is held back by
// the host for every policy, which stands for SGLang's in-batch rule.
#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {{"max_waiting", INFLIGHT_TYPE_INT64, INFLIGHT_PARAM_RUNTIME, "0", "0", nullptr,
                                         "order of arrival when more wait; 0 = never"}};

struct Lpm {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.lpm", "the longest stored prefix starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_CACHED)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Lpm(const inflight::SchedSetup& setup) : max_waiting(setup.config.int64("max_waiting")) {}

  // max_waiting is the only parameter.
  inflight_plugin_status_t set_param(const inflight_key_value_t& pair) {
    max_waiting = pair.value.int64;
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    if (max_waiting > 0 && waiting.count > max_waiting) return INFLIGHT_PASS;
    for (uint32_t i = 0; i < waiting.count; ++i) key0[i] = -int64_t{waiting.cached_tokens[i]};
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t max_waiting;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Lpm)
