// SPDX-License-Identifier: Apache-2.0
// Random histories of stored blocks for eviction strategies, beside a plain model of what is stored.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "plugin_host/check_drivers.h"

namespace inflight {
namespace {

constexpr uint32_t kUnits = 300;
constexpr uint32_t kUnwrittenUnit = 0xdeadbeef;

struct Unit {
  bool stored = false;
  uint32_t parent = INFLIGHT_UNIT_ROOT;
  uint32_t depth = 0, children = 0, hits = 0, references = 0, tenant = 0;
  uint64_t key = 0;
  int64_t created = 0, last_use = 0;
  int32_t priority = 0;
};

class EvictDriver final : public CheckDriver {
 public:
  EvictDriver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed, const CheckVariation& variation)
      : CheckDriver(context, policy, seed, variation), ops_(*policy.evict), units_(kUnits) {
    host_.unit_limit = kUnits;
    note_progress(context, policy, "create", ++calls_);
    const inflight_evict_environment_t environment{.struct_size = sizeof(inflight_evict_environment_t),
                                                   .units = kUnits,
                                                   .unit_tokens = 16,
                                                   .tiers = 1,
                                                   .seed = seed};
    created(ops_.create(&host_.table(), &environment, &config_.config(), &self_));
  }

  // A request uses a chain of blocks: what is stored is hit and pinned, the rest inserted; sometimes it releases at
  // once, sometimes later. When there is no room blocks are evicted first.
  void step() override {
    host_.now += rng_.between(0, 5'000'000);
    use_a_chain();
    while (!held_.empty() && (held_.size() > 8 || rng_.chance(0.5))) release_one();
    if (rng_.chance(0.1)) evict_some(rng_.between(1, 20));
    if (rng_.chance(0.002)) evict_some(static_cast<int32_t>(kUnits));
    arena_.close();
  }

 private:
  using Op = inflight_plugin_status_t (*)(void*, const inflight_units_t*);

  template <typename T, typename Get>
  void column(const T*& place, uint32_t bit, const std::vector<uint32_t>& units, Get&& get) {
    if (bit != 0 && (policy_.unit_columns & bit) == 0) return;
    T* const values = arena_.take<T>(units.size());
    for (size_t i = 0; i < units.size(); ++i) values[i] = static_cast<T>(get(units[i], units_[units[i]]));
    place = values;
  }

