// SPDX-License-Identifier: Apache-2.0
// Goal: the simulator reproduces figures that follow from arithmetic alone: slot counts of static and continuous
// batching, times of a device of constant speed, closed loops, routing.
// Covers: sim/simulation.cpp, sim/replica.cpp, sim/simulated_executor.cpp, sim/sim_spec.cpp, sim/sim_result.cpp
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/log.h"
#include "sim/sim_spec.h"
#include "sim/workload_spec.h"
#include "support/expect_error.h"
#include "support/simulated.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

// checklist 129, 130: four requests of 50, 60, 400 and 80 tokens in four slots.
TEST(Simulation, StaticBatchOfFourWastesWhatTheFormulaSays) {
  const auto result = test::simulated(
      {{"workload", "lengths=50,60,400,80"}, {"max_num_seqs", 4}, {"batching", "static"}, {"device", "unit"}});
  EXPECT_EQ(result["steps"], 400);
  EXPECT_EQ(result["requests"], 4);
  EXPECT_DOUBLE_EQ(result["static_efficiency"], 0.36875);
  EXPECT_DOUBLE_EQ(result["useful_slot_share"], 0.36875);
  EXPECT_EQ(result["static_cycles"], 400);
}

// What it says of static batches is what such a run reaches, also where the last batch is not full.
TEST(Simulation, StaticBatchesOfTooFewRequestsLeaveSlotsEmpty) {
  const auto result = test::simulated({{"workload", "closed,requests=65,prompt=1,output=100"},
                                       {"batching", "static"},
                                       {"device", "unit"},
                                       {"max_num_seqs", 64}});
  EXPECT_DOUBLE_EQ(result["static_useful_slot_share"], 65.0 * 100.0 / (200.0 * 64.0));
  EXPECT_DOUBLE_EQ(result["static_efficiency"], 1.0);
  EXPECT_DOUBLE_EQ(result["useful_slot_share"], result["static_useful_slot_share"]);
}

TEST(Simulation, ShortOnesLeaveAContinuousBatchAtOnce) {  // checklist 14
  const SimSpec spec =
      parse_sim_spec(R"({"workload": "lengths=50,60,400,80", "max_num_seqs": 4, "device": "unit", "overlap": "off"})");
  const Workload workload = load_workload(spec);
  const SimResult result = run_simulation(spec.options, workload, SteadyClock());
  std::vector<int64_t> ends;
  for (const RequestRecord& record : result.requests) ends.push_back(record.end / 1'000'000);
  EXPECT_EQ(ends, (std::vector<int64_t>{50, 60, 80, 400}));
  EXPECT_DOUBLE_EQ(result.itl.mean, 1.0);
}

TEST(Simulation, ContinuousBatchingWinsOnBimodalLengths) {  // checklist 132, 133
  nlohmann::json spec = {{"workload", "bimodal,requests=400,seed=7"}, {"max_num_seqs", 8}, {"device", "unit"}};
  const auto continuous = test::simulated(spec);
  spec["batching"] = "static";
  const auto fixed = test::simulated(spec);
  EXPECT_GE(continuous["useful_slot_share"], 0.85);
  EXPECT_LE(fixed["useful_slot_share"], 0.5);
  EXPECT_GE(fixed["steps"].get<double>() / continuous["steps"].get<double>(), 2.0);
  EXPECT_EQ(fixed["steps"], fixed["static_cycles"]);
}

TEST(Simulation, ABacklogKeepsEverySlotFilled) {  // checklist 131; with overlap a slot is empty for a step at each end
  const auto result = test::simulated(
      {{"workload", "bimodal,requests=400,seed=7"}, {"max_num_seqs", 8}, {"device", "unit"}, {"overlap", "off"}});
  EXPECT_GE(result["backlog_slot_share"], 0.99);
}

