// SPDX-License-Identifier: Apache-2.0
// `inflight calibrate`: serves mixed traffic on the live engine, fits the simulator's device model to the steps that it
// took, and checks what that predicts against runs that it has not seen.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/live_run.h"
#include "cli/other_load.h"
#include "sim/calibration.h"
#include "sim/simulation.h"
#include "sim/text_file.h"
#include "sim/trace_reader.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kSlots = 32;
constexpr int32_t kBudget = 512;
constexpr int32_t kModelLength = 512;  // prompt and output of the longest request
constexpr int32_t kKvBlocks = kSlots * (kModelLength / 16 + 1);

struct Flags {
  std::string output, steps, trace;
  std::string name = "calibrated";
  int rounds = 3;
  bool as_json = false;
};

// The traffic that is measured, prompts and answers of many lengths: more than fits, few at once, and at random times
// at shares of the `most` requests a second that can be served. Nobody waits for an end: reading streams would cost
// time.
std::vector<Workload> training_workloads(int round, double most) {
  std::vector<std::string> specs = {"requests=60,prompt=4-300", "requests=60,prompt=4-40"};
  for (const int requests : {2, 4, 7, 12, 20, 28}) specs.push_back(fmt::format("requests={},prompt=4-300", requests));
  for (const double share : {0.3, 0.7}) {
    if (most > 0.0) specs.push_back(fmt::format("requests=30,prompt=4-300,arrivals=poisson,rate={:.4g}", share * most));
  }
  std::vector<Workload> all;
  for (size_t i = 0; i < specs.size(); ++i) {
    all.push_back(make_workload(
        fmt::format("uniform,{},output=8-120,seed={}", specs[i], 100 + 50 * static_cast<size_t>(round) + i)));
  }
  return all;
}

// A live run, and the probes that were made before and after it.
struct LiveRun {
  RecordedRun run;
  size_t probe_before = 0;
  double others = 1.0;  // share of the processors that others took, beyond what is taken for nothing
};

// A run, and what the probes around it took over what probes usually take: times are divided by it.
struct PacedRun {
  const RecordedRun* run = nullptr;
  double pace = 1.0;
};

// One workload that the fit has not seen, as it is served live in each round and as it is predicted.
struct Check {
  std::string name;
  Workload workload;
  std::vector<LiveRun> live;
  std::vector<PacedRun> used;        // of these, those that nothing disturbed
  std::vector<SimResult> simulated;  // each with other draws of the jitter
};

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2.0;
}

struct Figure {
  const char* key;
  double (*live)(const RecordedRun&);
  double (*simulated)(const SimResult&);
  bool latency = true;
  bool rate = false;
};
constexpr Figure kFigures[] = {
    {"makespan_s", [](const RecordedRun& run) { return run.makespan_s(); },
     [](const SimResult& result) { return result.makespan_s(); }, false},
    {"output_tokens_per_second",
     [](const RecordedRun& run) { return static_cast<double>(run.output_tokens) / run.makespan_s(); },
     [](const SimResult& result) { return result.output_tokens_per_second(); }, false, true},
    {"ttft_p50_ms", [](const RecordedRun& run) { return run.ttft.p50; },
     [](const SimResult& result) { return result.ttft.p50; }},
    {"ttft_p95_ms", [](const RecordedRun& run) { return run.ttft.p95; },
     [](const SimResult& result) { return result.ttft.p95; }},
    {"itl_p50_ms", [](const RecordedRun& run) { return run.itl.p50; },
     [](const SimResult& result) { return result.itl.p50; }},
    {"itl_p95_ms", [](const RecordedRun& run) { return run.itl.p95; },
     [](const SimResult& result) { return result.itl.p95; }},
};

