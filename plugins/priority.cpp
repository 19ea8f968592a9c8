// SPDX-License-Identifier: Apache-2.0
// priority: the most important request starts first, equals in order of arrival; the least important running one gives
// its blocks back first. Lower numbers are more important, as everywhere in the host (vLLM).
//
// aging_s = A > 0: one level of priority is worth A seconds of waiting. The key is priority * A + arrival, so it need
// not change while a request waits, and nobody is passed by a request that is n levels above it and arrives more than n
// * A seconds later: with levels at most P apart, whoever has waited P * A is passed by nobody who is yet to come.
#include <algorithm>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {{"aging_s", INFLIGHT_TYPE_FLOAT64, 0, "0", "0", "3600",
                                         "seconds of waiting that are worth one level; 0 = no aging"}};

struct Priority {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.priority", "the most important request starts first, with aging")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_PRIORITY | INFLIGHT_COLUMN_TIMES)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS);

  explicit Priority(const inflight::SchedSetup& setup)
      : aging_ns(static_cast<int64_t>(setup.config.float64("aging_s") * 1e9)) {}

  // Smaller is more important. With aging the last million levels either way are told apart: of an hour each they fit
  // into the key.
  int64_t level(const inflight_requests_t& requests, uint32_t i) const {
    const int64_t level = requests.priority[i];
    return aging_ns > 0 ? std::clamp<int64_t>(level, -1'000'000, 1'000'000) : level;
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t* key1) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      if (aging_ns > 0) {
        key0[i] = level(waiting, i) * aging_ns + waiting.arrival_ns[i];
      } else {
        key0[i] = level(waiting, i);
        key1[i] = waiting.arrival_ns[i];
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick_victims(const inflight_step_t& step, const inflight_need_t&, uint32_t* index,
                                        uint32_t* count) {
    *count = inflight::name_victims(*step.running, index, [&](uint32_t i) { return level(*step.running, i); });
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t aging_ns;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Priority)
