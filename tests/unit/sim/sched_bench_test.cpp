// SPDX-License-Identifier: Apache-2.0
// Goal: the scheduler's benchmark measures the workload that the peers were measured with (PLUGINS d): 1,256 requests
// of 639 computed tokens; and a steady decode step allocates nothing.
#include "sim/sched_bench.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "plugin_host/policies.h"
#include "sched/scheduler.h"
#include "sim/workload.h"
#include "support/manual_clock.h"

namespace {
int64_t allocation_count = 0;
}  // namespace

// Counts every allocation of this test program.
void* operator new(size_t size) {
  ++allocation_count;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace inflight {
namespace {

TEST(SchedBench, ComputesEveryTokenOnce) {
  const test::ManualClock clock;
  for (const bool overlap : {false, true}) {
    const SchedBenchResult result = bench_scheduler({.overlap = overlap}, clock);
    EXPECT_EQ(result.requests, 1256);
    EXPECT_EQ(result.scheduled_tokens, 802'584);
    EXPECT_GE(result.steps, 700);
    EXPECT_LE(result.steps, 800);
  }
}

// The figures of `inflight bench sched` for KV blocks: one for each occupancy, by a clock that stands still.
TEST(SchedBench, MeasuresBlocksAtEveryOccupancy) {
  const test::ManualClock clock;
  const auto costs = bench_blocks(400, 3200, 2, clock);
  ASSERT_EQ(costs.size(), 5U);
  EXPECT_EQ(costs.front().occupancy, 0.0);
  EXPECT_EQ(costs.back().occupancy, 0.95);
  for (const BlockCost& cost : costs) EXPECT_EQ(cost.ns, 0.0);
}

// STYLE 4.1: no allocation in the steady decode step, with prefix cache and a policy behind the plugin interface.
TEST(SchedBench, ADecodeStepAllocatesNothing) {
  for (const char* name : {"fcfs", "lpm", "priority"}) {
    SchedulerSetup setup;
    setup.config = {.max_num_seqs = 32, .max_num_batched_tokens = 512, .max_model_len = 512, .max_requests = 64};
    setup.blocks = {.block_count = 2048};
    setup.schedule_policy = name;
    const auto eviction = make_eviction_policy("lru", setup, {});
    KvBlocks blocks(setup.blocks, *eviction);
    const auto policy = make_schedule_policy(name, setup, {});
    Scheduler scheduler(setup.config, blocks, *policy);
    eviction->attach(blocks, scheduler.latency_model());
    for (uint64_t i = 1; i <= 40; ++i) {
      Request request;
      request.id = static_cast<RequestId>(i);
      append_stream(i, 0, 16, request.prompt);
      request.sampling.max_tokens = 400;
      scheduler.add(std::move(request), 0);
    }
    StepResult result;
    result.sampled.reserve(32);
    const auto step = [&] {
      const BatchPlan& plan = scheduler.plan(0);
      result.step = plan.step;
      result.sampled.clear();
      for (const BatchEntry& entry : plan.entries) {
        if (entry.samples) result.sampled.push_back({.sequence = entry.sequence, .token = 7});
      }
      scheduler.commit(result, 0);
      scheduler.output().clear();
    };
    for (int i = 0; i < 100; ++i) step();
    const int64_t before = allocation_count;
    for (int i = 0; i < 100; ++i) step();
    EXPECT_EQ(allocation_count - before, 0) << name;
  }
}

}  // namespace
}  // namespace inflight
