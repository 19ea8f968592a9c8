// SPDX-License-Identifier: Apache-2.0
// `inflight calibrate`: serves mixed traffic on the live engine, fits the simulator's device model to the steps that it
// took, and checks what that predicts against runs that it has not seen.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/live_calibration.h"
#include "cli/stderr_log.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CalibrateFlags {
  std::string output, steps, trace;
  std::string name = "calibrated";
  int rounds = 3;
  bool as_json = false;
};

struct Figure {
  const char* key;
  double (*live)(const RecordedRun&);
  double (*simulated)(const SimResult&);
};
constexpr Figure kFigures[] = {
    {"makespan_s", [](const RecordedRun& run) { return run.makespan_s(); },
     [](const SimResult& result) { return result.makespan_s(); }},
    {"output_tokens_per_second", [](const RecordedRun& run) { return run.output_tokens_per_second(); },
     [](const SimResult& result) { return result.output_tokens_per_second(); }},
    {"ttft_p50_ms", [](const RecordedRun& run) { return run.ttft.p50; },
     [](const SimResult& result) { return result.ttft.p50; }},
    {"ttft_p95_ms", [](const RecordedRun& run) { return run.ttft.p95; },
     [](const SimResult& result) { return result.ttft.p95; }},
    {"itl_p50_ms", [](const RecordedRun& run) { return run.itl.p50; },
     [](const SimResult& result) { return result.itl.p50; }},
    {"itl_p95_ms", [](const RecordedRun& run) { return run.itl.p95; },
     [](const SimResult& result) { return result.itl.p95; }},
};

struct Compared {
  double live = 0.0, lowest = 0.0, highest = 0.0, simulated = 0.0;
  double error = 0.0;                              // the median of the runs' own: each is predicted at its pace
  double paced_lowest = 0.0, paced_highest = 0.0;  // of live over what is predicted for just that run
  // Half of the way from the lowest to the highest run.
  [[nodiscard]] double spread() const { return (highest - lowest) / 2.0 / live; }
  [[nodiscard]] double paced_spread() const { return (paced_highest - paced_lowest) / (paced_highest + paced_lowest); }
};

// Where requests come by the clock, decisions depend on it.
bool all_at_the_begin(const Workload& workload) {
  return std::ranges::all_of(workload.requests,
                             [](const SimRequest& r) { return r.arrival == 0 && r.after == kNoRequest; });
}

// Medians of the live runs, and of what is predicted for each (of which each is the median of its draws).
Compared compare(const Check& check, const Figure& figure) {
  std::vector<double> live, simulated, ratios;
  for (size_t i = 0; i < check.used.size(); ++i) {
    std::vector<double> draws;
    for (const SimResult& result : check.simulated[i]) draws.push_back(figure.simulated(result));
    live.push_back(figure.live(check.used[i]->run));
    simulated.push_back(median_of(std::move(draws)));
    ratios.push_back(live.back() / simulated.back());
  }
  const auto [lowest, highest] = std::ranges::minmax(live);
  const auto [paced_lowest, paced_highest] = std::ranges::minmax(ratios);
  return {.live = median_of(live),
          .lowest = lowest,
          .highest = highest,
          .simulated = median_of(simulated),
          .error = 1.0 / median_of(ratios) - 1.0,
          .paced_lowest = paced_lowest,
          .paced_highest = paced_highest};
}

bool same_decisions(const Check& check) {
  return std::ranges::all_of(
      check.live, [&](const LiveRun& live) { return live.run.decision_hash == check.simulated[0][0].decision_hash; });
}

Json check_json(const Check& check) {
  Json json = {{"workload", check.name}, {"live_runs", check.live.size()}, {"live_runs_used", check.used.size()}};
  for (const Pace& pace : check.paces) json["paces"].push_back({{"decode", pace.decode}, {"prompt", pace.prompt}});
  if (all_at_the_begin(check.workload)) json["same_decisions"] = same_decisions(check);
  for (const Figure& figure : kFigures) {
    const Compared c = compare(check, figure);
    json[figure.key] = {{"live", c.live},
                        {"lowest", c.lowest},
                        {"highest", c.highest},
                        {"simulated", c.simulated},
                        {"error", c.error},
                        {"live_spread", c.spread()},
                        {"paced_spread", c.paced_spread()}};
  }
  return json;
}

