// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/evict_adapter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plugin_host/policy_report.h"
#include "plugin_host/request_columns.h"

namespace inflight {
EvictAdapter::EvictAdapter(const inflight_policy_t& policy, const PluginConfig& config, const Environment& environment,
                           const PolicyOptions& options)
    : ops_(*policy.evict), environment_(environment), instance_(policy, options) {
  const inflight_evict_environment_t given{.struct_size = sizeof(inflight_evict_environment_t),
                                           .units = to_count(environment.block_count),
                                           .unit_tokens = to_count(environment.block_token_count),
                                           .tiers = 1,
                                           .seed = options.seed};
  instance_.create([&](void** self) { return ops_.create(&instance_.host(), &given, &config.config(), self); });
  instance_.set_services(this);
  picked_.resize(static_cast<size_t>(environment.block_count));
  make_columns();
}

void EvictAdapter::set_time(TimeNs now, uint64_t step) {
  now_ = now;
  instance_.at_step(step);
}

void EvictAdapter::describe(std::string_view op, nlohmann::ordered_json& json) const {
  if (op != "pick") {
    json["units"] = to_json(view_);
    return;
  }
  const auto rows = static_cast<ptrdiff_t>(std::min<size_t>(picked_.size(), kReportRowsMax));
  json["answer"] = {{"units", std::vector(picked_.begin(), picked_.begin() + rows)}};
}

// The columns that the policy reads, each as long as a notification can be; the view points at them for good.
void EvictAdapter::make_columns() {
  const auto make = [this](uint64_t wanted, auto& storage) {
    const bool reads = (instance_.policy().unit_columns & wanted) == wanted;
    if (reads) storage.resize(static_cast<size_t>(environment_.block_count));
    return reads ? storage.data() : nullptr;
  };
  view_.struct_size = sizeof(view_);
  view_.columns = instance_.policy().unit_columns;
  view_.unit = make(0, unit_);
  view_.key = make(0, key_);
  view_.parent = make(INFLIGHT_UNIT_CHAIN, parent_);
  view_.depth = make(INFLIGHT_UNIT_CHAIN, depth_);
  view_.children = make(INFLIGHT_UNIT_CHAIN, children_);
  view_.tokens = make(INFLIGHT_UNIT_SIZE, tokens_);
  view_.bytes = make(INFLIGHT_UNIT_SIZE, bytes_);
  view_.created_ns = make(INFLIGHT_UNIT_TIMES, created_);
  view_.last_use_ns = make(INFLIGHT_UNIT_TIMES, last_use_);
  view_.hits = make(INFLIGHT_UNIT_USE, hits_);
  view_.references = make(INFLIGHT_UNIT_USE, references_);
  view_.recompute_ns = make(INFLIGHT_UNIT_COST, recompute_);
  view_.tenant = make(INFLIGHT_UNIT_OWNER, tenant_);
  view_.priority = make(INFLIGHT_UNIT_OWNER, priority_);
  // Equal for all.
  std::ranges::fill(tokens_, to_count(environment_.block_token_count));
  std::ranges::fill(bytes_, environment_.block_bytes);
}

const inflight_units_t& EvictAdapter::fill(std::span<const BlockId> blocks) {
  const uint64_t columns = view_.columns;
  view_.count = static_cast<uint32_t>(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockId block = blocks[i];
    const RadixNode& node = blocks_->tree().node(block);
    unit_[i] = to_count(to_integer(block));
    key_[i] = node.key;
    if ((columns & INFLIGHT_UNIT_CHAIN) != 0) {
      parent_[i] = node.parent != kNoBlock ? to_count(to_integer(node.parent)) : INFLIGHT_UNIT_ROOT;
      depth_[i] = to_count(node.depth);
      children_[i] = to_count(node.child_count);
    }
    if ((columns & INFLIGHT_UNIT_TIMES) != 0) {
      created_[i] = node.created;
      last_use_[i] = node.last_use;
    }
    if ((columns & INFLIGHT_UNIT_USE) != 0) {
      hits_[i] = to_count(node.hit_count);
      references_[i] = to_count(blocks_->pool().references(block));
    }
    if ((columns & INFLIGHT_UNIT_COST) != 0) recompute_[i] = recompute_time(node);
    if ((columns & INFLIGHT_UNIT_OWNER) != 0) {
      tenant_[i] = node.owner.tenant;
      priority_[i] = node.owner.priority;
    }
  }
  return view_;
}

void EvictAdapter::tell(const char* name, Notification op, std::span<const BlockId> blocks) {
  if (!instance_.active() || blocks.empty()) return;
  const inflight_units_t& units = fill(blocks);
  instance_.call(name, now_, [&] { return op(instance_.self(), &units); });
}

bool EvictAdapter::keeps_order() const { return instance_.active() && ops_.pick != nullptr; }

EvictKey EvictAdapter::rank(BlockId block, int64_t release_tick) {
  if (!ranks()) return EvictPolicy::rank(block, release_tick);
  const inflight_units_t& units = fill(std::span(&block, 1));
  int64_t key0 = kUnwrittenKey, key1 = 0;
  const bool answered = instance_.call("rank", now_, [&] { return ops_.rank(instance_.self(), &units, &key0, &key1); });
  if (answered && key0 != kUnwrittenKey) return last_key_ = {key0, key1};
  if (answered) instance_.strike("rank", fmt::format("left the key of unit {} unwritten", units.unit[0]));
  return last_key_;
}

// Of one block: its tokens, and what they see before them.
int64_t EvictAdapter::recompute_time(const RadixNode& node) const {
  const int32_t width = environment_.block_token_count;
  const StepWork work{.prefill_tokens = width,
                      .prefill_pairs = attended_tokens(node.depth * width, width, environment_.windows)};
  return latency_->estimate(work) - latency_->estimate({});
}

std::optional<uint32_t> EvictAdapter::stored_tokens(uint32_t) const { return std::nullopt; }
TimeNs EvictAdapter::estimate(const StepWork& work) const { return latency_ == nullptr ? 0 : latency_->estimate(work); }
std::optional<uint32_t> EvictAdapter::parent_of(uint32_t unit) const {
  return blocks_ == nullptr ? std::nullopt : stored_parent(*blocks_, unit);
}

void EvictAdapter::pick(int32_t need, std::vector<BlockId>& out) {
  auto named = static_cast<uint32_t>(picked_.size());
  const bool answered =
      instance_.call("pick", now_, [&] { return ops_.pick(instance_.self(), to_count(need), picked_.data(), &named); });
  if (!answered) return;
  if (named > picked_.size()) {
    instance_.strike("pick", fmt::format("gave {} units, there was room for {}", named, picked_.size()));
    return;
  }
  for (uint32_t i = 0; i < named; ++i) {
    if (picked_[i] >= picked_.size()) {
      instance_.strike("pick", fmt::format("gave the unit {}, allowed: below {}", picked_[i], picked_.size()));
      out.clear();
      return;
    }
    out.push_back(static_cast<BlockId>(picked_[i]));
  }
}

}  // namespace inflight
