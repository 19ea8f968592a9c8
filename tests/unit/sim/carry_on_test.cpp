// SPDX-License-Identifier: Apache-2.0
// Goal: walking over equal decode steps changes nothing but the time it takes.
// Method: many workloads, modes and policies, each simulated step by step and with steps skipped: equal decisions,
// times, latencies, counters and evictions.
// Covers: sched/scheduler_carry_on.cpp
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "sim/sim_spec.h"
#include "sim/text_file.h"
#include "support/simulated.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

using Json = nlohmann::json;

Json without_costs(const std::string& text) {
  Json json = Json::parse(text);
  for (const char* key : {"wall_s", "simulated_requests_per_wall_second", "skipped_steps"}) json.erase(key);
  return json;
}

void expect_equal_runs(Json spec, int64_t& skipped) {
  spec["skip_decodes"] = "on";
  const std::string fast = run_simulation_json(spec.dump());
  spec["skip_decodes"] = "off";
  const std::string slow = run_simulation_json(spec.dump());
  EXPECT_EQ(without_costs(fast), without_costs(slow)) << spec.dump();
  EXPECT_EQ(Json::parse(slow)["skipped_steps"], 0);
  skipped += Json::parse(fast)["skipped_steps"].get<int64_t>();
}

TEST(CarryOn, EqualToStepByStep) {
  Rng rng(11);
  const auto one_of = [&](std::initializer_list<const char*> names) { return names.begin()[rng.below(names.size())]; };
  int64_t skipped = 0;
  for (int run = 0; run < 150; ++run) {
    const std::string kind = one_of({"bimodal", "closed,concurrency=5", "poisson,rate=3", "gamma,rate=4",
                                     "multiturn,rate=2", "prefix,rate=3", "uniform", "tenants,rate=3"});
    Json spec = {
        {"workload", kind + fmt::format(",requests=40,seed={},prompt=5-90,output=1-200,max_tokens={},acceptance={}",
                                        run, one_of({"0", "300", "1-250"}), one_of({"none", "0.7"}))},
        {"speculative_config", one_of({"", "", R"({"num_speculative_tokens": 3})"})},
        {"device", one_of({"unit", "pocl-135m", "gpu-8b"})},
        {"max_num_seqs", rng.between(1, 12)},
        {"max_num_batched_tokens", rng.between(16, 128)},
        {"batching", one_of({"continuous", "prefill_first", "dynamic", "static"})},
        {"schedule_policy", one_of({"fcfs", "lpm", "vtc", "priority", "sjf", "itl-target"})},
        {"radix_eviction_policy", one_of({"lru", "lfu", "s3fifo", "sieve", "gdsf"})},
        {"overlap", one_of({"on", "off"})},
        {"prefix_caching", one_of({"on", "on", "off"})},
        {"preempt", one_of({"recompute", "swap", "auto"})},
        {"preempt_victim", one_of({"last_admitted", "cheapest"})},
        {"host_kv_blocks", 64},
        {"schedule_conservativeness", one_of({"0", "0.5"})},
        {"block_size", one_of({"4", "16"})},
        {"max_model_len", 2400},
    };
    spec["kv_blocks"] = (spec["block_size"] == "4" ? 600 : 150) + rng.between(0, 100);
    expect_equal_runs(spec, skipped);
    if (HasFailure()) return;
  }
  EXPECT_GT(skipped, 10'000);
}

// A step's jitter is that step's, however it is run, and so is what a rest costs the steps after it.
TEST(CarryOn, EqualWithJitter) {
  DeviceProfile profile = find_device_profile("pocl-135m");
  profile.decode_jitter = {{0.0, {0.8, 1.0, 1.1, 2.0}}, {1500.0, {0.9, 1.3}}};
  profile.prompt_jitter = {{0.0, {0.9, 1.2}}};
  profile.wake_us = 500.0;
  profile.warm_us = 2000.0;
  profile.idle_us = 3000.0;
  const test::TempFolder folder;
  write_text_file(folder.file("noisy.json"), to_json(profile));
  int64_t skipped = 0;
  for (const char* const workload : {"bimodal,requests=60", "poisson,rate=3,requests=60,output=20-200"}) {
    for (const char* const overlap : {"on", "off"}) {
      expect_equal_runs({{"workload", workload},
                         {"device", folder.file("noisy.json")},
                         {"max_num_seqs", 8},
                         {"max_num_batched_tokens", 256},
                         {"overlap", overlap}},
                        skipped);
    }
  }
  EXPECT_GT(skipped, 100);
}

TEST(CarryOn, EqualWithReplicas) {
  int64_t skipped = 0;
  expect_equal_runs(
      {{"workload", "poisson,rate=8,requests=80,output=10-100"}, {"replicas", 3}, {"device", "pocl-135m"}}, skipped);
  expect_equal_runs({{"workload", "multiturn,rate=8,requests=80"}, {"replicas", 3}, {"device", "pocl-135m"}}, skipped);
  EXPECT_GT(skipped, 0);
}

// Whose windows are full reads no more in the next step.
TEST(CarryOn, NotWhereLayersHaveWindowsOfTheirOwn) {
  int64_t skipped = 0;
  expect_equal_runs({{"workload", "closed,requests=20,prompt=16,output=100"},
                     {"device", "pocl-135m,local_window=40,local_share=0.8"}},
                    skipped);
  EXPECT_EQ(skipped, 0);
}

TEST(CarryOn, LongOutputsTakeFewPlans) {
  const Json spec = {{"workload", "closed,requests=64,output=1000"},
                     {"max_num_seqs", 64},
                     {"max_num_batched_tokens", 32768},
                     {"device", "unit"}};
  EXPECT_GE(test::simulated(spec)["skipped_steps"], 990);
}

}  // namespace
}  // namespace inflight
