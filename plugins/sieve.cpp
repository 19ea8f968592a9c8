// SPDX-License-Identifier: Apache-2.0
// sieve: one queue in order of insertion, one bit a block, one hand. A hit sets the bit and moves nothing. The hand
// goes from the oldest block to the newest: a set bit is cleared, the first block without one goes. Source: Zhang et
// al., "SIEVE is Simpler than LRU", NSDI 2024. Differs: the hand passes over blocks that are referenced or have stored
// children.
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Sieve {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.sieve", "a hand sweeps in order of insertion, sparing what was hit since")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_CHAIN)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  struct Unit {
    uint32_t older = kNone, newer = kNone, parent = INFLIGHT_UNIT_ROOT;
    uint32_t children = 0;
    bool visited = false;
    bool pinned = true;  // whoever computes a block refers to it
  };

  explicit Sieve(const inflight::EvictSetup& setup) : units_(setup.environment.units) {}

  inflight_plugin_status_t on_insert(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const uint32_t unit = units.unit[i];
      units_[unit] = {.older = newest_, .parent = units.parent[i]};
      if (newest_ != kNone) units_[newest_].newer = unit;
      if (oldest_ == kNone) oldest_ = unit;
      newest_ = unit;
      if (units.parent[i] != INFLIGHT_UNIT_ROOT) ++units_[units.parent[i]].children;
    }
    return INFLIGHT_PLUGIN_OK;
  }
  inflight_plugin_status_t on_hit(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) units_[units.unit[i]].visited = true;
    return INFLIGHT_PLUGIN_OK;
  }
  inflight_plugin_status_t on_pin(const inflight_units_t& units) { return set_pinned(units, true); }
  inflight_plugin_status_t on_release(const inflight_units_t& units) { return set_pinned(units, false); }

  inflight_plugin_status_t on_evict(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const uint32_t unit = units.unit[i];
      const Unit& gone = units_[unit];
      if (hand_ == unit) hand_ = gone.newer;
      (gone.older == kNone ? oldest_ : units_[gone.older].newer) = gone.newer;
      (gone.newer == kNone ? newest_ : units_[gone.newer].older) = gone.older;
      if (gone.parent != INFLIGHT_UNIT_ROOT) --units_[gone.parent].children;
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick(uint32_t, uint32_t* unit, uint32_t* count) {
    *count = 0;
    // Twice around clears every bit, so whoever can go at all is found.
    for (size_t moves = 0; moves < 2 * units_.size() && oldest_ != kNone; ++moves) {
      if (hand_ == kNone) hand_ = oldest_;
      Unit& at = units_[hand_];
      if (!at.pinned && at.children == 0) {
        if (!at.visited) {
          unit[(*count)++] = hand_;  // on_evict() moves the hand on
          break;
        }
        at.visited = false;
      }
      hand_ = at.newer;
    }
    return INFLIGHT_PLUGIN_OK;
  }

 private:
  inflight_plugin_status_t set_pinned(const inflight_units_t& units, bool pinned) {
    for (uint32_t i = 0; i < units.count; ++i) units_[units.unit[i]].pinned = pinned;
    return INFLIGHT_PLUGIN_OK;
  }

  std::vector<Unit> units_;
  uint32_t oldest_ = kNone, newest_ = kNone, hand_ = kNone;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Sieve)
