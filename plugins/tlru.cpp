// SPDX-License-Identifier: Apache-2.0
// tlru: tail-optimised lru. What hurts is the turn of a conversation that must compute more than `threshold_tokens`
// anew. With L tokens of the conversation stored so far and `next_prompt_tokens` expected to be added, its first L +
// next_prompt_tokens - threshold_tokens tokens must stay; everything behind them may go without making the tail worse.
// Such blocks go first, then the others; within both the one used longest ago. Source: Zhang et al., "Tail-Optimized
// Caching for LLM Inference", arXiv 2510.15152; SGLang's `tlru`.
#include <algorithm>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"threshold_tokens", INFLIGHT_TYPE_INT64, 0, "512", "0", "1000000", "prompt tokens that may be computed anew"},
    {"next_prompt_tokens", INFLIGHT_TYPE_INT64, 0, "64", "0", "1000000",
     "tokens that the next turn is expected to add"}};

struct Tlru {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.tlru", "tail-optimised lru: what no turn needs to be fast goes first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_CHAIN | INFLIGHT_UNIT_TIMES)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit Tlru(const inflight::EvictSetup& setup)
      : unit_tokens(setup.environment.unit_tokens),
        slack(setup.config.int64("next_prompt_tokens") - setup.config.int64("threshold_tokens")),
        parent(setup.environment.units, INFLIGHT_UNIT_ROOT),
        high_water(setup.environment.units, 0) {}

  // A block makes the conversation that it ends longer: all blocks before it learn of it.
  inflight_plugin_status_t on_insert(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const int64_t length = (int64_t{units.depth[i]} + 1) * unit_tokens;
      parent[units.unit[i]] = units.parent[i];
      high_water[units.unit[i]] = length;
      for (uint32_t unit = units.parent[i]; unit != INFLIGHT_UNIT_ROOT && high_water[unit] < length;
           unit = parent[unit]) {
        high_water[unit] = length;
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t* key1) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const int64_t before = int64_t{units.depth[i]} * unit_tokens;
      const bool safe = before >= std::max<int64_t>(high_water[units.unit[i]] + slack, 0);
      key0[i] = safe ? 0 : 1;
      key1[i] = units.last_use_ns[i];
    }
    return INFLIGHT_PLUGIN_OK;
  }

  int64_t unit_tokens;
  int64_t slack;                    // tokens of a conversation beyond its length that must stay; mostly negative
  std::vector<uint32_t> parent;     // by unit
  std::vector<int64_t> high_water;  // by unit: longest conversation through it, in tokens
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Tlru)