void run_calibrate(EngineFlags& engine_flags, const CalibrateFlags& flags) {
  check_engine_files(engine_flags, {{"--output", flags.output}, {"--steps", flags.steps}}, {flags.trace});
  if (!draft_model_of(engine_flags).empty()) {
    fail(ErrorCode::InvalidArgument, "calibrate: --speculative-config names a draft model, which is not simulated");
  }
  const LiveCalibration calibration(engine_flags, {.name = flags.name, .trace = flags.trace, .rounds = flags.rounds});
  const CalibrationFit& fit = calibration.found();
  if (!flags.output.empty()) write_text_file(flags.output, inflight::to_json(fit.profile));
  if (!flags.steps.empty()) write_text_file(flags.steps, calibration.steps_csv());
  constexpr double kOthersMax = 0.1;
  if (calibration.others_share() > kOthersMax) {
    print_to_stderr(
        "inflight: warning: others took {:.0f} % of the processors: do not trust this profile, calibrate again "
        "when nothing else runs\n",
        100 * calibration.others_share());
  }
  if (flags.as_json) {
    Json checks = Json::array();
    for (const Check& check : calibration.checks()) checks.push_back(check_json(check));
    print_json({{"profile", Json::parse(inflight::to_json(fit.profile))},
                {"measured_steps", calibration.step_count()},
                {"training_runs", calibration.run_count()},
                {"training_runs_used", calibration.used_run_count()},
                {"median_error", fit.median_error},
                {"held_out_error", fit.held_out_error},
                {"total_error", fit.total_error},
                {"others_share", calibration.others_share()},
                {"pace_spread", calibration.pace_spread()},
                {"checks", checks}});
    return;
  }
  fmt::print(
      "{}: {} steps of {} undisturbed runs of {}; a step is off by {:.1f} % (median; {:.1f} % where the fit had not "
      "seen it), all "
      "together by {:+.1f} %; others took {:.1f} % of the processors, the machine's own pace varied by +-{:.1f} %\n",
      fit.profile.description, calibration.step_count(), calibration.used_run_count(), calibration.run_count(),
      100 * fit.median_error, 100 * fit.held_out_error, 100 * fit.total_error, 100 * calibration.others_share(),
      100 * calibration.pace_spread());
  fmt::print("{}\n", inflight::to_json(fit.profile));
  for (const Check& check : calibration.checks()) {
    fmt::print("{}\n  {:<26} {:>10} {:>10} {:>8}  spread of {} of {} live runs, at their pace\n", check.name,
               !all_at_the_begin(check.workload) ? ""
               : same_decisions(check)           ? "same decisions"
                                                 : "OTHER DECISIONS",
               "live", "simulated", "error", check.used.size(), check.live.size());
    for (const Figure& figure : kFigures) {
      const Compared c = compare(check, figure);
      fmt::print("  {:<26} {:>10.4g} {:>10.4g} {:>+7.1f} %  +-{:.1f} %, +-{:.1f} %\n", figure.key, c.live, c.simulated,
                 100 * c.error, 100 * c.spread(), 100 * c.paced_spread());
    }
  }
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measure the engine's steps and fit the simulator's device model to them");
  const auto engine_flags = add_engine_flags(*command);
  const auto flags = std::make_shared<CalibrateFlags>();
  command->add_option("-o,--output", flags->output, "Write the profile to FILE, for sim --device FILE");
  command->add_option("--steps", flags->steps,
                      "Write every measured step and what is predicted for it to FILE, a line each");
  command->add_option("--trace", flags->trace, "Check against these requests too, see: inflight sim --help");
  command->add_option("--rounds", flags->rounds, "So often everything is measured and checked")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--name", flags->name, "Name of the profile [calibrated]");
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->footer(
      "Example: inflight calibrate -m model.gguf -o here.json; inflight sim --workload bimodal --device here.json\n"
      "Nothing else should run meanwhile: \"the machine's own pace varied\" says whether it did.");
  command->callback([engine_flags, flags] { run_calibrate(*engine_flags, *flags); });
}

}  // namespace inflight::cli
