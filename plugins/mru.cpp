// SPDX-License-Identifier: Apache-2.0
// mru: most recently used first: right for loops over more prefixes than fit, where lru never hits. Source: SGLang's
// `mru`.
#include "inflight/plugin.hpp"

namespace {

struct Mru {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.mru", "the stored block that was used last goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Mru(const inflight::EvictSetup&) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < units.count; ++i) key0[i] = -units.last_use_ns[i];
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Mru)
