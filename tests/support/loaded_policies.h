// SPDX-License-Identifier: Apache-2.0
// Policies by name, as the engine would make them for a SchedulerWorld.
#pragma once

#include <memory>
#include <string>

#include "plugin_host/evict_adapter.h"
#include "plugin_host/plugin_registry.h"
#include "plugin_host/sched_adapter.h"
#include "support/scheduler_world.h"

namespace inflight::test {

// text: as users write it, "vtc:weight_output=3" or a path.
inline std::unique_ptr<SchedAdapter> make_schedule_policy(const std::string& text, const WorldOptions& world,
                                                          const PolicyOptions& options = {}) {
  const PolicySpec spec = parse_policy_spec(text);
  const inflight_policy_t& policy = *plugin_registry().find(spec, INFLIGHT_KIND_SCHED).policy;
  return std::make_unique<SchedAdapter>(policy, PluginConfig(policy, spec.parameters),
                                        SchedEnvironment{.max_requests = world.config.max_requests,
                                                         .block_token_count = world.blocks.block_token_count,
                                                         .block_count = world.blocks.block_count,
                                                         .max_num_batched_tokens = world.config.max_num_batched_tokens,
                                                         .max_num_seqs = world.config.max_num_seqs},
                                        options);
}

inline std::unique_ptr<EvictAdapter> make_eviction_policy(const std::string& text, const KvBlocks::Options& blocks) {
  const PolicySpec spec = parse_policy_spec(text);
  const inflight_policy_t& policy = *plugin_registry().find(spec, INFLIGHT_KIND_EVICT).policy;
  return std::make_unique<EvictAdapter>(
      policy, PluginConfig(policy, spec.parameters),
      EvictAdapter::Environment{.block_count = blocks.block_count, .block_token_count = blocks.block_token_count},
      PolicyOptions{});
}

// A world whose policies are loaded ones; empty names: the host's own.
class LoadedWorld {
 public:
  LoadedWorld(const WorldOptions& options, const std::string& schedule, const std::string& eviction = "")
      : schedule_(schedule.empty() ? nullptr : make_schedule_policy(schedule, options)),
        eviction_(eviction.empty() ? nullptr : make_eviction_policy(eviction, options.blocks)),
        world_(options, schedule_.get(), eviction_.get()) {
    if (eviction_) eviction_->attach(world_.blocks(), world_.scheduler().latency_model());
  }
  SchedulerWorld& operator*() { return world_; }
  SchedulerWorld* operator->() { return &world_; }
  [[nodiscard]] int64_t strikes() const {
    return (schedule_ ? schedule_->instance().strike_count() : 0) +
           (eviction_ ? eviction_->instance().strike_count() : 0);
  }
  [[nodiscard]] SchedAdapter& schedule() { return *schedule_; }

 private:
  std::unique_ptr<SchedAdapter> schedule_;
  std::unique_ptr<EvictAdapter> eviction_;
  SchedulerWorld world_;
};

}  // namespace inflight::test
