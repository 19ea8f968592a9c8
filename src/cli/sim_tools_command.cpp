// SPDX-License-Identifier: Apache-2.0
// `inflight tune-limits` and `inflight doctor`: questions that simulated runs answer.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

constexpr const char* kOfOneRun = "timeline";  // these commands make many runs and show none's

struct SimTuneFlags {
  TuneGoal goal;
  bool as_json = false;
};

Json step_json(const TuneStep& step) {
  return {{"setting", step.setting},
          {"output_tokens_per_second", step.output_tokens_per_second},
          {"ttft_p95_ms", step.ttft_p95_ms},
          {"itl_p95_ms", step.itl_p95_ms},
          {"requests_turned_away", step.turned_away},
          {"meets_goal", step.meets}};
}

void run_tune(const CLI::App& command, const SimTuneFlags& flags) {
  const SteadyClock clock;
  TuneResult result;
  {
    ProgressBar bar("searching", clock);
    result = tune_limits(sim_options_json(command), flags.goal, clock,
                         [&bar](double share) { bar.update_share(share, ""); });
  }
  if (flags.as_json) {
    Json tried = Json::array();
    for (const TuneStep& step : result.tried) tried.push_back(step_json(step));
    const Json json = {{"max_num_seqs", result.max_num_seqs},
                       {"max_num_batched_tokens", result.max_num_batched_tokens},
                       {"long_prefill_token_threshold", result.long_prefill_token_threshold},
                       {"meets_goal", result.meets},
                       {"best", step_json(result.best)},
                       {"first", step_json(result.tried.front())},
                       {"tried", tried}};
    print_json(json);
    return;
  }
  const auto line = [](const char* what, const TuneStep& step) {
    const std::string lost =
        step.turned_away > 0 ? fmt::format(", {} requests rejected or unfinished", step.turned_away) : "";
    fmt::print("  {:<6} {:>10.1f} output tokens/s, TTFT p95 {:.1f} ms, ITL p95 {:.2f} ms{}: {}\n", what,
               step.output_tokens_per_second, step.ttft_p95_ms, step.itl_p95_ms, lost, step.setting);
  };
  fmt::print("--max-num-seqs {} --max-num-batched-tokens {} --long-prefill-token-threshold {}{}\n", result.max_num_seqs,
             result.max_num_batched_tokens, result.long_prefill_token_threshold,
             result.meets ? "" : "   (the goal is out of reach: this comes closest)");
  line("before", result.tried.front());
  line("best", result.best);
  fmt::print("  {} settings simulated\n", result.tried.size());
}

Json trial_json(const Trial& trial) {
  return {{"set", Json(std::map<std::string, std::string>(trial.setting.begin(), trial.setting.end()))},
          {"mends", trial.mends},
          {"output_tokens_per_second", trial.result.output_tokens_per_second()},
          {"ttft_p95_ms", trial.result.ttft.p95},
          {"itl_p99_ms", trial.result.itl.p99},
          {"preemptions", trial.result.scheduler.preemptions},
          {"requests_rejected", trial.result.rejected}};
}

// "--max-num-seqs 128 --preempt swap".
std::string as_flags(const SimSetting& setting) {
  std::string text;
  for (const auto& [key, value] : setting)
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", sim_flag(key), value);
  return text;
}

std::string figures_of(const SimResult& result) {
  std::string text = fmt::format("{:.1f} output tokens/s, TTFT p95 {:.1f} ms, ITL p99 {:.2f} ms",
                                 result.output_tokens_per_second(), result.ttft.p95, result.itl.p99);
  if (result.scheduler.preemptions > 0) text += fmt::format(", {} preemptions", grouped(result.scheduler.preemptions));
  if (result.rejected > 0) text += fmt::format(", {} rejected", grouped(result.rejected));
  return text;
}

void run_doctor(const CLI::App& command, const std::string& path, bool as_json) {
  const SteadyClock clock;
  Json options = sim_options_json(command);
  if (!path.empty()) options["trace"] = path;
  const SimSpec spec = read_sim_spec(options);
  const Workload workload = load_workload(spec);
  const SimResult result = run_simulation(spec.options, workload, clock);
  std::vector<Examined> found;
  {
    ProgressBar bar("trying what may mend it", clock);
    found = examine(options, workload, result, clock, [&bar](double share) { bar.update_share(share, ""); });
  }
  if (as_json) {
    Json list = Json::array();
    for (const auto& [finding, trials] : found) {
      Json tried = Json::array();
      for (const Trial& trial : trials) tried.push_back(trial_json(trial));
      list.push_back({{"problem", finding.problem},
                      {"evidence", finding.evidence},
                      {"knob", finding.knob},
                      {"tried", std::move(tried)}});
    }
    print_json(
        Json{{"findings", list}, {"binding_limit", binding_limit(result)}, {"run", Json::parse(to_json(result))}});
    return;
  }
  fmt::print("{} requests: {}\n", grouped(result.scheduler.requests_finished), figures_of(result));
  fmt::print("{}\n", describe_growth(result.kv_growth));
  fmt::print("binding limit: {}\n", binding_limit(result));
  if (found.empty()) fmt::print("nothing stands out\n");
  for (const auto& [finding, trials] : found) {
    fmt::print("{}: {}\n  try: {}\n", finding.problem, finding.evidence, finding.knob);
    for (const Trial& trial : trials) {
      fmt::print("    {} {}: {}\n", as_flags(trial.setting), trial.mends ? "mends it" : "does not mend all of it",
                 figures_of(trial.result));
    }
  }
}

}  // namespace

void add_tune_limits_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("tune-limits", "Search the limits that serve a workload best, simulated");
  command->footer(
      "Example: inflight tune-limits --workload lognormal,rate=3,requests=500 --itl-p95-ms 60\n"
      "Workloads are those of inflight sim --help.");
  add_sim_options(*command, kOfOneRun);
  const auto flags = std::make_shared<SimTuneFlags>();
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
      "What it advises is simulated, too, and printed with what came of it.\n"
      "Traces and workloads are those of inflight sim --help.");
  add_sim_options(*command, kOfOneRun);
  const auto path = std::make_shared<std::string>();
  command->add_option("TRACE", *path, "Trace or recording, as --trace")->excludes("--trace");
  command->add_flag("--json")->description("One JSON object");
  command->callback([command, path] { run_doctor(*command, *path, command->count("--json") > 0); });
}

}  // namespace inflight::cli
