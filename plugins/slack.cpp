// SPDX-License-Identifier: Apache-2.0
// slack: least slack first: time until the deadline of the first token minus the time that its prefill should take, by
// the engine's own latency model. A request that can no longer make it goes behind all that can, so that under overload
// those in time stay in time (goodput) instead of everybody being late together. Source: least slack time scheduling
// (Leung 1989), and the rule of letting late jobs wait as in Sarathi-Serve's and SLOs-Serve's goodput evaluation.
#include <algorithm>
#include <limits>

#include "inflight/plugin.hpp"

namespace {

struct Slack {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.slack", "the least time to spare starts first, the hopeless last")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_DEADLINES | INFLIGHT_COLUMN_TIMES | INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_CACHED)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Slack(const inflight::SchedSetup& setup) : host(setup.host) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t* key1) {
    const inflight_requests_t& waiting = *step.waiting;
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const int64_t deadline = waiting.first_token_ns[i] < 0 ? waiting.ttft_deadline_ns[i] : waiting.e2e_deadline_ns[i];
      if (deadline == std::numeric_limits<int64_t>::max()) {
        key0[i] = kNoDeadline;
        continue;
      }
      const uint32_t known = waiting.prompt_tokens[i] + waiting.output_tokens[i];
      const uint32_t uncached = std::max(known - std::min(known, waiting.cached_tokens[i]), 1u);
      const uint64_t attended = uint64_t{uncached} * waiting.cached_tokens[i] + uint64_t{uncached} * (uncached + 1) / 2;
      const int64_t slack = deadline - step.now_ns - host.estimate_step_ns(uncached, step.decoding, attended);
      key0[i] = slack >= 0 ? kInTime : kTooLate;
      key1[i] = slack >= 0 ? slack : waiting.arrival_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }

  static constexpr int64_t kInTime = 0, kNoDeadline = 1, kTooLate = 2;
  inflight::PluginHost host;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Slack)
