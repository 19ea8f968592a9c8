// SPDX-License-Identifier: Apache-2.0
#include "sim/sched_bench.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "plugin_host/policies.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"
#include "sim/workload.h"

namespace inflight {
namespace {

// Every step is done at once; every sampled token is the same.
class InstantExecutor final : public Executor {
 public:
  void submit(const BatchPlan& plan) override {
    StepResult& result = results_[(first_ + count_++) % results_.size()];
    result.step = plan.step;
    result.duration = 1'000'000;
    result.sampled.clear();
    for (const BatchEntry& entry : plan.entries) {
      if (entry.samples) result.sampled.push_back({.sequence = entry.sequence, .token = 7});
    }
    all_decode = plan.scheduled_token_count == static_cast<int32_t>(plan.entries.size());
  }
  const StepResult& wait() override {
    const StepResult& result = results_[first_];
    first_ = (first_ + 1) % results_.size();
    --count_;
    return result;
  }
  bool all_decode = false;  // the last submitted step

 private:
  std::array<StepResult, kStepsInFlightMax + 1> results_;
  size_t first_ = 0;
  size_t count_ = 0;
};

double quantile_us(std::vector<TimeNs>& durations, double q) {
  if (durations.empty()) return 0.0;
  const auto at = static_cast<size_t>(q * static_cast<double>(durations.size() - 1));
  std::ranges::nth_element(durations, durations.begin() + static_cast<std::ptrdiff_t>(at));
  return static_cast<double>(durations[at]) * 1e-3;
}

constexpr int64_t kTokensMax = int64_t{1} << 30;  // of all requests: 4 GiB

SchedulerSetup setup_of(const SchedBenchOptions& options) {
  const int64_t requests = int64_t{options.running} + options.waiting;
  const int64_t request_tokens = int64_t{options.prompt_tokens} + options.output_tokens;
  if (options.running < 1 || options.waiting < 0 || requests > limits::kRequestsMax) {
    fail(ErrorCode::InvalidArgument, "running is {}, waiting {}, allowed: from 1 and 0 on, together up to {}",
         options.running, options.waiting, limits::kRequestsMax);
  }
  if (options.prompt_tokens < 1 || options.output_tokens < 1 || requests * request_tokens > kTokensMax) {
    fail(ErrorCode::InvalidArgument,
         "{} requests have {} prompt and {} output tokens each, allowed: from 1 and 1 on, {} together", requests,
         options.prompt_tokens, options.output_tokens, kTokensMax);
  }
  SchedulerSetup setup;
  setup.config.max_num_seqs = options.running;
  setup.config.max_num_batched_tokens = options.max_num_batched_tokens;
  setup.config.max_model_len = static_cast<int32_t>(request_tokens);
  setup.config.max_requests = static_cast<int32_t>(requests);
  setup.blocks.prefix_caching = options.prefix_caching;
  // Ample, as for the peers.
  setup.blocks.block_count =
      options.kv_blocks > 0
          ? options.kv_blocks
          : options.running * (div_ceil(setup.config.max_model_len, setup.blocks.block_token_count) + 1);
  setup.schedule_policy = options.schedule_policy;
  setup.eviction_policy = options.eviction_policy;
  setup.config.validate(int64_t{setup.blocks.block_count} * setup.blocks.block_token_count);
  return setup;
}

}  // namespace

std::vector<BlockCost> bench_blocks(int32_t block_count, int64_t churns, int32_t repeat, const Clock& clock) {
  constexpr int32_t kTableBlocks = 16;
  std::vector<BlockCost> costs;
  for (const double occupancy : {0.0, 0.25, 0.5, 0.75, 0.95}) {
    EvictPolicy lru;
    KvBlocks blocks({.block_count = block_count, .prefix_caching = false}, lru);
    std::vector<BlockId> held, table;
    held.reserve(static_cast<size_t>(block_count));
    table.reserve(kTableBlocks);
    const auto others = static_cast<int32_t>(occupancy * block_count);
    const bool held_fit = blocks.try_extend(held, others);
    INFLIGHT_CHECK(held_fit && block_count - others >= kTableBlocks);
    TimeNs least = std::numeric_limits<TimeNs>::max();
    for (int32_t i = 0; i < repeat; ++i) {
      const TimeNs begin = clock.now();
      for (int64_t churned = 0; churned < churns; churned += kTableBlocks) {
        const bool extended = blocks.try_extend(table, kTableBlocks);
        INFLIGHT_CHECK(extended);
        blocks.release(table);
      }
      least = std::min(least, clock.now() - begin);
    }
    costs.push_back({occupancy, static_cast<double>(least) / static_cast<double>(churns)});
    blocks.release(held);
  }
  return costs;
}

SchedBenchResult bench_scheduler(const SchedBenchOptions& options, const Clock& clock) {
  const SchedulerSetup setup = setup_of(options);
  const auto eviction = make_eviction_policy(setup.eviction_policy, setup, {});
  KvBlocks blocks(setup.blocks, *eviction);
  const auto policy = make_schedule_policy(setup.schedule_policy, setup, {});
  Scheduler scheduler(setup.config, blocks, *policy);
  eviction->attach(blocks, scheduler.latency_model());
  InstantExecutor executor;
  StepLoop loop(scheduler, executor, clock, options.overlap);

  SchedBenchResult result;
  result.requests = int64_t{options.running} + options.waiting;
  std::vector<Request> requests(static_cast<size_t>(result.requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = static_cast<RequestId>(i + 1);
    append_stream(i, 0, options.prompt_tokens, requests[i].prompt);
    requests[i].sampling.max_tokens = options.output_tokens;
    requests[i].tenant = static_cast<uint32_t>(i % 4);
  }
  const TimeNs begin = clock.now();
  for (Request& request : requests) scheduler.add(std::move(request), begin);
  result.add_us = static_cast<double>(clock.now() - begin) * 1e-3 / static_cast<double>(result.requests);

  std::vector<TimeNs> durations, decodes;
  TimeNs total = 0;
  for (;;) {
    const TimeNs before = loop.times().plan + loop.times().commit;
    if (!loop.step()) break;
    const TimeNs taken = loop.times().plan + loop.times().commit - before;
    total += taken;
    durations.push_back(taken);
    if (executor.all_decode && scheduler.running_count() == options.running) decodes.push_back(taken);
    scheduler.output().clear();
  }
  INFLIGHT_CHECK(scheduler.idle());
  result.steps = scheduler.stats().steps;
  result.scheduled_tokens = scheduler.stats().scheduled_tokens;
  result.requests_per_second = static_cast<double>(result.requests) / (static_cast<double>(total) * 1e-9);
  result.step_us_mean = static_cast<double>(total) * 1e-3 / static_cast<double>(std::max<size_t>(durations.size(), 1));
  result.step_us_p50 = quantile_us(durations, 0.5);
  result.step_us_p99 = quantile_us(durations, 0.99);
  result.decode_step_us_p50 = quantile_us(decodes, 0.5);
  return result;
}

}  // namespace inflight
