// SPDX-License-Identifier: Apache-2.0
// shortest-prefill: who has the fewest tokens left to prefill starts first, stored ones not counted. Good for the time
// to first token; long prompts may wait long under load. Source: SGLang's `shortest-prefill-first`.
#include <algorithm>

#include "inflight/plugin.hpp"

namespace {

struct ShortestPrefill {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.shortest-prefill", "the fewest tokens to prefill start first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_CACHED)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit ShortestPrefill(const inflight::SchedSetup&) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const int64_t known = int64_t{waiting.prompt_tokens[i]} + waiting.output_tokens[i];
      key0[i] = std::max<int64_t>(known - waiting.cached_tokens[i], 1);
    }
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(ShortestPrefill)