// checklist 47: a sequence of 400 tokens keeps the window and a block more (blocks are given back whole), so that four
// run in what one would fill; the recording of such a run is replayed step by step.
TEST(Simulation, ASlidingWindowKeepsOnlyItsBlocks) {
  nlohmann::json spec = {{"workload", "closed,requests=4,prompt=16,output=384"},
                         {"device", "unit,sliding_window=64"},
                         {"kv_blocks", 25},
                         {"schedule_conservativeness", 0},
                         {"prefix_caching", "off"}};
  const auto windowed = test::simulated(spec);
  EXPECT_EQ(windowed["preemptions"], 0);
  EXPECT_LE(windowed["kv_growth"]["peak"]["tokens_per_sequence"], 64 + 16);
  // Each position p computes min(p + 1, 64) pairs; the last of 400 tokens is never computed.
  EXPECT_EQ(windowed["attended_tokens"], 4 * (64 * 65 / 2 + (399 - 64) * 64));
  // Room that is kept for output to come is what the window lets it hold.
  spec["schedule_conservativeness"] = 1;
  EXPECT_EQ(test::simulated(spec)["makespan_s"], windowed["makespan_s"]);
  spec["schedule_conservativeness"] = 0;
  spec["device"] = "unit";
  EXPECT_GT(test::simulated(spec)["preemptions"], 0);
}

// A decode at position p reads p + 1 tokens in one of four layers, in the others 64 at most; time is by just that.
TEST(Simulation, LayersWithWindowsOfTheirOwnReadLess) {
  const nlohmann::json spec = {{"workload", "closed,requests=1,prompt=16,output=384"},
                               {"device", "unit,kv_read_ns=1000,local_window=64,local_share=0.75"},
                               {"overlap", "off"}};
  const auto result = test::simulated(spec);
  int64_t quarters = 0;
  for (int position = 16; position < 399; ++position) quarters += 3 * std::min(position + 1, 64) + position + 1;
  const auto decodes = result["attended_tokens"].get<int64_t>() - 16 * 17 / 2;
  EXPECT_LE(std::abs(4 * decodes - quarters), 2 * 383);
  EXPECT_NEAR(result["makespan_s"].get<double>(), 384e-3 + static_cast<double>(decodes) * 1e-6, 1e-9);
}

TEST(Simulation, EqualLengthsGainNothing) {  // checklist 133
  nlohmann::json spec = {
      {"workload", "closed,requests=64,prompt=16,output=50"}, {"max_num_seqs", 8}, {"device", "unit"}};
  const auto continuous = test::simulated(spec);
  spec["batching"] = "static";
  const auto fixed = test::simulated(spec);
  EXPECT_LE(fixed["steps"].get<double>() / continuous["steps"].get<double>(), 1.05);
}

TEST(Simulation, AnIdleEngineTakesTimeToWake) {
  const nlohmann::json device = {{"device", "unit,pickup_us=500"}, {"overlap", "off"}};
  nlohmann::json spec = device;
  spec["workload"] = "lengths=2,2";  // both are there at the begin: it wakes once
  EXPECT_DOUBLE_EQ(test::simulated(spec)["makespan_s"], 0.0025);
  spec["workload"] = "poisson,requests=20,rate=1,prompt=4,output=2";  // far apart: it wakes for each
  const auto apart = test::simulated(spec);
  EXPECT_DOUBLE_EQ(apart["ttft_ms"]["p50"], 1.5);
  EXPECT_DOUBLE_EQ(apart["ttft_ms"]["max"], 1.5);
  EXPECT_DOUBLE_EQ(apart["itl_ms"]["mean"], 1.0);
}

// A run begins after a rest of 20 ms: log2(1 + 20 / 0.1) = 7.6511 times wake_us, nothing, warm_us, 0.7 warm_us, ...; of
// the last 0.1 s 1 - exp(-0.2) = 0.18127 were idle, exp(-0.01) of that a millisecond later.
TEST(Simulation, TheFirstStepsAfterARestAreSlow) {
  nlohmann::json spec = {{"device", "unit,wake_us=100,warm_us=50"}, {"workload", "lengths=4,4"}, {"overlap", "off"}};
  EXPECT_NEAR(test::simulated(spec)["makespan_s"].get<double>(), 4e-3 + 765.11e-6 + 50e-6 + 35e-6, 1e-7);
  spec["overlap"] = "on";
  EXPECT_NEAR(test::simulated(spec)["makespan_s"].get<double>(), 4e-3 + 765.11e-6 + 50e-6 + 35e-6, 1e-7);
  spec = {{"device", "unit,idle_us=1000"}, {"workload", "lengths=2"}, {"overlap", "off"}};
  const double first = 1e-3 * (1.0 + 0.181269), second = 1e-3 * (1.0 + 0.181269 * std::exp(-10.0 * first));
  EXPECT_NEAR(test::simulated(spec)["makespan_s"].get<double>(), first + second, 1e-8);
  // Ten seconds apart on average: all of the last 0.1 s.
  spec["workload"] = "poisson,requests=21,rate=0.1,prompt=4,output=1";
  EXPECT_NEAR(test::simulated(spec)["ttft_ms"]["p50"].get<double>(), 2.0, 1e-3);
  spec["device"] = "unit,wake_us=100";
  const double log2_of_ten_seconds = 16.61;
  EXPECT_NEAR(test::simulated(spec)["ttft_ms"]["p50"].get<double>(), 1.0 + 0.1 * log2_of_ten_seconds, 0.1);
}

