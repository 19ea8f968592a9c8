// SPDX-License-Identifier: Apache-2.0
// lfu: least frequently used: the block that the fewest requests have found goes first, among equals the one used
// longest ago. Source: SGLang's `lfu`.
#include "inflight/plugin.hpp"

namespace {

struct Lfu {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.lfu", "the stored block that the fewest requests found goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_USE | INFLIGHT_UNIT_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Lfu(const inflight::EvictSetup&) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t* key1) {
    for (uint32_t i = 0; i < units.count; ++i) {
      key0[i] = units.hits[i];
      key1[i] = units.last_use_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Lfu)
