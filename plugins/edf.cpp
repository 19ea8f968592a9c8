// SPDX-License-Identifier: Apache-2.0
// edf: earliest deadline first: the deadline of the first token until there is one, then that of the last token;
// requests without a deadline follow in order of arrival. Meets all deadlines whenever any order can (on one machine,
// without overload); use slack under overload. Source: Liu & Layland 1973.
#include "inflight/plugin.hpp"

namespace {

struct Edf {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.edf", "the earliest deadline starts first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_DEADLINES | INFLIGHT_COLUMN_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS);

  explicit Edf(const inflight::SchedSetup&) {}

  static int64_t deadline(const inflight_requests_t& requests, uint32_t i) {
    return requests.first_token_ns[i] < 0 ? requests.ttft_deadline_ns[i] : requests.e2e_deadline_ns[i];
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < step.waiting->count; ++i) key0[i] = deadline(*step.waiting, i);
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick_victims(const inflight_step_t& step, const inflight_need_t&, uint32_t* index,
                                        uint32_t* count) {
    const inflight_requests_t& running = *step.running;
    uint32_t latest = 0;
    for (uint32_t i = 1; i < running.count; ++i) {
      if (deadline(running, i) >= deadline(running, latest)) latest = i;
    }
    index[0] = latest;
    *count = 1;
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Edf)
