// SPDX-License-Identifier: Apache-2.0
// `inflight bench sched`: what a step costs the host, without a device.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "sim/sched_bench.h"

namespace inflight::cli {
namespace {

constexpr int32_t kBenchBlocks = 100'000;
constexpr int64_t kBenchChurns = 1'000'000;

struct SchedFlags {
  SchedBenchOptions options;
  int32_t repeat = 5;
  bool as_json = false;
};

void run_bench_sched(const SchedFlags& flags) {
  std::vector<SchedBenchResult> results;
  const SteadyClock clock;
  for (int32_t i = 0; i < flags.repeat; ++i) results.push_back(bench_scheduler(flags.options, clock));
  std::ranges::sort(results, {}, &SchedBenchResult::requests_per_second);
  const SchedBenchResult& median = results[results.size() / 2];
  const std::vector<BlockCost> costs = bench_blocks(kBenchBlocks, kBenchChurns, flags.repeat, clock);
  if (flags.as_json) {
    nlohmann::ordered_json block_ns;
    for (const BlockCost& cost : costs) block_ns[fmt::format("{}", cost.occupancy)] = cost.ns;
    const nlohmann::ordered_json json = {{"requests_per_second", median.requests_per_second},
                                         {"step_us_mean", median.step_us_mean},
                                         {"step_us_p50", median.step_us_p50},
                                         {"step_us_p99", median.step_us_p99},
                                         {"decode_step_us_p50", median.decode_step_us_p50},
                                         {"add_us", median.add_us},
                                         {"scheduled_tokens", median.scheduled_tokens},
                                         {"steps", median.steps},
                                         {"requests", median.requests},
                                         {"policy", flags.options.schedule_policy},
                                         {"block_ns_by_occupancy", block_ns}};
    print_json(json);
    return;
  }
  fmt::print("{} running, {} waiting, policy {}: {} requests/s, {} steps, {} tokens\n", flags.options.running,
             flags.options.waiting, flags.options.schedule_policy,
             grouped(static_cast<int64_t>(median.requests_per_second)), grouped(median.steps),
             grouped(median.scheduled_tokens));
  fmt::print("  a step {:.1f} us (median; p99 {:.1f}), all rows decoding {:.1f} us; adding a request {:.2f} us\n",
             median.step_us_p50, median.step_us_p99, median.decode_step_us_p50, median.add_us);
  fmt::print("  taking a KV block and giving it back:");
  for (const BlockCost& cost : costs) fmt::print(" {:.1f} ns at {:.0f} %", cost.ns, 100.0 * cost.occupancy);
  fmt::print(" of the pool in use\n");
}

}  // namespace

void add_bench_sched(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand("sched", "The scheduler alone: host time of a step, no device");
  const auto flags = std::make_shared<SchedFlags>();
  SchedBenchOptions& options = flags->options;
  command->add_option("--running", options.running, "Sequences running at once [256]");
  command->add_option("--waiting", options.waiting, "Requests waiting at the begin [1000]");
  command->add_option("--prompt-tokens", options.prompt_tokens, "Tokens of each prompt, all unique [512]");
  command->add_option("--output-tokens", options.output_tokens, "Tokens of each answer [128]");
  command->add_option("--max-num-batched-tokens", options.max_num_batched_tokens, "Tokens of a step [2048]");
  command->add_option("--kv-blocks", options.kv_blocks, "Blocks of the pool [as many as all that run need]")
      ->check(CLI::Range(1, limits::kBlocksMax));
  command->add_option("--policy,--schedule-policy", options.schedule_policy, "Scheduling policy [fcfs]");
  command->add_option("--evict,--radix-eviction-policy", options.eviction_policy, "Eviction strategy [lru]");
  command->add_flag_callback(
      "--no-prefix-caching", [&options] { options.prefix_caching = false; }, "Without the prefix cache");
  command->add_option("--repeat", flags->repeat, "Runs; the median is shown [5]")->check(CLI::Range(1, 1000));
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { run_bench_sched(*flags); });
}

}  // namespace inflight::cli
