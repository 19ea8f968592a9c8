// SPDX-License-Identifier: Apache-2.0
// Policies by name, as the engine would make them for a SchedulerWorld.
#pragma once

#include <memory>
#include <string>

#include "plugin_host/policies.h"
#include "support/scheduler_world.h"

namespace inflight::test {

inline SchedulerSetup setup_of(const WorldOptions& world) { return {.config = world.config, .blocks = world.blocks}; }

// A world whose policies are loaded ones; empty names: the host's own.
class LoadedWorld {
 public:
  LoadedWorld(const WorldOptions& options, const std::string& schedule, const std::string& eviction = "")
      : schedule_(schedule.empty() ? nullptr : make_schedule_policy(schedule, setup_of(options), {})),
        eviction_(eviction.empty() ? nullptr : make_eviction_policy(eviction, setup_of(options), {})),
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
