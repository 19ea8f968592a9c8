// SPDX-License-Identifier: Apache-2.0
// random: waiting requests start in a random order, drawn from the host's seeded numbers. The control of an experiment:
// what any order must beat. Source: SGLang's `random`.
#include "inflight/plugin.hpp"

namespace {

struct Random {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.random", "waiting requests start in a random order")
          .by("inflight", "Apache-2.0", "1.0")
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS);

  explicit Random(const inflight::SchedSetup& setup) : host(setup.host) {}

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < step.waiting->count; ++i) key0[i] = static_cast<int64_t>(host.random() >> 1);
    return INFLIGHT_PLUGIN_OK;
  }

  inflight::PluginHost host;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Random)
