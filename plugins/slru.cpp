// SPDX-License-Identifier: Apache-2.0
// slru: segmented lru: blocks that fewer than `protected_hits` requests have found go before all others, within each
// segment the one used longest ago. One scan of new prompts cannot push out what is shared. Source: Karedla et al.
// 1994; SGLang's `slru` (protected from the second hit on).
#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"protected_hits", INFLIGHT_TYPE_INT64, 0, "2", "1", "1000000", "hits from which on a block is protected"}};

struct Slru {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.slru", "segmented lru: blocks that were found often go last")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_USE | INFLIGHT_UNIT_TIMES)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Slru(const inflight::EvictSetup& setup) : protected_hits(setup.config.int64("protected_hits")) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t* key1) {
    for (uint32_t i = 0; i < units.count; ++i) {
      key0[i] = units.hits[i] >= protected_hits ? 1 : 0;
      key1[i] = units.last_use_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t protected_hits;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Slru)
