// SPDX-License-Identifier: Apache-2.0
// Goal: what the field says of chunked prefill, prefix-aware order and mixed steps holds in the simulator, on the
// device that was measured. Method: workloads made for the claim; both arms in one run of the real scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sched/trace_format.h"
#include "sim/sim_spec.h"
#include "support/simulated.h"

namespace inflight {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

void add_request(Workload& workload, TimeNs arrival, int32_t prompt, int32_t output) {
  SimRequest request;
  request.arrival = arrival;
  request.output_tokens = request.max_tokens = output;
  const uint64_t stream = workload.requests.size() + 1;
  request.output_stream = 1000 + stream;
  const ContentSegment segment{.stream = stream, .offset = 0, .count = prompt};
  workload.add(request, std::span(&segment, 1));
}

SimOptions options_of(int32_t budget, int32_t chunk = 0) {
  SimOptions options;
  options.device = find_device_profile("pocl-135m");
  options.setup.config.max_num_seqs = 32;
  options.setup.config.max_num_batched_tokens = budget;
  options.setup.config.long_prefill_token_threshold = chunk;
  options.setup.blocks.block_count = 8192;
  return options;
}

SimResult simulate(const SimOptions& options, const Workload& workload, SchedulerTrace* trace = nullptr) {
  return run_simulation(options, workload, SteadyClock(), {.trace = trace, .progress = {}});
}

// Eight sequences of 400 tokens decode, and 60 prompts of 4,096 tokens come: so many that one of them is in more than a
// twentieth of the decodes' steps, whatever the budget.
Workload decodes_and_long_prompts() {
  Workload workload;
  for (int i = 0; i < 8; ++i) add_request(workload, 0, 16, 400);
  for (int i = 0; i < 60; ++i) add_request(workload, kSecond / 10, 4096, 1);
  return workload;
}

std::vector<TimeNs> step_durations(const SimOptions& options, const Workload& workload) {
  std::vector<std::byte> bytes;
  TraceEncoder trace(
      [&](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, false);
  simulate(options, workload, &trace);
  std::vector<TimeNs> durations;
  for (const TraceRecord& record : decode_trace(bytes)) {
    if (const auto* commit = std::get_if<TraceCommit>(&record.content)) durations.push_back(commit->duration);
  }
  return durations;
}

// checklist 44: 20,000 tokens at 5,000 are 4 steps. That they take equally long holds for the linear layers only: the
// last chunk attends to 20,000 tokens, the first to 5,000.
TEST(Claims, ATwentyThousandTokenPromptIsFourChunks) {
  for (const bool attention : {true, false}) {
    Workload workload;
    add_request(workload, 0, 20000, 1);
    SimOptions options = options_of(5000);
    if (!attention) options.device.pair_ns = 0.0;
    const auto durations = step_durations(options, workload);
    ASSERT_EQ(durations.size(), 4U);
    const auto [shortest, longest] = std::ranges::minmax(durations);
    const double spread = static_cast<double>(longest) / static_cast<double>(shortest);
    if (attention) {
      EXPECT_GT(spread, 1.5);
    } else {
      EXPECT_LE(spread, 1.01);
    }
  }
}

// checklist 48: a smaller budget gives steadier tokens, a larger one an earlier first token of long prompts.
TEST(Claims, TheBudgetTradesGapsForFirstTokens) {
  double last_itl = 0.0, last_ttft = 1e18;
  for (int32_t budget = 64; budget <= 8192; budget *= 2) {
    const SimResult result = simulate(options_of(budget), decodes_and_long_prompts());
    std::vector<TimeNs> waits;
    for (const RequestRecord& record : result.requests) {
      if (record.request >= 8) waits.push_back(record.first_token - record.arrival);
    }
    const LatencySummary ttft = LatencySummary::of(std::move(waits));
    EXPECT_GE(result.itl.p95, 0.95 * last_itl) << budget;
    EXPECT_LE(ttft.p50, 1.05 * last_ttft) << budget;
    last_itl = result.itl.p95;
    last_ttft = ttft.p50;
  }
}

// checklist 49: without chunks the gaps between tokens are those of whole prompts.
TEST(Claims, WithoutChunksGapsGrow) {
  const Workload workload = decodes_and_long_prompts();
  const SimResult whole = simulate(options_of(4096 + 8), workload);
  const SimResult chunked = simulate(options_of(512), workload);
  EXPECT_GE(whole.itl.p95 / chunked.itl.p95, 3.0);
}

// checklist 50: short prompts that come while a long one is computed.
TEST(Claims, ChunksLetShortPromptsThrough) {
  const auto short_p99 = [](int32_t chunk) {
    Workload workload;
    add_request(workload, 0, 8192, 1);
    for (int i = 1; i <= 40; ++i) add_request(workload, i * kSecond / 20, 32, 1);
    SimOptions options = options_of(8192 + 512, chunk);
    const SimResult result = simulate(options, workload);
    std::vector<TimeNs> waits;
    for (const RequestRecord& record : result.requests) {
      if (record.request > 0) waits.push_back(record.first_token - record.arrival);
    }
    return LatencySummary::of(std::move(waits)).p99;
  };
  EXPECT_LE(short_p99(512) / short_p99(0), 0.5);
}

// checklist 28: one long prompt to twenty short ones. The short ones' first tokens take at most twice as long as
// without the long ones, and a long one three times as long as alone.
TEST(Claims, LongPromptsStarveNobodyAndDoNotStarve) {
  constexpr int32_t kLong = 8192;
  SimOptions options = options_of(512, 128);
  options.device = find_device_profile("gpu-8b");
  const auto first_tokens = [&](bool with_short, bool with_long, int32_t prompt) {
    Workload workload;
    for (int i = 0; i < 400; ++i) {
      if (with_short) add_request(workload, i * kSecond / 25, 32, 8);
      if (with_long && i % 20 == 0) add_request(workload, i * kSecond / 25, kLong, 8);
    }
    const SimResult result = simulate(options, workload);
    std::vector<TimeNs> waits;
    for (const RequestRecord& record : result.requests) {
      if (workload.requests[record.request].prompt_tokens == prompt)
        waits.push_back(record.first_token - record.arrival);
    }
    return LatencySummary::of(std::move(waits));
  };
  EXPECT_LE(first_tokens(true, true, 32).p99, 2.0 * first_tokens(true, false, 32).p99);
  EXPECT_LE(first_tokens(true, true, kLong).max, 3.0 * first_tokens(false, true, kLong).p50);
  options.setup.config.long_prefill_token_threshold = 0;  // without it they do
  EXPECT_GT(first_tokens(true, true, 32).p99, 2.0 * first_tokens(true, false, 32).p99);
}

// checklist 51: a step of decodes and a chunk reads the weights once. That is worth a tenth where reading them is what
// a step waits for, on the GPU, and not on the CPU, where 16 rows of arithmetic already take longer.
TEST(Claims, AMixedStepCostsLessThanTwoOnAGpu) {
  const auto saved = [](const char* name) {
    const DeviceModel device(find_device_profile(name));
    const DeviceWork decode{.tokens = 8, .sequences = 8, .decode_context = 8 * 512};
    const DeviceWork chunk{.tokens = 8, .sequences = 1, .prefill_pairs = 8 * 512};
    const DeviceWork mixed{.tokens = 16, .sequences = 9, .decode_context = 8 * 512, .prefill_pairs = 8 * 512};
    const auto apart = static_cast<double>(device.device_time(decode) + device.device_time(chunk));
    return 1.0 - static_cast<double>(device.device_time(mixed)) / apart;
  };
  EXPECT_GE(saved("gpu-7b"), 0.1);
  EXPECT_LT(saved("pocl-135m"), 0.1);
}

// checklist 38: looking at prefixes costs nothing where there are none, and gains where there are.
TEST(Claims, LongestPrefixFirstNeverCostsThroughput) {
  for (const char* workload : {"closed,requests=120,prompt=256,output=32", "multiturn,requests=120,rate=4",
                               "prefix,requests=120,rate=8,prefix=1024,prefix_groups=12"}) {
    nlohmann::json spec = {{"workload", workload}, {"max_num_seqs", 16}, {"kv_blocks", 1200}};
    const double fcfs = test::simulated(spec)["output_tokens_per_second"];
    spec["policy"] = "lpm";
    EXPECT_GE(test::simulated(spec)["output_tokens_per_second"].get<double>(), 0.97 * fcfs) << workload;
  }
}

// checklist 96: documents asked about in turn, of which the storage holds a quarter.
TEST(Claims, LongestPrefixFirstFindsMoreThanFirstCome) {
  nlohmann::json spec = {
      {"workload", "prefix,requests=400,arrivals=all,prefix=1024,prefix_groups=32,prompt=32,output=8"},
      {"max_num_seqs", 4},
      {"kv_blocks", 32 * 1024 / 16 / 4 + 4 * 8}};
  const double fcfs = test::simulated(spec)["prefix_hit_rate"];
  spec["policy"] = "lpm";
  const double lpm = test::simulated(spec)["prefix_hit_rate"];
  EXPECT_GT(lpm, 2.0 * fcfs);
  EXPECT_GT(lpm, 0.8);  // each document is computed about once: 1 - 32 / 400 of 1024 / 1056 tokens is 0.89
}

}  // namespace
}  // namespace inflight