// PLUGINS (d): 1,256 requests, 639 tokens each to compute.
TEST(Simulation, ClosedLoopComputesEveryTokenOnce) {
  const auto result = test::simulated({{"workload", "closed,requests=1256,prompt=512,output=128"},
                                       {"max_num_seqs", 256},
                                       {"max_num_batched_tokens", 2048},
                                       {"kv_blocks", 12000},
                                       {"device", "unit"}});
  EXPECT_EQ(result["scheduled_tokens"], 802'584);
  EXPECT_EQ(result["requests"], 1256);
  EXPECT_EQ(result["preemptions"], 0);
}

TEST(Simulation, ConcurrencyKeepsClientsWaiting) {
  // Two clients, unit steps of 1 ms, 10 tokens each: five rounds of 10 ms.
  const auto result = test::simulated(
      {{"workload", "closed,requests=10,prompt=4,output=10,concurrency=2"}, {"device", "unit"}, {"overlap", "off"}});
  EXPECT_DOUBLE_EQ(result["makespan_s"], 0.05);
  EXPECT_DOUBLE_EQ(result["e2e_ms"]["max"], 10.0);
}

// A client asks for four answers at once, thinks, and asks for the next four.
TEST(Simulation, AllBranchesOfAClientArrive) {
  const SimSpec spec = parse_sim_spec(
      R"({"workload": "branches,requests=12,branches=4,prompt=16,output=10,concurrency=1,think_ms=50", "device": "unit",
          "overlap": "off"})");
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
  ASSERT_EQ(result.requests.size(), 12U);
  std::vector<TimeNs> arrivals(12);
  for (const RequestRecord& record : result.requests) arrivals[static_cast<size_t>(record.request)] = record.arrival;
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(arrivals[i], arrivals[i / 4 * 4]) << i;
  EXPECT_GT(arrivals[8], arrivals[4] + 10 * 1'000'000);
}

// The next four come when the longest answer has ended, on whichever replica.
TEST(Simulation, AClientWaitsForAllItsBranches) {
  for (const int32_t replicas : {1, 3}) {
    SimSpec spec = parse_sim_spec(
        R"({"workload": "branches,requests=40,branches=4,prompt=16,output=1-90,concurrency=1", "device": "unit"})");
    spec.options.replicas = replicas;
    const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
    std::vector<RequestRecord> records(40);
    for (const RequestRecord& record : result.requests) records[static_cast<size_t>(record.request)] = record;
    for (size_t i = 4; i < 40; ++i) {
      const auto before = std::span(records).subspan(i / 4 * 4 - 4, 4);
      EXPECT_EQ(records[i].arrival, std::ranges::max_element(before, {}, &RequestRecord::end)->end) << i;
    }
  }
}

// 100 requests, ten at a time, ten steps of a millisecond each: after 25 ms 20 have ended, 10 run and 70 wait, in the
// engine or, where that takes no more, at the client.
TEST(Simulation, WhoIsCutOffByTheTimeLimitHasMissedTheDeadlines) {
  for (const int32_t max_requests : {100, 15}) {
    const auto result = test::simulated({{"workload", "closed,requests=100,prompt=4,output=10,ttft_ms=1000"},
                                         {"max_num_seqs", 10},
                                         {"max_requests", max_requests},
                                         {"device", "unit"},
                                         {"overlap", "off"},
                                         {"time_limit_s", 0.025}});
    EXPECT_EQ(result["requests"], 20);
    EXPECT_EQ(result["requests_unfinished"], 80);
    EXPECT_DOUBLE_EQ(result["deadlines_met_share"], 0.2);
    EXPECT_DOUBLE_EQ(result["makespan_s"], 0.025);
  }
}

