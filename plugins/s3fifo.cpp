// SPDX-License-Identifier: Apache-2.0
// s3fifo: three queues. New blocks enter `small` (a tenth of all); from its head those hit at least `threshold` times
// move to `main`, the others go, and their keys are remembered in `ghost` (nine tenths). Content that comes back while
// it is remembered enters `main`. From the head of `main` blocks that were hit go around once more, one hit poorer (at
// most 3 count), the others go. Source: Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023;
// threshold 2 as in libCacheSim. Differs: blocks that are referenced or have stored children keep their places and are
// passed over; the others are in maps by their places, so that long prompts cost nothing.
#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"small_share", INFLIGHT_TYPE_FLOAT64, 0, "0.1", "0.01", "0.9", "share of the blocks for the small queue"},
    {"threshold", INFLIGHT_TYPE_INT64, 0, "2", "1", "3", "hits that earn a place in the main queue"}};

struct S3Fifo {
  static constexpr inflight::Policy kPolicy =
      inflight::evict_policy("org.inflight.s3fifo", "small and main FIFO queues with a ghost of what went")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_UNIT_CHAIN)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC);

  enum Queue : uint8_t { Small, Main };
  struct Unit {
    uint64_t key = 0;
    uint64_t place = 0;  // in its queue
    uint32_t parent = INFLIGHT_UNIT_ROOT;
    uint32_t children = 0;
    uint8_t hits = 0;
    bool pinned = true;  // whoever computes a block refers to it
    Queue queue = Small;
  };

  explicit S3Fifo(const inflight::EvictSetup& setup)
      : units_(setup.environment.units),
        small_target_(std::max<size_t>(
            1, static_cast<size_t>(setup.config.float64("small_share") * static_cast<double>(units_.size())))),
        ghost_limit_(units_.size() - std::min(units_.size(), small_target_)),
        threshold_(static_cast<uint8_t>(setup.config.int64("threshold"))) {}

  inflight_plugin_status_t on_insert(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const Queue queue = try_forget(units.key[i]) ? Main : Small;
      units_[units.unit[i]] = {.key = units.key[i], .place = next_place_++, .parent = units.parent[i], .queue = queue};
      ++size_[queue];
      count_child(units.parent[i], 1);
    }
    return INFLIGHT_PLUGIN_OK;
  }
  inflight_plugin_status_t on_hit(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      Unit& unit = units_[units.unit[i]];
      unit.hits = static_cast<uint8_t>(std::min(unit.hits + 1, kHitsMax));
    }
    return INFLIGHT_PLUGIN_OK;
  }
  inflight_plugin_status_t on_pin(const inflight_units_t& units) { return set_pinned(units, true); }
  inflight_plugin_status_t on_release(const inflight_units_t& units) { return set_pinned(units, false); }

  inflight_plugin_status_t on_evict(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const Unit& unit = units_[units.unit[i]];
      may_go_[unit.queue].erase(unit.place);
      --size_[unit.queue];
      if (unit.queue == Small) remember(unit.key);
      count_child(unit.parent, -1);
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick(uint32_t, uint32_t* unit, uint32_t* count) {
    *count = 0;
    const bool small_first = size_[Small] >= small_target_ || size_[Main] == 0;
    if ((small_first && pick_small(unit)) || pick_main(unit) || pick_small(unit)) *count = 1;
    return INFLIGHT_PLUGIN_OK;
  }

 private:
  static constexpr int kHitsMax = 3;

  bool pick_small(uint32_t* chosen) {
    while (!may_go_[Small].empty()) {
      *chosen = may_go_[Small].begin()->second;
      if (units_[*chosen].hits < threshold_) return true;
      append_to_main(*chosen);
      units_[*chosen].hits = 0;
    }
    return false;
  }

  bool pick_main(uint32_t* chosen) {
    while (!may_go_[Main].empty()) {
      *chosen = may_go_[Main].begin()->second;
      if (units_[*chosen].hits == 0) return true;
      append_to_main(*chosen);
      --units_[*chosen].hits;
    }
    return false;
  }

  void append_to_main(uint32_t unit) {
    Unit& at = units_[unit];
    may_go_[at.queue].erase(at.place);
    --size_[at.queue];
    at.queue = Main;
    at.place = next_place_++;
    ++size_[Main];
    may_go_[Main].emplace(at.place, unit);
  }

  void remember(uint64_t key) {
    if (ghost_limit_ == 0) return;
    try_forget(key);
    ghost_[key] = ghost_order_.insert(ghost_order_.end(), key);
    if (ghost_.size() > ghost_limit_) try_forget(ghost_order_.front());
  }
  bool try_forget(uint64_t key) {
    const auto found = ghost_.find(key);
    if (found == ghost_.end()) return false;
    ghost_order_.erase(found->second);
    ghost_.erase(found);
    return true;
  }

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
      may_go_[at.queue].emplace(at.place, unit);
    } else {
      may_go_[at.queue].erase(at.place);
    }
  }

  std::vector<Unit> units_;
  size_t small_target_, ghost_limit_;
  uint8_t threshold_;
  std::array<std::map<uint64_t, uint32_t>, 2> may_go_;  // of each queue: unreferenced leaves, by place
  std::array<size_t, 2> size_{};                        // of each queue, all blocks
  uint64_t next_place_ = 0;
  std::list<uint64_t> ghost_order_;                                    // remembered keys, oldest first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> ghost_;  // where each is
};

}  // namespace

INFLIGHT_EXPORT_POLICY(S3Fifo)
