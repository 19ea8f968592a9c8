// SPDX-License-Identifier: Apache-2.0
// sieve: one queue in order of insertion, one bit a block, one hand. A hit sets the bit and moves nothing. The hand
// goes from the oldest block to the newest: a set bit is cleared, the first block without one goes. Source: Zhang et
// al., "SIEVE is Simpler than LRU", NSDI 2024. Differs: the hand passes over blocks that are referenced or have stored
// children; it meets the others only, in a map by their place in the queue, so that long prompts cost it nothing.
#include <map>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

struct Sieve {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.sieve", "a hand sweeps in order of insertion, sparing what was hit since")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_CHAIN)
          .can(INFLIGHT_CAP_DETERMINISTIC);

  struct Unit {
    uint64_t place = 0;  // in order of insertion
    uint32_t parent = INFLIGHT_UNIT_ROOT;
    uint32_t children = 0;
    bool visited = false;
    bool pinned = true;  // whoever computes a block refers to it
  };

  explicit Sieve(const inflight::EvictSetup& setup) : units_(setup.environment.units) {}

  inflight_plugin_status_t on_insert(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      units_[units.unit[i]] = {.place = next_place_++, .parent = units.parent[i]};
      count_child(units.parent[i], 1);
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
      may_go_.erase(units_[units.unit[i]].place);
      count_child(units_[units.unit[i]].parent, -1);
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick(uint32_t, uint32_t* unit, uint32_t* count) {
    *count = 0;
    while (*count == 0 && !may_go_.empty()) {  // once around clears every bit
      auto at = may_go_.lower_bound(hand_);
      if (at == may_go_.end()) at = may_go_.begin();
      bool& visited = units_[at->second].visited;
      if (!visited) unit[(*count)++] = at->second;
      visited = false;
      hand_ = ++at == may_go_.end() ? 0 : at->first;
    }
    return INFLIGHT_PLUGIN_OK;
  }

 private:
  void count_child(uint32_t parent, int change) {
    if (parent == INFLIGHT_UNIT_ROOT) return;
    units_[parent].children += static_cast<uint32_t>(change);
    note(parent);
  }
  inflight_plugin_status_t set_pinned(const inflight_units_t& units, bool pinned) {
    for (uint32_t i = 0; i < units.count; ++i) {
      units_[units.unit[i]].pinned = pinned;
      note(units.unit[i]);
    }
    return INFLIGHT_PLUGIN_OK;
  }
  void note(uint32_t unit) {
    const Unit& at = units_[unit];
    if (!at.pinned && at.children == 0) {
      may_go_.emplace(at.place, unit);
    } else {
      may_go_.erase(at.place);
    }
  }

  std::vector<Unit> units_;
  std::map<uint64_t, uint32_t> may_go_;  // unreferenced leaves, by place
  uint64_t next_place_ = 0;
  uint64_t hand_ = 0;  // meets the first one from this place on
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Sieve)
