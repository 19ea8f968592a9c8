// SPDX-License-Identifier: Apache-2.0
// hrrn: highest response ratio next, in token time. The longer a request has waited for its size, the sooner it starts:
//   ratio = (tokens prefilled by everyone since it arrived) / (its own tokens to prefill)
// so short prompts go first but long ones cannot starve. No clock: the same order in simulation. Source: SGLang's
// `hrrn`; Brinch Hansen 1971 for the rule.
#include <algorithm>
#include <limits>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr int64_t kUnit = 1 << 16;  // ratios are compared in 1/65536

struct Hrrn {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.hrrn", "the highest response ratio, in tokens, starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_CACHED)
          .hears(INFLIGHT_EVENT_ATTACH, INFLIGHT_EVENT_ARRIVE, INFLIGHT_EVENT_STEP)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Hrrn(const inflight::SchedSetup& setup) : processed_at_arrival(setup.environment.max_requests, 0) {}

  inflight_plugin_status_t on_events(const inflight_events_t& events) {
    const char* at = reinterpret_cast<const char*>(events.events);
    for (uint32_t i = 0; i < events.count; ++i, at += events.stride) {
      const auto& event = *reinterpret_cast<const inflight_event_t*>(at);
      if (event.type == INFLIGHT_EVENT_STEP) processed += event.a;
      if (event.type == INFLIGHT_EVENT_ARRIVE || event.type == INFLIGHT_EVENT_ATTACH) {
        processed_at_arrival[event.slot] = processed;
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const int64_t known = int64_t{waiting.prompt_tokens[i]} + waiting.output_tokens[i];
      const int64_t uncached = known - waiting.cached_tokens[i];
      const int64_t waited = processed - processed_at_arrival[waiting.slot[i]];
      key0[i] = uncached <= 0 ? std::numeric_limits<int64_t>::min() : -(waited * kUnit / uncached);
    }
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t processed = 0;                      // prefilled tokens of all steps
  std::vector<int64_t> processed_at_arrival;  // by slot
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Hrrn)