class Calibration {
 public:
  Calibration(EngineFlags& engine_flags, const Flags& flags)
      : engine_(limited(engine_flags)),
        overlap_(engine_flags.overlap == "on"),
        base_{.name = flags.name, .description = engine_.model() + " on " + engine_.device()} {
    if (engine_.max_model_len() < kModelLength) {
      fail(ErrorCode::InvalidArgument, "the model's length is {} tokens, calibrate needs {}", engine_.max_model_len(),
           kModelLength);
    }
    for (int i = 0; i < 2; ++i) static_cast<void>(engine_.run(probe_));  // warm: tuned, paged in
    probe();
    train(0);
    fit();
    most_ = 80.0 / simulate(make_workload(kMixed), 0).makespan_s();
    add_check("bimodal,requests=96,seed=5,output=mix:0.8:10-50:100-200");
    add_check("closed,requests=64,prompt=128,output=64");
    add_check(fmt::format("{},arrivals=poisson,rate={:.4g}", kMixed, 0.7 * most_));  // 70 % of what can be served
    if (!flags.trace.empty()) checks_.push_back({flags.trace, read_trace_workload(flags.trace, {}), {}, {}, {}});
    for (int round = 0; round < flags.rounds; ++round) {
      if (round > 0) train(round);
      for (Check& check : checks_) {
        check.live.push_back(live_run(check.workload));
        probe();
      }
    }
    fit();
    for (Check& check : checks_) {
      check.used = undisturbed(check.live);
      for (int draw = 0; draw < kDraws; ++draw) check.simulated.push_back(simulate(check.workload, draw));
    }
  }

  [[nodiscard]] const CalibrationFit& found() const { return fit_; }
  [[nodiscard]] const std::vector<Check>& checks() const { return checks_; }
  [[nodiscard]] size_t step_count() const { return step_count_; }
  [[nodiscard]] size_t run_count() const { return training_.size(); }
  [[nodiscard]] size_t used_run_count() const { return undisturbed(training_).size(); }
  // The share of the processors that others took, on average over all runs.
  [[nodiscard]] double others_share() const { return others_sum_ / static_cast<double>(std::max(attempts_, 1)); }
  // The same small run, again and again: by how much its time varied, half of the way from the tenth to the ninth of
  // ten, over the median. What the machine itself does; nothing can be predicted better.
  [[nodiscard]] double pace_spread() const {
    std::vector<double> sorted = probes_;
    std::ranges::sort(sorted);
    const size_t tail = sorted.size() / 10;
    return (sorted[sorted.size() - 1 - tail] - sorted[tail]) / 2.0 / sorted[sorted.size() / 2];
  }
  // The steps that the fit knows, a line each.
  [[nodiscard]] std::string steps_csv() const {
    std::string csv = "tokens,sequences,decode_context,prefill_pairs,us\n";
    for (const auto& [run, pace] : undisturbed(training_)) {
      for (const RecordedStep& step : run->steps) {
        if (step.duration <= 0) continue;
        csv += fmt::format("{},{},{},{},{:.3f}\n", step.work.tokens, step.work.sequences, step.work.decode_context,
                           step.work.prefill_pairs, static_cast<double>(step.duration) * 1e-3 / pace);
      }
    }
    return csv;
  }

 private:
  static EngineFlags& limited(EngineFlags& flags) {
    auto& params = flags.options.params;
    params.max_num_seqs = kSlots;
    params.max_num_batched_tokens = kBudget;
    if (params.kv_blocks == 0) params.kv_blocks = kKvBlocks * 16 / (params.block_size == 0 ? 16 : params.block_size);
    flags.prefix_caching = "off";
    return flags;
  }

  // The same work each time: where it takes longer than usual, the machine does something else.
  void probe() { probes_.push_back(live_run(probe_).run.makespan_s()); }

  // Again, a few times at most, while others take the processors.
  [[nodiscard]] LiveRun live_run(const Workload& workload) {
    constexpr int kAttempts = 4;
    constexpr double kOthersMax = 0.05;
    LiveRun live;
    for (int attempt = 0; attempt < kAttempts && live.others > 0.0; ++attempt) {
      const OtherLoad others;
      live = {.run = engine_.run(workload), .probe_before = probes_.size() - 1};
      const double share = others.share();
      live.others = std::max(0.0, share - kOthersMax - kTicks / live.run.makespan_s());
      others_sum_ += share;
      ++attempts_;
    }
    return live;
  }

