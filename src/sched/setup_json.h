// SPDX-License-Identifier: Apache-2.0
// All that makes a scheduler what it is, as JSON: the first record of a recording. Keys are the knobs' names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/kv_blocks.h"
#include "sched/latency_model.h"
#include "sched/scheduler_config.h"

namespace inflight {

struct SchedulerSetup {
  SchedulerConfig config;
  KvBlocks::Options blocks;
  uint64_t block_bytes = 0;
  std::string schedule_policy = "fcfs";
  std::string eviction_policy = "lru";
  uint64_t seed = 0;
  std::optional<LatencyModel::Coefficients> latency;  // fixed ones of a simulated device; absent: learnt from the steps
};

[[nodiscard]] std::string to_json(const SchedulerSetup& setup);
// Missing keys keep their defaults.  ERRORS: CorruptFile.
[[nodiscard]] SchedulerSetup parse_setup_json(std::string_view text);

// `config` with the values of a JSON object of limits that may change while a scheduler runs, see
// Engine::reconfigure(). ERRORS: InvalidArgument naming the key; ranges are checked by Scheduler::reconfigure().
[[nodiscard]] SchedulerConfig with_limits(const SchedulerConfig& config, std::string_view json);
// ERRORS: as with_limits().
void check_limits_json(std::string_view json);

}  // namespace inflight
