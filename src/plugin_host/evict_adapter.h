// SPDX-License-Identifier: Apache-2.0
// A loaded eviction strategy as the cache's EvictPolicy. Checks every answer; without one the base class (LRU) decides.
// THREAD: the engine thread only.
#pragma once

#include <vector>

#include "cache/evict_policy.h"
#include "cache/kv_blocks.h"
#include "core/attended_tokens.h"
#include "plugin_host/plugin_config.h"
#include "plugin_host/policy_instance.h"

namespace inflight {

class EvictAdapter final : public EvictPolicy, private PolicyInstance::Services {
 public:
  struct Environment {
    int32_t block_count = 0;
    int32_t block_token_count = 0;
    uint64_t block_bytes = 0;
    AttentionWindows windows{};
  };
  // `policy` is of kind INFLIGHT_KIND_EVICT.   ERRORS: InvalidArgument (parameters), Plugin (create failed).
  EvictAdapter(const inflight_policy_t& policy, const PluginConfig& config, const Environment& environment,
               const PolicyOptions& options);

  // Whose blocks it is asked about, and who knows what computing them again would take; before the first notification.
  // LIFETIME: borrowed.
  void attach(const KvBlocks& blocks, const LatencyModel& latency) {
    blocks_ = &blocks;
    latency_ = &latency;
  }

  void set_time(TimeNs now, uint64_t step) override;
  void on_insert(std::span<const BlockId> blocks) override { notify("on_insert", ops_.on_insert, blocks); }
  void on_hit(std::span<const BlockId> blocks) override { notify("on_hit", ops_.on_hit, blocks); }
  void on_pin(std::span<const BlockId> blocks) override { notify("on_pin", ops_.on_pin, blocks); }
  void on_release(std::span<const BlockId> blocks) override { notify("on_release", ops_.on_release, blocks); }
  void on_evict(BlockId block) override { notify("on_evict", ops_.on_evict, std::span(&block, 1)); }
  [[nodiscard]] bool keeps_order() const override;
  [[nodiscard]] bool ranks() const override { return instance_.active() && ops_.rank != nullptr; }
  [[nodiscard]] EvictKey rank(BlockId block, int64_t release_tick) override;
  void pick(int32_t need, std::vector<BlockId>& out) override;

  [[nodiscard]] const PolicyInstance& instance() const { return instance_; }
  [[nodiscard]] PolicyInstance& instance() { return instance_; }
  // See PolicyInstance::set_parameters().
  void set_parameters(const std::vector<std::pair<std::string, std::string>>& given, TimeNs now) {
    instance_.set_parameters(ops_.set_param, given, now);
  }

 private:
  using Notification = inflight_plugin_status_t (*)(void*, const inflight_units_t*);
  void notify(const char* name, Notification op, std::span<const BlockId> blocks) {
    if (op != nullptr) tell(name, op, blocks);
  }
  void tell(const char* name, Notification op, std::span<const BlockId> blocks);
  void make_columns();
  const inflight_units_t& fill(std::span<const BlockId> blocks);
  [[nodiscard]] int64_t recompute_time(const RadixNode& node) const;
  [[nodiscard]] std::optional<uint32_t> stored_tokens(uint32_t slot) const override;
  [[nodiscard]] TimeNs estimate(const StepWork& work) const override;
  [[nodiscard]] std::optional<uint32_t> parent_of(uint32_t unit) const override;
  void describe(std::string_view op, nlohmann::ordered_json& json) const override;

  const inflight_evict_ops_t& ops_;
  Environment environment_;
  PolicyInstance instance_;
  const KvBlocks* blocks_ = nullptr;
  const LatencyModel* latency_ = nullptr;
  TimeNs now_ = 0;
  EvictKey last_key_;  // that rank() gave; who gets no answer goes beside that block: keys of two rules do not compare
  inflight_units_t view_{};
  std::vector<uint32_t> unit_, parent_, depth_, children_, tokens_, hits_, references_, tenant_, picked_;
  std::vector<uint64_t> key_, bytes_;
  std::vector<int64_t> created_, last_use_, recompute_;
  std::vector<int32_t> priority_;
};

}  // namespace inflight
