// SPDX-License-Identifier: Apache-2.0
// `inflight bench workload`: what `inflight sim` simulates, live.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/live_run.h"
#include "sim/trace_reader.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

struct WorkloadFlags {
  std::string workload, trace;
  double trace_speed = 1.0;
  bool as_json = false;
};

Workload workload_of(const WorkloadFlags& flags) {
  if (flags.workload.empty() == flags.trace.empty()) {
    fail(ErrorCode::InvalidArgument, "give either --workload or --trace");
  }
  return flags.trace.empty() ? make_workload(flags.workload)
                             : read_trace_workload(flags.trace, {.speed = flags.trace_speed});
}

double useful_slot_share(const RecordedRun& run, const LiveEngine& engine) {
  const double slots = static_cast<double>(run.steps.size()) * engine.max_num_seqs();
  return static_cast<double>(run.used_slots) / std::max(slots, 1.0);
}

double prefix_hit_rate(const RecordedRun& run) {
  return static_cast<double>(run.cached_tokens) / static_cast<double>(std::max<int64_t>(run.prompt_tokens, 1));
}

nlohmann::ordered_json report_json(const RecordedRun& result, const WorkloadFlags& flags, const LiveEngine& engine) {
  nlohmann::ordered_json json = {{"workload", flags.workload.empty() ? flags.trace : flags.workload},
                                 {"model", engine.model()},
                                 {"device", engine.device()},
                                 {"steps", result.steps.size()},
                                 {"requests", result.finished},
                                 {"requests_rejected", result.rejected},
                                 {"useful_slot_share", useful_slot_share(result, engine)},
                                 {"makespan_s", result.makespan_s()},
                                 {"output_tokens", result.output_tokens},
                                 {"output_tokens_per_second", result.output_tokens_per_second()},
                                 {"ttft_ms", result.ttft},
                                 {"itl_ms", result.itl},
                                 {"e2e_ms", result.e2e},
                                 {"preemptions", result.preemptions},
                                 {"prefix_hit_rate", prefix_hit_rate(result)},
                                 {"decision_hash", fmt::format("{:016x}", result.decision_hash)}};
  add_guesses(json, result.guesses);
  return json;
}

void run_bench_workload(const WorkloadFlags& flags, EngineFlags& engine_flags) {
  std::vector<std::string> inputs = length_files(flags.workload);
  inputs.push_back(flags.trace);
  check_engine_files(engine_flags, {}, inputs);
  const Workload workload = workload_of(flags);
  LiveEngine engine(engine_flags);
  static_cast<void>(engine.run(make_workload("closed,requests=1,prompt=8,output=8")));  // warm: tuned, cached, paged in
  const RecordedRun result = engine.run(workload);
  write_profile(engine.engine(), engine_flags);
  if (flags.as_json) {
    print_json(report_json(result, flags, engine));
    return;
  }
  fmt::print("{} requests ({}): {} on {}\n", result.finished, workload.name, engine.model(), engine.device());
  fmt::print("  makespan {:.3f} s, {} steps, {:.1f} output tokens/s\n", result.makespan_s(), result.steps.size(),
             result.output_tokens_per_second());
  if (result.rejected > 0) fmt::print("  rejected {}\n", result.rejected);
  fmt::print("  useful slots {:.1f} %, prefix hits {:.1f} %, preemptions {}\n",
             100.0 * useful_slot_share(result, engine), 100.0 * prefix_hit_rate(result), result.preemptions);
  fmt::print("{}", describe_guesses(result.guesses));
  fmt::print("  {:<6} {:>12} {:>12} {:>12} {:>12}\n", "ms", "mean", "p50", "p95", "p99");
  fmt::print("{}{}{}", table_row("TTFT", result.ttft), table_row("ITL", result.itl), table_row("E2E", result.e2e));
}

}  // namespace

void add_bench_workload(CLI::App& parent) {
  CLI::App* const command = parent.add_subcommand(
      "workload", "A workload or trace as `inflight sim` knows them, on the live engine, in real time");
  const auto flags = std::make_shared<WorkloadFlags>();
  command->add_option("--workload", flags->workload, "KIND,key=value,..., see: inflight sim --help");
  CLI::Option* const trace =
      command->add_option("--trace", flags->trace, "Requests from a file, see: inflight sim --help");
  command->add_option("--trace-speed", flags->trace_speed, "Replay speed of its arrivals; 0: all at the start")
      ->check(CLI::Range(0.0, kTraceSpeedMax))
      ->needs(trace)
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "One JSON object");
  const auto engine_flags = add_engine_flags(*command);
  command->callback([flags, engine_flags] { run_bench_workload(*flags, *engine_flags); });
}

}  // namespace inflight::cli