TEST(Simulation, NobodyArrivesAfterTheTimeLimit) {
  Workload workload;
  for (const TimeNs arrival : {TimeNs{0}, TimeNs{3600'000'000'000}}) {
    const ContentSegment prompt[] = {{1, 0, 4}};
    workload.add({.arrival = arrival, .output_tokens = 10}, prompt);
  }
  // An engine at rest, and one that makes its first request wait for others or five seconds.
  for (const char* batching : {"continuous", "dynamic"}) {
    SimSpec spec =
        parse_sim_spec(fmt::format(R"({{"workload": "closed", "device": "unit", "overlap": "off", "batching": "{}",
                         "max_batch_delay_ms": 5000, "time_limit_s": 2}})",
                                   batching));
    const SimResult result = run_simulation(spec.options, workload, SteadyClock());
    const bool waits = batching == std::string_view("dynamic");
    EXPECT_EQ(result.makespan, waits ? TimeNs{2'000'000'000} : TimeNs{10'000'000});
    EXPECT_EQ(result.unfinished, waits ? 1 : 0);
  }
}

TEST(Simulation, FollowingTurnsFindTheTurnsBefore) {
  const auto result =
      test::simulated({{"workload", "multiturn,requests=5,turns=5,prefix=0,prompt=64,output=64,think_ms=1"},
                       {"device", "unit"},
                       {"max_model_len", 1024}});
  // Turn t has 64 (2 t - 1) prompt tokens; all but the last 64 and the block with the last token were there before.
  EXPECT_EQ(result["prompt_tokens"], 64 * (1 + 3 + 5 + 7 + 9));
  EXPECT_EQ(result["cached_tokens"], (128 - 16) + (256 - 16) + (384 - 16) + (512 - 16));
}

TEST(Simulation, AnEndTokenEndsBeforeMaxTokens) {
  const auto result = test::simulated({{"workload", "lengths=5,7,max_tokens=100"}, {"device", "unit"}});
  EXPECT_EQ(result["output_tokens"], 12);
}

// With overlap the step after a stop was submitted before the stop was seen: it runs, for nobody. Who comes meanwhile
// waits for its end (the device is no faster) but not for an engine to wake; who comes later finds one that has rested.
// A takes one step and stops; its useless step of 1 ms begins then. B comes `think` after A's end.
TEST(Simulation, WhoComesAfterAStopWaitsForTheUselessStep) {
  const auto wait_of_b = [](const char* device, const char* overlap, TimeNs think) {
    const nlohmann::json keys = {{"workload", "lengths=1"}, {"device", device}, {"overlap", overlap}};
    const SimSpec spec = parse_sim_spec(keys.dump());
    Workload workload;
    const std::array segments = {ContentSegment{1, 0, 16}, ContentSegment{2, 0, 16}};
    workload.add({.output_tokens = 1, .max_tokens = 10}, std::span(segments).first(1));
    workload.add({.arrival = think, .after = 0, .output_tokens = 3, .max_tokens = 10}, std::span(segments).last(1));
    const SimResult result = run_simulation(spec.options, workload, SteadyClock());
    EXPECT_EQ(result.requests[1].arrival, result.requests[0].end + think);
    return static_cast<double>(result.requests[1].first_token - result.requests[1].arrival) * 1e-6;
  };
  for (const char* const device : {"unit", "unit,wake_us=100,pickup_us=500"}) {
    EXPECT_DOUBLE_EQ(wait_of_b(device, "on", 0), 1.0 + 1.0);
    EXPECT_DOUBLE_EQ(wait_of_b(device, "on", 500'000), 0.5 + 1.0);
    EXPECT_DOUBLE_EQ(wait_of_b(device, "on", 1'000'000), 1.0);
  }
  EXPECT_DOUBLE_EQ(wait_of_b("unit", "off", 500'000), 1.0);
  EXPECT_DOUBLE_EQ(wait_of_b("unit", "on", 5'000'000), 1.0);
  const double woken = 0.5 + 1.0;  // pickup_us and the step
  EXPECT_NEAR(wait_of_b("unit,wake_us=100,pickup_us=500", "on", 5'000'000), woken + 0.1 * std::log2(1 + 4 / 0.1), 1e-5);
  EXPECT_NEAR(wait_of_b("unit,wake_us=100,pickup_us=500", "off", 5'000'000), woken + 0.1 * std::log2(1 + 5 / 0.1),
              1e-5);
}

// A client that is always there: each request but the first waits for the useless step of the one before.
TEST(Simulation, StopsCostAClosedLoopAStepEach) {
  nlohmann::json spec = {{"workload", "closed,requests=20,concurrency=1,prompt=16,output=5,max_tokens=50"},
                         {"device", "unit"}};
  EXPECT_DOUBLE_EQ(test::simulated(spec)["makespan_s"], 0.020 * 5 + 0.019);
  EXPECT_DOUBLE_EQ(test::simulated(spec)["ttft_ms"]["mean"], (1.0 + 19 * 2.0) / 20);
  spec["overlap"] = "off";
  EXPECT_DOUBLE_EQ(test::simulated(spec)["makespan_s"], 0.020 * 5);
  EXPECT_DOUBLE_EQ(test::simulated(spec)["ttft_ms"]["mean"], 1.0);
}

// Three sequences of ten blocks each in every step, who end with it: of 40 blocks 30 are held all the time.
TEST(Simulation, KvUseCountsWhoEndsInTheStep) {
  for (const char* const overlap : {"on", "off"}) {
    const auto result = test::simulated({{"workload", "closed,requests=300,prompt=160,output=1"},
                                         {"device", "unit"},
                                         {"kv_blocks", 40},
                                         {"max_num_seqs", 4},
                                         {"max_num_batched_tokens", 640},
                                         {"overlap", overlap}});
    EXPECT_NEAR(result["kv_usage_mean"].get<double>(), 0.75, 0.01) << overlap;
    EXPECT_DOUBLE_EQ(result["kv_usage_max"], 0.75) << overlap;
  }
}

// What policies and the scheduler are told of a step's time is what it takes: slack serves who can still be in time,
// the cheaper way to preempt is taken, and steps keep to their target while long prompts arrive.
TEST(Simulation, DecisionsByTheDevicesTimes) {
  nlohmann::json spec = {
      {"workload", "lognormal,requests=200,rate=3,prompt=12000,output=32,ttft_ms=3000,tight_share=0.3"},
      {"device", "gpu-8b"},
      {"max_num_batched_tokens", 4096}};
  const auto fcfs = test::simulated(spec);
  spec["policy"] = "slack";
  EXPECT_GT(test::simulated(spec)["goodput"].get<double>(), 2 * fcfs["goodput"].get<double>());

  spec = {{"workload", "uniform,requests=150,prompt=6000-8000,output=300-600"},
          {"device", "gpu-8b,swap_block_us=800"},
          {"kv_blocks", 8000},
          {"schedule_conservativeness", 0},
          {"host_kv_blocks", 20000},
          {"max_num_batched_tokens", 2048}};
  std::map<std::string, double> makespan;
  for (const char* const preempt : {"recompute", "swap", "auto"}) {
    spec["preempt"] = preempt;
    makespan[preempt] = test::simulated(spec)["makespan_s"];
  }
  EXPECT_GT(makespan["swap"], 1.1 * makespan["recompute"]);
  EXPECT_LT(makespan["auto"], 1.02 * makespan["recompute"]);

  const auto held =
      test::simulated({{"workload", "uniform,requests=40,prompt=200-8000,output=100-300,arrivals=poisson,rate=0.25"},
                       {"device", "pocl-135m"},
                       {"policy", "itl-target:target_ms=50"}});
  EXPECT_LT(held["itl_ms"]["p99"], 51.0);
}

// Steps of 1 ms: what computed when follows from the lengths.
TEST(Simulation, SharesAreOfTheWholeRunAndOfWhatLiesInIt) {
  for (const char* const overlap : {"on", "off"}) {
    const nlohmann::json unit = {{"device", "unit"}, {"overlap", overlap}, {"kv_blocks", 1000}};
    const auto result_of = [&](nlohmann::json spec) {
      spec.update(unit);
      return test::simulated(spec);
    };
    const auto two = result_of({{"workload", "lengths=1000,10"}, {"replicas", 2}, {"routing", "round_robin"}});
    EXPECT_DOUBLE_EQ(two["device_busy_share"], (1000.0 + 10.0) / 2000.0);
    EXPECT_DOUBLE_EQ(two["prefill_time_share"], 2.0 / 1010.0);
    const auto first = result_of({{"workload", "lengths=1000"}}), second = result_of({{"workload", "lengths=10"}});
    EXPECT_NEAR(two["kv_usage_mean"].get<double>(),
                (1000 * first["kv_usage_mean"].get<double>() + 10 * second["kv_usage_mean"].get<double>()) / 2000,
                1e-12);
    // From 16 to 1,015 tokens in blocks of 16: about 32.5 blocks.
    EXPECT_NEAR(first["kv_usage_mean"].get<double>(), 32.5 / 1000, 0.5 / 1000);
    // The step that runs for nobody when the last one has stopped, and those that the limit cuts off, are not in it.
    EXPECT_DOUBLE_EQ(result_of({{"workload", "lengths=5,max_tokens=50"}})["device_busy_share"], 1.0);
    EXPECT_DOUBLE_EQ(
        result_of({{"workload", "closed,requests=4,output=100"}, {"time_limit_s", 0.05}})["device_busy_share"], 1.0);
  }
}

TEST(Simulation, ReplicasShareTheLoad) {
  for (const char* routing : {"round_robin", "least_loaded", "prefix"}) {
    const auto result = test::simulated({{"workload", "closed,requests=64,prompt=16,output=50"},
                                         {"max_num_seqs", 8},
                                         {"device", "unit"},
                                         {"replicas", 4},
                                         {"overlap", "off"},
                                         {"routing", routing}});
    EXPECT_EQ(result["requests"], 64) << routing;
    EXPECT_NEAR(result["makespan_s"].get<double>(), 0.1, 0.001) << routing;  // 2 rounds of 50 steps each
  }
}

// checklist 119, replicas in the simulator
TEST(Simulation, PrefixRoutingFindsWhatRoundRobinScatters) {
  nlohmann::json spec = {{"workload", "prefix,requests=400,prefix=512,prefix_groups=16,prompt=32,output=8,rate=20"},
                         {"device", "pocl-135m,kv_tokens=4096"},
                         {"replicas", 4},
                         {"routing", "round_robin"}};
  const double scattered = test::simulated(spec)["prefix_hit_rate"];
  spec["routing"] = "prefix";
  const double gathered = test::simulated(spec)["prefix_hit_rate"];
  EXPECT_GT(gathered, 1.3 * scattered);
}

// checklist 123, in the simulator
TEST(Simulation, SeparatePoolsServeEveryTokenOnce) {
  nlohmann::json spec = {{"workload", "poisson,requests=100,rate=2,prompt=1000-4000,output=1-60"},
                         {"device", "gpu-7b"},
                         {"max_num_batched_tokens", 2048},
                         {"replicas", 2}};
  const auto together = test::simulated(spec);
  spec["prefill_replicas"] = 1;
  const auto apart = test::simulated(spec);
  EXPECT_EQ(apart["requests"], 100);
  EXPECT_EQ(apart["output_tokens"], together["output_tokens"]);
  EXPECT_EQ(apart["prompt_tokens"], together["prompt_tokens"]);
  spec["prefill_replicas"] = 2;
  EXPECT_NE(test::error_of(ErrorCode::InvalidArgument, [&] { static_cast<void>(run_simulation_json(spec.dump())); })
                .find("prefill_replicas is 2, allowed: 0 to 1"),
            std::string::npos);
}

TEST(Simulation, SameSpecSameDecisions) {
  const nlohmann::json spec = {{"workload", "lognormal,requests=300,rate=5,seed=3"}, {"device", "pocl-135m"}};
  const auto first = test::simulated(spec), second = test::simulated(spec);
  EXPECT_EQ(first["decision_hash"], second["decision_hash"]);
  EXPECT_EQ(first["makespan_s"], second["makespan_s"]);
}

ErrorCode spec_error(std::string_view spec) {
  return spec.find("nobody") != std::string_view::npos ? ErrorCode::NotFound : ErrorCode::InvalidArgument;
}

// Requests that wait for blocks for longer than limits::kStarvationNs are not starved by their policy.
TEST(Simulation, NoPolicyIsBlamedForWantOfBlocks) {
  const auto result =
      test::simulated({{"workload", "closed,requests=300,prompt=lognormal:200:0.8,output=lognormal:300:0.6"},
                       {"device", "pocl-135m"},
                       {"kv_blocks", 900},
                       {"schedule_conservativeness", 0}});
  EXPECT_GT(result["makespan_s"], 60.0);
  EXPECT_GT(result["preemptions"], 50);
  EXPECT_EQ(result["policy_strikes"], 0);
}

TEST(Simulation, ShortNamesMeanTheLongOnes) {
  const auto result =
      test::simulated({{"workload", "closed,requests=4"}, {"policy", "vtc"}, {"evict", "sieve"}, {"max-num-seqs", 3}});
  EXPECT_EQ(result["schedule_policy"], "vtc");
  EXPECT_EQ(result["radix_eviction_policy"], "sieve");
  EXPECT_EQ(result["max_num_seqs"], 3);
}

TEST(Simulation, AFullWaitingListRejects) {
  const auto result = test::simulated({{"workload", "closed,requests=20,output=5"},
                                       {"max_num_seqs", 2},
                                       {"max_num_queued_reqs", 6},
                                       {"device", "unit"}});
  EXPECT_EQ(result["requests"], 8);  // two run
  EXPECT_EQ(result["requests_rejected"], 12);
}

TEST(Simulation, MistakesAreNamed) {
  const auto message = [](const char* spec) {
    return test::error_of(spec_error(spec), [&] { static_cast<void>(run_simulation_json(spec)); });
  };
  EXPECT_EQ(message("{}"), "nothing to simulate: give a workload or a trace");
  EXPECT_EQ(message(R"({"workload": "closed", "batching": "eager"})"),
            "batching is 'eager', allowed: continuous, prefill_first, dynamic or static");
  EXPECT_NE(message(R"({"workload": "closed", "colour": 1})").find("simulation key 'colour' is unknown"),
            std::string::npos);
  EXPECT_EQ(message(R"({"workload": "closed", "max_num_seqs": "many"})"),
            "max_num_seqs is 'many', allowed: a whole number up to 2147483647");
  EXPECT_EQ(message(R"({"workload": "closed", "max_model_len": 100})"),
            "the workload's longest request has 640 tokens with its output, allowed: 100 (max_model_len)");
  EXPECT_EQ(message(R"({"workload": "closed", "kv_blocks": 10})"),
            "the workload's longest request has 640 tokens with its output, allowed: 160 (kv_blocks 10 of 16 tokens)");
  EXPECT_EQ(message(R"({"workload": "closed", "time_limit_s": 1e10})"),
            "time_limit_s is 10000000000, allowed: 0 (none) to 4000000000");
  EXPECT_EQ(message(R"({"workload": "closed", "time_limit_s": -1})"),
            "time_limit_s is -1, allowed: 0 (none) to 4000000000");
  EXPECT_NE(message(R"({"workload": "closed", "schedule_policy": "nobody"})").find("nobody"), std::string::npos);
}

// Each look at it is a second later.
class HurryingClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now() const override { return now_ += 1'000'000'000; }

 private:
  mutable TimeNs now_ = 0;
};

TEST(Simulation, KeysOfTracesAreNotForWorkloads) {
  for (const char* const key : {"trace_speed", "trace_requests", "trace_acceptance"}) {
    const nlohmann::json spec = {{"workload", "closed"}, {key, 1}};
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, std::string(key) + " is of traces, found the workload 'closed'",
                          [&] { static_cast<void>(parse_sim_spec(spec.dump())); });
  }
}

// docs/TUNING.md, as the engine does.
TEST(Simulation, SwappingWithoutHostBlocksIsWarnedOf) {
  std::string warned;
  set_log_sink([&](LogLevel, std::string_view line) { warned += line; }, LogLevel::Warning);
  for (const char* const preempt : {"swap", "auto", "recompute"}) {
    warned.clear();
    nlohmann::json spec = {{"workload", "closed"}, {"preempt", preempt}};
    static_cast<void>(parse_sim_spec(spec.dump()));
    const std::string expected = fmt::format("preempt is {}, but host_kv_blocks is 0", preempt);
    EXPECT_EQ(warned.starts_with(expected), preempt != std::string_view("recompute")) << warned;
    spec["host_kv_blocks"] = 8;
    warned.clear();
    static_cast<void>(parse_sim_spec(spec.dump()));
    EXPECT_EQ(warned, "");
  }
  set_log_sink({}, LogLevel::Error);
}

TEST(Simulation, AKeyIsGivenUnderOneName) {
  for (const auto& [first, second] : {std::pair{"policy", "schedule_policy"}, {"max_num_seqs", "max-num-seqs"}}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "is given under two names, allowed: one",
                          [&] { test::simulated({{"workload", "closed"}, {first, 4}, {second, 5}}); });
  }
}

// Thinking times one after the other, steps one after the other; where a time limit ends the run before, it may.
TEST(Simulation, VirtualTimeEnds) {
  for (const auto& [workload, device] :
       {std::pair{"closed,concurrency=1,requests=30000,think_ms=1e9,prompt=1,output=1", "unit"},
        {"closed,requests=60,prompt=20000,output=1", "unit,pair_ns=1e9"}}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "goes beyond 4000000000 s of virtual time", [&] {
      test::simulated({{"workload", workload}, {"device", device}, {"max_num_batched_tokens", 20000}});
    });
  }
  const auto cut = test::simulated({{"workload", "closed,concurrency=1,requests=30000,think_ms=1e9,prompt=1,output=1"},
                                    {"device", "unit"},
                                    {"time_limit_s", 1e9}});
  EXPECT_GT(cut["makespan_s"], 9e8);
  EXPECT_LE(cut["makespan_s"], 1e9);
}

TEST(Simulation, APathNeedNotBeUtf8) {
  const test::TempFolder folder;
  const std::string trace =
      folder.write("tr\xff.csv", std::string("TIMESTAMP,ContextTokens,GeneratedTokens\n1,10,5\n"));
  const std::string device = folder.write("dev\xff.json", std::string(R"({"overhead_us": 1000})"));
  const SimSpec spec = read_sim_spec({{"trace", trace}, {"device", device}});
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
  EXPECT_EQ(nlohmann::json::parse(to_json(result))["workload"], "tr\xEF\xBF\xBD.csv");
}

TEST(Simulation, FilesThatKeysName) {
  using Files = std::vector<std::string>;
  EXPECT_EQ(files_named("workload", "closed,prompt=file:a.txt,output=mix:0.5:9:file:b/c.txt,requests=5"),
            (Files{"a.txt", "b/c.txt"}));
  EXPECT_EQ(files_named("max_tokens", "file:a.txt"), Files{"a.txt"});
  EXPECT_EQ(files_named("device", "./dev.json,host_us=5"), Files{"./dev.json"});
  EXPECT_EQ(files_named("device", "unit,host_us=5"), Files{""});
  EXPECT_EQ(files_named("schedule_policy", "./p.ifp.so#vtc:weight_output=2"), Files{"./p.ifp.so"});
  EXPECT_EQ(files_named("schedule_policy", "vtc:weight_output=2"), Files{""});
}

TEST(Simulation, GivesUpAfterTheWallLimit) {
  const std::string spec = R"({"workload": "closed,requests=50", "skip_decodes": "off", "wall_limit_s": )";
  const SimSpec enough = parse_sim_spec(spec + "100000}"), short_of = parse_sim_spec(spec + "2}");
  const Workload workload = load_workload(enough);
  EXPECT_EQ(run_simulation(enough.options, workload, HurryingClock()).requests.size(), 50U);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "takes longer than 2 s (wall_limit_s)",
                        [&] { static_cast<void>(run_simulation(short_of.options, workload, HurryingClock())); });
}

TEST(Simulation, KeepsTheWorkloadWithinLimits) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "requests is '11', allowed: 1 to 10",
                        [] { test::simulated({{"workload", "closed,requests=11"}, {"workload_requests_max", 10}}); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "too many tokens in prompts and outputs, allowed: 99",
                        [] { test::simulated({{"workload", "closed,requests=1"}, {"workload_tokens_max", 99}}); });
}

}  // namespace
}  // namespace inflight
