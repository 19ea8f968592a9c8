// SPDX-License-Identifier: Apache-2.0
// evict.priority: blocks of the least important requests go first (lower numbers are more important), among equals the
// one used longest ago. Source: SGLang's eviction `priority`.
#include "inflight/plugin.hpp"

namespace {

struct EvictPriority {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.evict.priority",
                             "the stored block of the least important request goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_OWNER | INFLIGHT_UNIT_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit EvictPriority(const inflight::EvictSetup&) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t* key1) {
    for (uint32_t i = 0; i < units.count; ++i) {
      key0[i] = -int64_t{units.priority[i]};
      key1[i] = units.last_use_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(EvictPriority)
