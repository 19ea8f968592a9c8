// SPDX-License-Identifier: Apache-2.0
// slack: least slack first: time until the deadline minus the time that its prefill should take, by the engine's own
// latency model. The deadline is the earlier of the first token's and the last token's, after the first token the
// earlier of the next token's and the last one's. A request that can no longer make it goes behind all that can, so
// that under overload those in time stay in time (goodput) instead of everybody being late together. A late next token
// is no such miss. Who has begun to answer and has no deadline goes on before anybody new. How much output is to come
// is not known and not subtracted. Source: least slack time scheduling (Leung 1989), and the rule of letting late jobs
// wait as in Sarathi-Serve's and SLOs-Serve's goodput evaluation.
#include <algorithm>
#include <limits>

#include "inflight/plugin.hpp"

namespace {

struct Slack {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.slack", "the least time to spare starts first, the hopeless last")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_STATE | INFLIGHT_COLUMN_DEADLINES | INFLIGHT_COLUMN_TIMES | INFLIGHT_COLUMN_LENGTHS |
                 INFLIGHT_COLUMN_CACHED)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Slack(const inflight::SchedSetup& setup) : host(setup.host) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t* key1) {
    const inflight_requests_t& waiting = *step.waiting;
    inflight_step_work_t work = inflight::decodes_of(step);
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const bool begun = waiting.first_token_ns[i] >= 0;
      const int64_t token = begun ? waiting.next_token_deadline_ns[i] : waiting.ttft_deadline_ns[i];
      const int64_t deadline = std::min(token, waiting.e2e_deadline_ns[i]);
      if (deadline == std::numeric_limits<int64_t>::max()) {
        key0[i] = begun ? kGoesOn : kNoDeadline;
        continue;
      }
      const uint32_t known = waiting.prompt_tokens[i] + waiting.output_tokens[i];
      const uint32_t uncached = std::max(known - std::min(known, waiting.cached_tokens[i]), 1u);
      work.prefill_tokens = uncached;
      work.prefill_pairs = uint64_t{uncached} * waiting.cached_tokens[i] + uint64_t{uncached} * (uncached + 1) / 2;
      const int64_t ready = step.now_ns + host.estimate_step_ns(work);
      const bool in_time = ready <= (begun ? waiting.e2e_deadline_ns[i] : deadline);
      key0[i] = in_time ? kInTime : kTooLate;
      key1[i] = in_time ? deadline - ready : waiting.arrival_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }

  static constexpr int64_t kGoesOn = 0, kInTime = 1, kNoDeadline = 2, kTooLate = 3;
  inflight::PluginHost host;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Slack)
