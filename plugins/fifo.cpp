// SPDX-License-Identifier: Apache-2.0
// fifo: the block that was computed first goes first, however often it was used. Source: SGLang's `fifo`.
#include "inflight/plugin.hpp"

namespace {

struct Fifo {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.fifo", "the stored block that was computed first goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_TIMES)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Fifo(const inflight::EvictSetup&) {}

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t*) {
    for (uint32_t i = 0; i < units.count; ++i) key0[i] = units.created_ns[i];
    return INFLIGHT_PLUGIN_OK;
  }
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Fifo)
