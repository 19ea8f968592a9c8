// SPDX-License-Identifier: Apache-2.0
// `inflight sim`: the engine's scheduler on a virtual clock. Options become the keys of sim_spec.h one to one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "cli/sim_options.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "sim/sim_spec.h"
#include "sim/text_file.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

std::string summary_line(const char* name, const LatencySummary& latency) {
  return fmt::format("  {:<6} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f}\n", name, latency.mean, latency.p50, latency.p95,
                     latency.p99);
}

std::string to_text(const SimResult& result) {
  const SchedulerStats& stats = result.scheduler;
  std::string text;
  text += fmt::format("{} requests ({}) on {}, {} batching, policy {}\n", grouped(stats.requests_finished),
                      result.workload, result.device, result.batching, result.schedule_policy);
  text +=
      fmt::format("  makespan {:.3f} s, {} steps, {:.1f} output tokens/s, {:.2f} requests/s\n", result.makespan_s(),
                  grouped(stats.steps), result.output_tokens_per_second(),
                  result.makespan_s() > 0 ? static_cast<double>(stats.requests_finished) / result.makespan_s() : 0.0);
  text += fmt::format("  useful slots {:.1f} %, static batching would reach {:.1f} % in {} cycles\n",
                      100.0 * result.useful_slot_share(), 100.0 * result.static_batching.efficiency,
                      grouped(result.static_batching.cycles));
  text += fmt::format("  prefix hits {:.1f} %, preemptions {}, recomputed {:.1f} %, KV used {:.1f} % (most {:.1f} %)\n",
                      100.0 * result.prefix_hit_rate(), grouped(stats.preemptions), 100.0 * result.recompute_tax(),
                      100.0 * result.kv_usage_mean, 100.0 * result.kv_usage_max);
  text += fmt::format("  {:<6} {:>12} {:>12} {:>12} {:>12}\n", "ms", "mean", "p50", "p95", "p99");
  text += summary_line("TTFT", result.ttft) + summary_line("ITL", result.itl) + summary_line("E2E", result.e2e);
  text += fmt::format(
      "  simulated in {:.3f} s: {} requests/s; decisions {:016x}\n", result.wall_s,
      grouped(static_cast<int64_t>(static_cast<double>(result.requests.size()) / std::max(result.wall_s, 1e-9))),
      result.decision_hash);
  return text;
}

// The recorded decisions again: 0 differences, or the first one.
void run_replay(const CLI::App& command) {
  const auto path = command["--replay"]->as<std::string>();
  ReplayOptions options;
  if (command.count("--policy") > 0) options.schedule_policy = command["--policy"]->as<std::string>();
  if (command.count("--evict") > 0) options.eviction_policy = command["--evict"]->as<std::string>();
  const ReplayResult result = replay_trace(read_recording(path), options);
  if (command.count("--json") > 0) {
    nlohmann::ordered_json json = {
        {"plans", result.plans}, {"requests", result.requests}, {"identical", !result.difference}};
    if (result.difference) {
      json["difference"] = {{"step", result.difference->step},
                            {"recorded", result.difference->recorded},
                            {"replayed", result.difference->replayed}};
    }
    fmt::print("{}\n", json.dump(2));
  } else if (result.difference) {
    fmt::print("step {} differs, after {} equal plans\n  recorded: {}\n  replayed: {}\n", result.difference->step,
               grouped(result.plans - 1), result.difference->recorded, result.difference->replayed);
  } else {
    fmt::print("{} plans of {} requests: all identical\n", grouped(result.plans), grouped(result.requests));
  }
}

void run_sim(const CLI::App& command) {
  if (command.count("--replay") > 0) {
    run_replay(command);
    return;
  }
  const SimSpec spec = parse_sim_spec(sim_options_json(command));
  const Workload workload = load_workload(spec);
  const SteadyClock clock;
  SimResult result;
  {
    ProgressBar bar("simulating", clock);
    SimObservers observers;
    std::optional<RecordingWriter> recording;
    if (command.count("--record") > 0) {
      recording.emplace(command["--record"]->as<std::string>(), resolved_setup(spec.options, workload));
      observers.trace = &recording->trace();
    }
    observers.progress = [&bar](double share) { bar.update_share(share, ""); };
    result = run_simulation(spec.options, workload, clock, observers);
    if (recording) recording->close();
  }
  if (command.count("--csv") > 0) write_text_file(command["--csv"]->as<std::string>(), to_csv(result, workload));
  if (command.count("--json") > 0) {
    fmt::print("{}\n", to_json(result));
  } else {
    fmt::print("{}", to_text(result));
  }
}

}  // namespace

void add_sim_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("sim", "Run a workload or a trace on a simulated device");
  add_sim_options(*command);
  command->add_option("--csv")->description("Write one line a request to FILE")->type_name("FILE");
  command->add_option("--record")
      ->description("Write every decision to FILE, for --replay and --trace")
      ->type_name("FILE");
  command->add_option("--replay")
      ->description("Take a recording's decisions again (with --policy or --evict: another's) and compare each step")
      ->type_name("FILE");
  command->add_flag("--json")->description("One JSON object");
  command->footer(workload_help());
  command->callback([command] { run_sim(*command); });
}

}  // namespace inflight::cli