  void train(int round) {
    constexpr size_t kRunsAProbe = 2;
    const std::vector<Workload> workloads = training_workloads(round, most_);
    for (size_t i = 0; i < workloads.size(); ++i) {
      training_.push_back(live_run(workloads[i]));
      if ((i + 1) % kRunsAProbe == 0 || i + 1 == workloads.size()) probe();
    }
  }

  // Those during which nothing else ran and the machine kept its speed: the probes before and after took about the
  // same. Where these are fewer than half: the half during which others took least.
  [[nodiscard]] std::vector<PacedRun> undisturbed(const std::vector<LiveRun>& runs) const {
    constexpr double kTolerance = 1.15;
    const double usual = median_of(probes_);
    std::vector<const LiveRun*> by_others;
    for (const LiveRun& live : runs) by_others.push_back(&live);
    std::ranges::stable_sort(by_others, {}, &LiveRun::others);
    std::vector<PacedRun> calm, half;
    for (const LiveRun* const live : by_others) {
      const double before = probes_[live->probe_before], after = probes_[live->probe_before + 1];
      const PacedRun run{&live->run, probe_around(live->probe_before) / usual};
      const bool steady = std::max(before, after) <= kTolerance * std::min(before, after);
      if (live->others == 0.0 && steady) calm.push_back(run);
      if (2 * half.size() < runs.size()) half.push_back(run);
    }
    return calm.size() < half.size() ? half : calm;
  }

  // What the probe takes around a run: one alone says little, since it is short.
  [[nodiscard]] double probe_around(size_t before) const {
    constexpr size_t kEachSide = 3;
    const size_t begin = before + 1 - std::min(before + 1, kEachSide);
    const size_t end = std::min(before + 1 + kEachSide, probes_.size());
    return median_of(
        {probes_.begin() + static_cast<std::ptrdiff_t>(begin), probes_.begin() + static_cast<std::ptrdiff_t>(end)});
  }

  void fit() {
    std::vector<MeasuredStep> steps;
    std::vector<TimeNs> pickups;
    for (const auto& [run, pace] : undisturbed(training_)) {
      pickups.insert(pickups.end(), run->pickups.begin(), run->pickups.end());
      for (const RecordedStep& step : run->steps) {
        if (step.duration > 0) steps.push_back({step.work, static_cast<double>(step.duration) * 1e-9 / pace});
      }
    }
    std::ranges::sort(pickups);
    base_.pickup_us = pickups.empty() ? 0.0 : static_cast<double>(pickups[pickups.size() / 2]) * 1e-3;
    fit_ = fit_device_profile(steps, base_);
    step_count_ = steps.size();
  }

  void add_check(const std::string& spec) { checks_.push_back({spec, make_workload(spec), {}, {}, {}}); }

  [[nodiscard]] SimResult simulate(const Workload& workload, int draw) const {
    SimOptions options{.setup = {}, .device = fit_.profile, .overlap = overlap_};
    options.setup.config.max_num_seqs = kSlots;
    options.setup.config.max_num_batched_tokens = kBudget;
    options.setup.blocks.prefix_caching = false;
    options.setup.seed = static_cast<uint64_t>(draw);
    return run_simulation(options, workload, SteadyClock());
  }

  static constexpr int kDraws = 15;
  static constexpr const char* kMixed = "uniform,requests=80,prompt=8-256,output=8-128,seed=9";

  LiveEngine engine_;
  bool overlap_;
  double most_ = 0.0;  // requests a second that can be served, of kMixed; 0: not known yet
  DeviceProfile base_;
  Workload probe_ = make_workload("uniform,requests=24,prompt=16-96,output=16-48,seed=77");
  static constexpr double kTicks = 0.01;  // seconds: what OtherLoad cannot see
  std::vector<double> probes_;            // seconds
  double others_sum_ = 0.0;
  int attempts_ = 0;
  std::vector<LiveRun> training_;
  size_t step_count_ = 0;
  CalibrationFit fit_;
  std::vector<Check> checks_;
};

