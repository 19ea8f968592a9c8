// SPDX-License-Identifier: Apache-2.0
// gdsf: greedy dual size frequency. A block's worth is L + hits * cost, where cost is the time to compute it again at
// its depth, by the engine's latency model, and L the worth of the block that went last: what was not used for a while
// is overtaken by what is new. All blocks have one size. Source: Cherkasova 1998.
#include <algorithm>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

struct Gdsf {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.gdsf", "least frequency times cost of computing it again goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_USE | INFLIGHT_UNIT_COST)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Gdsf(const inflight::EvictSetup& setup) : worth(setup.environment.units, 0) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const int64_t cost = std::max<int64_t>(units.recompute_ns[i], 1);
      worth[units.unit[i]] = key0[i] = inflation + (int64_t{units.hits[i]} + 1) * cost;
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t on_evict(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) inflation = std::max(inflation, worth[units.unit[i]]);
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t inflation = 0;       // L
  std::vector<int64_t> worth;  // by unit
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Gdsf)
