// SPDX-License-Identifier: Apache-2.0
// s3fifo: three queues. New blocks enter `small` (a tenth of all); from its head those hit at least `threshold` times
// move to `main`, the others go, and their keys are remembered in `ghost` (nine tenths). Content that comes back while
// it is remembered enters `main`. From the head of `main` blocks that were hit go around once more, one hit poorer (at
// most 3 count), the others go. Source: Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023;
// threshold 2 as in libCacheSim. Differs: blocks that are referenced or have stored children go around without losing a
// hit.
#include <algorithm>
#include <deque>
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

  enum class Queue : uint8_t { None, Small, Main };
  struct Unit {
    uint64_t key = 0;
    uint32_t parent = INFLIGHT_UNIT_ROOT;
    uint32_t children = 0;
    uint8_t hits = 0;
    bool pinned = true;  // whoever computes a block refers to it
    Queue queue = Queue::None;
  };

  explicit S3Fifo(const inflight::EvictSetup& setup)
      : units_(setup.environment.units),
        small_target_(std::max<size_t>(
            1, static_cast<size_t>(setup.config.float64("small_share") * static_cast<double>(units_.size())))),
        ghost_limit_(units_.size() - std::min(units_.size(), small_target_)),
        threshold_(static_cast<uint8_t>(setup.config.int64("threshold"))) {}

  inflight_plugin_status_t on_insert(const inflight_units_t& units) {
    for (uint32_t i = 0; i < units.count; ++i) {
      const bool remembered = ghost_.erase(units.key[i]) > 0;
      Unit& unit = units_[units.unit[i]];
      unit = {.key = units.key[i], .parent = units.parent[i], .queue = remembered ? Queue::Main : Queue::Small};
      (remembered ? main_ : small_).push_back(units.unit[i]);
      if (unit.parent != INFLIGHT_UNIT_ROOT) ++units_[unit.parent].children;
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
      Unit& unit = units_[units.unit[i]];
      std::deque<uint32_t>& queue = unit.queue == Queue::Small ? small_ : main_;
      queue.erase(std::find(queue.begin(), queue.end(), units.unit[i]));  // at or near the front
      if (unit.queue == Queue::Small) remember(unit.key);
      if (unit.parent != INFLIGHT_UNIT_ROOT) --units_[unit.parent].children;
      unit.queue = Queue::None;
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t pick(uint32_t, uint32_t* unit, uint32_t* count) {
    *count = 0;
    const bool small_first = small_.size() >= small_target_ || main_.empty();
    if ((small_first && pick_small(unit)) || pick_main(unit) || pick_small(unit)) *count = 1;
    return INFLIGHT_PLUGIN_OK;
  }

 private:
  static constexpr int kHitsMax = 3;

  bool may_go(uint32_t unit) const { return !units_[unit].pinned && units_[unit].children == 0; }

  bool pick_small(uint32_t* chosen) {
    for (size_t left = small_.size(); left > 0; --left) {
      const uint32_t unit = small_.front();
      if (units_[unit].hits >= threshold_) {
        small_.pop_front();
        main_.push_back(unit);
        units_[unit].queue = Queue::Main;
        units_[unit].hits = 0;
      } else if (may_go(unit)) {
        *chosen = unit;
        return true;
      } else {
        small_.pop_front();
        small_.push_back(unit);
      }
    }
    return false;
  }

  bool pick_main(uint32_t* chosen) {
    // Every block goes around at most as often as hits count, plus once to be chosen.
    for (size_t left = (kHitsMax + 1) * main_.size(); left > 0; --left) {
      const uint32_t unit = main_.front();
      if (units_[unit].hits == 0 && may_go(unit)) {
        *chosen = unit;
        return true;
      }
      if (may_go(unit)) --units_[unit].hits;
      main_.pop_front();
      main_.push_back(unit);
    }
    return false;
  }

  void remember(uint64_t key) {
    if (ghost_limit_ == 0) return;
    ghost_[key] = ++ghost_time_;
    ghost_order_.push_back({key, ghost_time_});
    for (;;) {  // drop entries that are no longer true, and the oldest when there are too many
      const auto [oldest, time] = ghost_order_.front();
      const auto found = ghost_.find(oldest);
      const bool current = found != ghost_.end() && found->second == time;
      if (current && ghost_.size() <= ghost_limit_) return;
      ghost_order_.pop_front();
      if (current) ghost_.erase(found);
    }
  }

  inflight_plugin_status_t set_pinned(const inflight_units_t& units, bool pinned) {
    for (uint32_t i = 0; i < units.count; ++i) units_[units.unit[i]].pinned = pinned;
    return INFLIGHT_PLUGIN_OK;
  }

  std::vector<Unit> units_;
  size_t small_target_, ghost_limit_;
  uint8_t threshold_;
  std::deque<uint32_t> small_, main_;
  std::unordered_map<uint64_t, uint64_t> ghost_;  // key -> when it was remembered last
  std::deque<std::pair<uint64_t, uint64_t>> ghost_order_;
  uint64_t ghost_time_ = 0;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(S3Fifo)
