// SPDX-License-Identifier: Apache-2.0
// `inflight tune-limits` and `inflight doctor`: questions that simulated runs answer.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "cli/sim_options.h"
#include "sim/diagnosis.h"
#include "sim/sim_spec.h"
#include "sim/tuning.h"

namespace inflight::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TuneFlags {
  TuneGoal goal;
  bool as_json = false;
};

Json to_json(const TuneStep& step) {
  return {{"setting", step.setting},
          {"output_tokens_per_second", step.output_tokens_per_second},
          {"ttft_p95_ms", step.ttft_p95_ms},
          {"itl_p95_ms", step.itl_p95_ms},
          {"meets_goal", step.meets}};
}

void run_tune(const CLI::App& command, const TuneFlags& flags) {
  const SteadyClock clock;
  TuneResult result;
  {
    ProgressBar bar("searching", clock);
    result = tune_limits(sim_options_json(command), flags.goal, clock,
                         [&bar](double share) { bar.update_share(share, ""); });
  }
  if (flags.as_json) {
    Json tried = Json::array();
    for (const TuneStep& step : result.tried) tried.push_back(to_json(step));
    const Json json = {{"max_num_seqs", result.max_num_seqs},
                       {"max_num_batched_tokens", result.max_num_batched_tokens},
                       {"chunked_prefill_size", result.chunked_prefill_size},
                       {"meets_goal", result.meets},
                       {"best", to_json(result.best)},
                       {"first", to_json(result.tried.front())},
                       {"tried", tried}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  const auto line = [](const char* what, const TuneStep& step) {
    fmt::print("  {:<6} {:>10.1f} output tokens/s, TTFT p95 {:.1f} ms, ITL p95 {:.2f} ms: {}\n", what,
               step.output_tokens_per_second, step.ttft_p95_ms, step.itl_p95_ms, step.setting);
  };
  fmt::print("--max-num-seqs {} --max-num-batched-tokens {} --chunked-prefill-size {}{}\n", result.max_num_seqs,
             result.max_num_batched_tokens, result.chunked_prefill_size,
             result.meets ? "" : "   (the goal is out of reach: this comes closest)");
  line("before", result.tried.front());
  line("best", result.best);
  fmt::print("  {} settings simulated\n", result.tried.size());
}

void run_doctor(const CLI::App& command, const std::string& path, bool as_json) {
  Json options = Json::parse(sim_options_json(command));
  if (!path.empty()) options["trace"] = path;
  SimSpec spec = parse_sim_spec(options.dump());
  const Workload workload = load_workload(spec);
  const SimResult result = run_simulation(spec.options, workload, SteadyClock());
  const std::vector<Finding> findings = diagnose(result, spec.options);
  if (as_json) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"problem", finding.problem}, {"evidence", finding.evidence}, {"knob", finding.knob}});
    }
    fmt::print("{}\n", Json{{"findings", list},
                            {"binding_limit", binding_limit(result)},
                            {"run", Json::parse(inflight::to_json(result))}}
                           .dump(2));
    return;
  }
  fmt::print("binding limit: {}\n", binding_limit(result));
  if (findings.empty()) fmt::print("nothing stands out\n");
  for (const Finding& finding : findings) {
    fmt::print("{}: {}\n  try: {}\n", finding.problem, finding.evidence, finding.knob);
  }
  fmt::print("{}\n", describe_growth(result.kv_growth));
  fmt::print("{} requests, {:.1f} output tokens/s, TTFT p95 {:.1f} ms, ITL p95 {:.2f} ms\n",
             grouped(result.scheduler.requests_finished), result.output_tokens_per_second(), result.ttft.p95,
             result.itl.p95);
}

}  // namespace

void add_tune_limits_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("tune-limits", "Search the limits that serve a workload best, simulated");
  command->footer(
      "Example: inflight tune-limits --workload lognormal,rate=3,requests=500 --itl-p95-ms 60\n"
      "Workloads are those of inflight sim --help.");
  add_sim_options(*command);
  const auto flags = std::make_shared<TuneFlags>();
  command->add_option("--ttft-p95-ms", flags->goal.ttft_p95_ms, "Goal: 95 % of the first tokens within; 0 = whatever");
  command->add_option("--itl-p95-ms", flags->goal.itl_p95_ms, "Goal: 95 % of the gaps between tokens within");
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([command, flags] { run_tune(*command, *flags); });
}

void add_doctor_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("doctor", "Name what is wrong with how a trace is served, and the knob that mends it");
  command->footer(
      "Example: inflight doctor trace.jsonl --max-num-seqs 64\n"
      "Traces and workloads are those of inflight sim --help.");
  add_sim_options(*command);
  const auto path = std::make_shared<std::string>();
  command->add_option("TRACE", *path, "Trace or recording, as --trace");
  command->add_flag("--json")->description("One JSON object");
  command->callback([command, path] { run_doctor(*command, *path, command->count("--json") > 0); });
}

}  // namespace inflight::cli