  const inflight_units_t& table(const std::vector<uint32_t>& units) {
    arena_.reset();
    using U = const Unit&;
    inflight_units_t view{};
    view.struct_size = sizeof view;
    view.count = static_cast<uint32_t>(units.size());
    view.columns = policy_.unit_columns;
    const auto fill = [&](auto& place, uint32_t bit, auto&& get) { column(place, bit, units, get); };
    fill(view.unit, 0, [](uint32_t unit, U) { return unit; });
    fill(view.key, 0, [](uint32_t, U it) { return it.key; });
    fill(view.parent, INFLIGHT_UNIT_CHAIN, [](uint32_t, U it) { return it.parent; });
    fill(view.depth, INFLIGHT_UNIT_CHAIN, [](uint32_t, U it) { return it.depth; });
    fill(view.children, INFLIGHT_UNIT_CHAIN, [](uint32_t, U it) { return it.children; });
    fill(view.tokens, INFLIGHT_UNIT_SIZE, [](uint32_t, U) { return 16U; });
    fill(view.bytes, INFLIGHT_UNIT_SIZE, [](uint32_t, U) { return 1U << 16; });
    fill(view.created_ns, INFLIGHT_UNIT_TIMES, [](uint32_t, U it) { return it.created; });
    fill(view.last_use_ns, INFLIGHT_UNIT_TIMES, [](uint32_t, U it) { return it.last_use; });
    fill(view.hits, INFLIGHT_UNIT_USE, [](uint32_t, U it) { return it.hits; });
    fill(view.references, INFLIGHT_UNIT_USE, [](uint32_t, U it) { return it.references; });
    fill(view.recompute_ns, INFLIGHT_UNIT_COST, [](uint32_t, U it) { return 100'000 + int64_t{it.depth} * 5000; });
    fill(view.tenant, INFLIGHT_UNIT_OWNER, [](uint32_t, U it) { return it.tenant; });
    fill(view.priority, INFLIGHT_UNIT_OWNER, [](uint32_t, U it) { return it.priority; });
    auto* const place = arena_.take<inflight_units_t>(1);
    *place = view;
    return *place;
  }

  void tell(const char* name, Op op, const std::vector<uint32_t>& units) {
    if (op == nullptr || units.empty()) return;
    const inflight_units_t& view = table(units);
    call(name, [&] { return op(self_, &view); });
  }

  // Of chain `number`, whose first half is shared with others of the same family.
  static uint64_t key_at(int32_t number, uint32_t depth) {
    const auto family = static_cast<uint64_t>(depth < 6 ? number / 8 : 1000 + number);
    return (family * 0x9e3779b97f4a7c15ULL + depth + 1) * 0xbf58476d1ce4e5b9ULL;
  }
  std::optional<uint32_t> find(uint64_t key) const {
    for (uint32_t i = 0; i < kUnits; ++i) {
      if (units_[i].stored && units_[i].key == key) return i;
    }
    return std::nullopt;
  }

  void use_a_chain() {
    const int32_t number = rng_.between(0, 63);
    const auto length = static_cast<uint32_t>(rng_.between(1, 20));
    std::vector<uint32_t> chain, pinned, inserted;
    while (chain.size() < length) {
      const auto unit = find(key_at(number, static_cast<uint32_t>(chain.size())));
      if (!unit) break;
      chain.push_back(*unit);
    }
    for (const uint32_t unit : chain) {
      ++units_[unit].hits;
      units_[unit].last_use = host_.now;
      if (units_[unit].references++ == 0) pinned.push_back(unit);
    }
    tell("on_hit", ops_.on_hit, chain);
    tell("on_pin", ops_.on_pin, pinned);
    while (chain.size() < length) {
      const auto place = free_unit();
      if (!place) break;
      const uint32_t parent = chain.empty() ? INFLIGHT_UNIT_ROOT : chain.back();
      units_[*place] = {.stored = true,
                        .parent = parent,
                        .depth = static_cast<uint32_t>(chain.size()),
                        .references = 1,
                        .tenant = static_cast<uint32_t>(number % 5),
                        .key = key_at(number, static_cast<uint32_t>(chain.size())),
                        .created = host_.now,
                        .last_use = host_.now,
                        .priority = number % 3};
      if (parent != INFLIGHT_UNIT_ROOT) ++units_[parent].children;
      chain.push_back(*place);
      inserted.push_back(*place);
    }
    tell("on_insert", ops_.on_insert, inserted);
    if (!chain.empty()) held_.push_back(chain);
  }

  void release_one() {
    const auto i = static_cast<size_t>(rng_.between(0, static_cast<int32_t>(held_.size()) - 1));
    std::vector<uint32_t> released;
    for (const uint32_t unit : held_[i]) {
      units_[unit].last_use = host_.now;
      if (--units_[unit].references == 0) released.push_back(unit);
    }
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    tell("on_release", ops_.on_release, released);
  }

  std::optional<uint32_t> free_unit() {
    for (uint32_t i = 0; i < kUnits; ++i) {
      if (!units_[i].stored) return i;
    }
    evict_some(1);
    for (uint32_t i = 0; i < kUnits; ++i) {
      if (!units_[i].stored) return i;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool may_go(uint32_t unit) const {
    return units_[unit].stored && units_[unit].references == 0 && units_[unit].children == 0;
  }

  void evict_some(int32_t need) {
    for (; need > 0; --need) {
      const auto unit = ops_.pick != nullptr ? picked(need) : lowest_ranked();
      if (!unit) return;
      Unit& gone = units_[*unit];
      if (gone.parent != INFLIGHT_UNIT_ROOT) --units_[gone.parent].children;
      gone.stored = false;
      tell("on_evict", ops_.on_evict, {*unit});
    }
  }

  std::optional<uint32_t> lowest_ranked() {
    std::vector<uint32_t> leaves;
    for (uint32_t i = 0; i < kUnits; ++i) {
      if (may_go(i)) leaves.push_back(i);
    }
    if (leaves.empty()) return std::nullopt;
    if (ops_.rank == nullptr) return leaves.front();
    const inflight_units_t& view = table(leaves);
    answers(key0_, leaves.size(), kUnwrittenKey);
    answers(key1_, leaves.size(), int64_t{0});
    const auto status = call("rank", [&] { return ops_.rank(self_, &view, key0_.data(), key1_.data()); });
    require_margin("rank", key0_, kUnwrittenKey);
    require_margin("rank", key1_, int64_t{0});
    size_t lowest = 0;
    for (size_t i = 0; i < leaves.size() && status == INFLIGHT_PLUGIN_OK; ++i) {
      if (key0_[i] == kUnwrittenKey) refuse("rank", fmt::format("left key {} of {} unwritten", i, leaves.size()));
      mix(static_cast<uint64_t>(key0_[i]));
      mix(static_cast<uint64_t>(key1_[i]));
      if (std::pair(key0_[i], key1_[i]) < std::pair(key0_[lowest], key1_[lowest])) lowest = i;
    }
    return leaves[lowest];
  }

  std::optional<uint32_t> picked(int32_t need) {
    arena_.reset();
    answers(picked_, kUnits, kUnwrittenUnit);
    uint32_t given = kUnits;
    const auto status =
        call("pick", [&] { return ops_.pick(self_, static_cast<uint32_t>(need), picked_.data(), &given); });
    require_margin("pick", picked_, kUnwrittenUnit);
    if (status == INFLIGHT_PLUGIN_OK && given > kUnits) {
      refuse("pick", fmt::format("gave {} units, there was room for {}", given, kUnits));
    }
    std::optional<uint32_t> first;
    for (uint32_t i = 0; i < given && status == INFLIGHT_PLUGIN_OK; ++i) {
      if (picked_[i] >= kUnits) refuse("pick", fmt::format("gave the unit {}, allowed: below {}", picked_[i], kUnits));
      if (!units_[picked_[i]].stored) refuse("pick", fmt::format("gave the unit {}, which is not stored", picked_[i]));
      mix(picked_[i]);
      if (!first && may_go(picked_[i])) first = picked_[i];
    }
    if (first) return first;
    for (uint32_t i = 0; i < kUnits; ++i) {  // as the host: what the strategy does not know goes some other way
      if (may_go(i)) return i;
    }
    return std::nullopt;
  }

  const inflight_evict_ops_t& ops_;
  std::vector<Unit> units_;
  std::vector<std::vector<uint32_t>> held_;  // chains that requests refer to
  std::vector<int64_t> key0_, key1_;
  std::vector<uint32_t> picked_;
};

}  // namespace

std::unique_ptr<CheckDriver> make_evict_driver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed,
                                               const CheckVariation& variation) {
  return std::make_unique<EvictDriver>(context, policy, seed, variation);
}

}  // namespace inflight
