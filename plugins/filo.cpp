// SPDX-License-Identifier: Apache-2.0
// filo: first in, last out: the block that was computed last goes first. Source: SGLang's `filo`.
#include "inflight/plugin.hpp"

namespace {

struct Filo {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.filo", "the stored block that was computed last goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Filo(const inflight::EvictSetup&) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < units.count; ++i) key0[i] = -units.created_ns[i];
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Filo)
