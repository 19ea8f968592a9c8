// SPDX-License-Identifier: Apache-2.0
// edf: earliest deadline first. Until the first token the earlier of its deadline and the last token's counts, then the
// earlier of the next token's and the last one's. Who has no deadline starts in order of arrival behind those who have
// one; but who has begun to answer goes on at once, before anybody new (it was preempted, somebody is reading). The
// last of this order is preempted first. Source: Liu & Layland 1973. Their proof that this order meets all deadlines if
// any order does is of one machine that changes between jobs at no cost; a batch that shares steps and computes again
// what preemption took is none, and under overload nearly everybody is late a little: see slack.
#include <algorithm>
#include <limits>

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
    using Limits = std::numeric_limits<int64_t>;
    const bool begun = requests.first_token_ns[i] >= 0;
    const int64_t token = begun ? requests.next_token_deadline_ns[i] : requests.ttft_deadline_ns[i];
    const int64_t earliest = std::min(token, requests.e2e_deadline_ns[i]);
    return begun && earliest == Limits::max() ? Limits::min() : earliest;
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < step.waiting->count; ++i) key0[i] = deadline(*step.waiting, i);
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick_victims(const inflight_step_t& step, const inflight_need_t&, uint32_t* index,
                                        uint32_t* count) {
    *count = inflight::name_victims(*step.running, index, [&](uint32_t i) { return deadline(*step.running, i); });
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Edf)
