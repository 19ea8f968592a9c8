// SPDX-License-Identifier: Apache-2.0
// Goal: with several replicas, and with separate pools for prompts and decodes, every request counts once, whoever
// serves it. Method: workloads of which it is known beforehand where their requests go and what is found stored; a
// device that takes a microsecond a token.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/attended_tokens.h"
#include "sim/replica.h"
#include "sim/sim_spec.h"
#include "sim/simulated_executor.h"

namespace inflight {
namespace {

SimSpec pools(const nlohmann::json& more) {
  nlohmann::json spec = {{"device", "gpu-7b"}, {"replicas", 2}, {"prefill_replicas", 1}};
  spec.update(more);
  return parse_sim_spec(spec.dump());
}

SimResult run_spec(const SimSpec& spec) { return run_simulation(spec.options, load_workload(spec), SteadyClock()); }

// 20 prompts, one by one, of 1,024 shared tokens and 128 of their own: all but the first find what they share.
TEST(Replicas, PoolsCountAPromptOnce) {
  const SimResult result =
      run_spec(pools({{"workload", "prefix,requests=20,prefix_groups=1,prefix=1024,prompt=128,output=20,rate=0.1"}}));
  EXPECT_EQ(result.scheduler.prompt_tokens, 20 * 1152);
  EXPECT_EQ(result.scheduler.cached_tokens, 19 * 1024);
  EXPECT_DOUBLE_EQ(result.prefix_hit_rate(), 19.0 * 1024 / (20 * 1152));
}

// What came over the link was not computed here: with all pools, a token each but the answers' last ones.
TEST(Replicas, PoolsCountWhatTheyCompute) {
  nlohmann::json spec = {{"workload", "uniform,requests=50,prompt=2-300,output=1-40"}, {"prefix_caching", "off"}};
  const Workload workload = load_workload(pools(spec));
  const auto all_pairs = [&](int32_t window) {
    int64_t pairs = 0;
    for (const SimRequest& request : workload.requests)
      pairs += attended_tokens(0, request.prompt_tokens + request.output_tokens - 1, window);
    return pairs;
  };
  int64_t tokens = workload.output_tokens() - 50;
  for (const SimRequest& request : workload.requests) tokens += request.prompt_tokens;
  const struct {
    const char* windows;
    int64_t pairs, tolerance;  // a half for each entry
  } cases[] = {{"", all_pairs(0), 0},
               {",sliding_window=100", all_pairs(100), 0},
               {",local_window=100,local_share=0.5", (all_pairs(0) + all_pairs(100)) / 2, tokens / 2}};
  for (const auto& [windows, pairs, tolerance] : cases) {
    spec["device"] = std::string("gpu-7b") + windows;
    const SimResult result = run_spec(pools(spec));
    EXPECT_EQ(result.scheduler.preemptions, 0) << windows;
    EXPECT_EQ(result.scheduler.scheduled_tokens, tokens) << windows;
    EXPECT_LE(std::abs(result.scheduler.attended_tokens - pairs), tolerance) << windows;
  }
}

TEST(Replicas, PoolsCountWhoIsRejectedAsRejected) {
  SimSpec spec = pools({{"workload", "closed,requests=20,output=5"}, {"max_num_seqs", 2}});
  spec.options.max_queued = 6;
  const SimResult result = run_spec(spec);
  EXPECT_EQ(result.scheduler.requests_finished + result.rejected, 20);
  EXPECT_GE(result.rejected, 12);
}

TEST(Replicas, SaysWhichOneRejected) {
  SimSpec spec = parse_sim_spec(
      R"({"workload": "closed,requests=60,output=50", "device": "unit", "replicas": 3, "max_num_seqs": 2,
          "routing": "round_robin"})");
  spec.options.max_queued = 6;
  std::map<int32_t, int> rejected;
  for (const RequestRecord& record : run_spec(spec).requests) {
    if (record.reason == FinishReason::Error) ++rejected[record.replica];
  }
  EXPECT_EQ(rejected, (std::map<int32_t, int>{{0, 12}, {1, 12}, {2, 12}}));
}

struct OneReplica {
  explicit OneReplica(Stage stage)
      : spec(parse_sim_spec(R"({"workload": "closed,requests=2,prompt=100,output=10,e2e_ms=900,ttft_ms=300",
                                "device": "unit", "overlap": "off"})")),
        workload(load_workload(spec)),
        model(spec.options.device),
        replica({.setup = resolved_setup(spec.options, workload), .overlap = false, .stage = stage}, model, workload,
                [](const RequestRecord&) {}) {}
  SimSpec spec;
  Workload workload;
  DeviceModel model;
  Replica replica;
};

// What came over the link at 500 ms was asked for at 100 ms, and has its first token.
TEST(Replicas, DeadlinesCountFromWhenTheClientAsked) {
  OneReplica decode(Stage::Decode);
  decode.replica.add(0, 500'000'000, 100'000'000);
  const Request& request = decode.replica.scheduler().sequence(0).request;
  EXPECT_EQ(request.arrival, 100'000'000);
  EXPECT_EQ(request.e2e_deadline, 1'000'000'000);
  EXPECT_EQ(request.ttft_deadline, kNoDeadline);
}

TEST(Replicas, AComputedPromptIsNoLoad) {
  OneReplica whole(Stage::Whole);
  whole.replica.add(0, 0, 0);
  EXPECT_EQ(whole.replica.outstanding_tokens(), 110);
  ASSERT_TRUE(whole.replica.step(1));  // the prompt and the first token
  EXPECT_EQ(whole.replica.outstanding_tokens(), 9);
  while (!whole.replica.idle()) (void)whole.replica.step(kNoDeadline);
  EXPECT_EQ(whole.replica.outstanding_tokens(), 0);
}

// One by one, each through both pools: every replica of each pool gets each second one.
TEST(Replicas, RoundRobinGoesRoundInEachPool) {
  const SimResult result = run_spec(pools({{"workload", "poisson,requests=40,rate=0.1,prompt=100,output=10"},
                                           {"routing", "round_robin"},
                                           {"replicas", 4},
                                           {"prefill_replicas", 2}}));
  std::map<int32_t, int> served;
  for (const RequestRecord& record : result.requests) ++served[record.replica];
  EXPECT_EQ(served, (std::map<int32_t, int>{{2, 20}, {3, 20}}));
}

// Conversations with adapters: their K and V are stored apart, and where they are is found all the same.
TEST(Replicas, PrefixRoutingFindsWhatAnAdapterComputed) {
  const nlohmann::json spec = {{"workload", "multiturn,requests=200,turns=5,prefix=0,adapters=3,rate=0.2,think_ms=1"},
                               {"device", "gpu-7b"},
                               {"replicas", 4},
                               {"routing", "prefix"}};
  const SimSpec parsed = parse_sim_spec(spec.dump());
  const Workload workload = load_workload(parsed);
  const SimResult result = run_simulation(parsed.options, workload, SteadyClock());
  for (const RequestRecord& record : result.requests) {
    const SimRequest& request = workload.requests[static_cast<size_t>(record.request)];
    if (request.after == kNoRequest) continue;
    // All that was said but its last tokens, which fill no block or were never computed.
    EXPECT_GE(record.cached_tokens, request.prompt_tokens - 64 - 2 * 16);
  }
}

struct DecodeReplica {
  explicit DecodeReplica(const DeviceProfile& profile = {.token_us = 1.0}) : model(profile) {
    executor.set_script(SequenceId{1}, {});
    executor.set_prefill_free();
  }
  // Microseconds of a step that computes so many tokens of the sequence.
  TimeNs step(int32_t computed, int32_t count, bool samples) {
    BatchPlan plan;
    plan.step = ++steps;
    plan.scheduled_token_count = count;
    plan.sampled_row_count = samples ? 1 : 0;
    plan.entries.push_back({.sequence = SequenceId{1},
                            .computed_token_count = computed,
                            .scheduled_token_count = count,
                            .samples = samples,
                            .phase = samples && count == 1 ? Phase::Decode : Phase::Prefill});
    executor.submit(plan);
    return executor.wait().duration / 1000;
  }
  DeviceModel model;
  SimClock clock;
  SimulatedExecutor executor{model, clock, false, 0};
  uint64_t steps = 0;
};

// Only what came from the other pool is free: after a preemption K and V are gone, and computed again.
TEST(Replicas, ADecodePoolPaysForWhatItLost) {
  DecodeReplica whole;
  EXPECT_EQ(whole.step(0, 101, true), 1);
  EXPECT_EQ(whole.step(101, 1, true), 1);
  EXPECT_EQ(whole.step(102, 1, true), 1);
  EXPECT_EQ(whole.step(0, 104, true), 104);  // preempted
  EXPECT_EQ(whole.step(48, 57, true), 57);   // again; its first blocks were stored

  DecodeReplica in_parts;
  EXPECT_EQ(in_parts.step(0, 60, false), 1);
  EXPECT_EQ(in_parts.step(0, 80, false), 60);  // lost while it entered: 60 tokens that had come, 20 that come now
  EXPECT_EQ(in_parts.step(80, 21, true), 1);
  EXPECT_EQ(in_parts.step(0, 102, true), 102);
}

// The first token that is made here attends to all that came, as the next one does.
TEST(Replicas, TheFirstTokenInADecodePoolReadsItsContext) {
  DecodeReplica replica({.kv_read_ns = 1000.0});
  EXPECT_EQ(replica.step(0, 60, false), 0);
  EXPECT_EQ(replica.step(60, 41, true), 101);
  EXPECT_EQ(replica.step(101, 1, true), 102);
}

}  // namespace
}  // namespace inflight