struct Compared {
  double live = 0.0, lowest = 0.0, highest = 0.0, simulated = 0.0;
  [[nodiscard]] double error() const { return simulated / live - 1.0; }
  // Half of the way from the lowest to the highest run.
  [[nodiscard]] double spread() const { return (highest - lowest) / 2.0 / live; }
};

// Where requests come by the clock, decisions depend on it.
bool all_at_the_begin(const Workload& workload) {
  return std::ranges::all_of(workload.requests,
                             [](const SimRequest& r) { return r.arrival == 0 && r.after == kNoRequest; });
}

Compared compare(const Check& check, const Figure& figure) {
  std::vector<double> live, simulated;
  for (const SimResult& result : check.simulated) simulated.push_back(figure.simulated(result));
  for (const auto& [run, pace] : check.used) {
    const bool by_the_clock = !figure.latency && !all_at_the_begin(check.workload);
    live.push_back(figure.live(*run) * (by_the_clock ? 1.0 : figure.rate ? pace : 1.0 / pace));
  }
  const auto [lowest, highest] = std::ranges::minmax(live);
  return {median_of(live), lowest, highest, median_of(simulated)};
}

bool same_decisions(const Check& check) {
  return std::ranges::all_of(
      check.live, [&](const LiveRun& live) { return live.run.decision_hash == check.simulated[0].decision_hash; });
}

Json to_json(const Check& check) {
  Json json = {{"workload", check.name}, {"live_runs", check.live.size()}, {"live_runs_used", check.used.size()}};
  if (all_at_the_begin(check.workload)) json["same_decisions"] = same_decisions(check);
  for (const Figure& figure : kFigures) {
    const Compared c = compare(check, figure);
    json[figure.key] = {{"live", c.live},           {"lowest", c.lowest}, {"highest", c.highest},
                        {"simulated", c.simulated}, {"error", c.error()}, {"live_spread", c.spread()}};
  }
  return json;
}

void run_calibrate(EngineFlags& engine_flags, const Flags& flags) {
  const Calibration calibration(engine_flags, flags);
  const CalibrationFit& fit = calibration.found();
  if (!flags.output.empty()) write_text_file(flags.output, inflight::to_json(fit.profile));
  if (!flags.steps.empty()) write_text_file(flags.steps, calibration.steps_csv());
  if (flags.as_json) {
    Json checks = Json::array();
    for (const Check& check : calibration.checks()) checks.push_back(to_json(check));
    fmt::print("{}\n", Json{{"profile", Json::parse(inflight::to_json(fit.profile))},
                            {"measured_steps", calibration.step_count()},
                            {"training_runs", calibration.run_count()},
                            {"training_runs_used", calibration.used_run_count()},
                            {"median_error", fit.median_error},
                            {"held_out_error", fit.held_out_error},
                            {"total_error", fit.total_error},
                            {"others_share", calibration.others_share()},
                            {"pace_spread", calibration.pace_spread()},
                            {"checks", checks}}
                           .dump(2));
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
    fmt::print("{}\n  {:<26} {:>10} {:>10} {:>8}  spread of {} of {} live runs\n", check.name,
               !all_at_the_begin(check.workload) ? ""
               : same_decisions(check)           ? "same decisions"
                                                 : "OTHER DECISIONS",
               "live", "simulated", "error", check.used.size(), check.live.size());
    for (const Figure& figure : kFigures) {
      const Compared c = compare(check, figure);
      fmt::print("  {:<26} {:>10.4g} {:>10.4g} {:>+7.1f} %  +-{:.1f} %\n", figure.key, c.live, c.simulated,
                 100 * c.error(), 100 * c.spread());
    }
  }
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measure the engine's steps and fit the simulator's device model to them");
  const auto engine_flags = add_engine_flags(*command);
  const auto flags = std::make_shared<Flags>();
  command->add_option("-o,--output", flags->output, "Write the profile to FILE, for sim --device FILE");
  command->add_option("--steps", flags->steps, "Write every measured step to FILE, a line each");
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
