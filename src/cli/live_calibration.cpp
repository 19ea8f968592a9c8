// SPDX-License-Identifier: Apache-2.0
#include "cli/live_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "cli/other_load.h"
#include "sim/simulation.h"
#include "sim/trace_reader.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

constexpr int32_t kSlots = 32;
constexpr int32_t kBudget = 512;
constexpr int32_t kModelLength = 512;  // prompt and output of the longest request
constexpr int32_t kKvBlocks = kSlots * (kModelLength / 16 + 1);
constexpr int kDraws = 15;
constexpr double kDriftMax = 1.1;  // of the pace, during a run that is used
constexpr const char* kMixed = "uniform,requests=80,prompt=8-256,output=8-128,seed=203";
constexpr const char* kProbe = "uniform,requests=24,prompt=16-96,output=8-120,seed=77";  // every number of rows

EngineFlags& limited(EngineFlags& flags) {
  auto& params = flags.options.params;
  params.max_num_seqs = kSlots;
  params.max_num_batched_tokens = kBudget;
  if (params.kv_blocks == 0) params.kv_blocks = kKvBlocks * 16 / (params.block_size == 0 ? 16 : params.block_size);
  flags.prefix_caching = "off";
  return flags;
}

// The traffic that is measured, prompts and answers of many lengths: more than fits, few at once, and at random times
// at shares of the `most` requests a second that can be served. Nobody waits for an end: reading streams would cost
// time.
Workload training_workload(size_t number, double most) {
  static const std::vector<std::string> kAtOnce = {
      "requests=60,prompt=4-300", "requests=60,prompt=4-40",  "requests=2,prompt=4-300",  "requests=4,prompt=4-300",
      "requests=7,prompt=4-300",  "requests=12,prompt=4-300", "requests=20,prompt=4-300", "requests=28,prompt=4-300"};
  constexpr std::pair<int, double> kShares[] = {{10, 0.1}, {30, 0.3}, {30, 0.7}};  // requests, share
  const size_t kind = number % (kAtOnce.size() + (most > 0.0 ? std::size(kShares) : 0));
  const auto by_the_clock = [&](int requests, double share) {
    return fmt::format("requests={},prompt=4-300,arrivals=poisson,rate={:.4g}", requests, share * most);
  };
  const std::string spec =
      kind < kAtOnce.size() ? kAtOnce[kind] : std::apply(by_the_clock, kShares[kind - kAtOnce.size()]);
  return make_workload(fmt::format("uniform,{},output=8-120,seed={}", spec, 100 + number));
}

// The machine so many times as slow: its jitter is, and by what few rows differ from many their linear layers.
DeviceProfile at_pace(DeviceProfile profile, const Pace& pace) {
  const double many = pace.decode.back();
  for (LinearCost& point : profile.linear_us) point.us *= pace.decode[Pace::kind_of(point.tokens)] / many;
  const auto scale = [](std::vector<Jitter>& jitter, double factor) {
    if (jitter.empty()) jitter = {{0.0, {1.0}}};
    for (Jitter& one : jitter) {
      for (double& value : one.values) value *= factor;
    }
  };
  scale(profile.decode_jitter, many);
  scale(profile.prompt_jitter, pace.prompt);
  return profile;
}

double seconds(TimeNs time) { return static_cast<double>(time) * 1e-9; }
bool has_prompts(const RecordedStep& step) { return step.work.prefill_pairs > 0; }
double of(const Pace& pace, const RecordedStep& step) {
  return has_prompts(step) ? pace.prompt : pace.decode[Pace::kind_of(step.work.tokens)];
}

std::vector<double> step_seconds(const RecordedRun& run) {
  std::vector<double> durations;
  for (const RecordedStep& step : run.steps) durations.push_back(std::max(seconds(step.duration), 1e-9));
  return durations;
}

// What a probe's steps took over `others`, the seconds of the same steps: the medians of each kind, or of the next one
// where these are few.
Pace pace_over(const RecordedRun& probe, const std::vector<double>& others) {
  INFLIGHT_CHECK(probe.steps.size() == others.size());
  constexpr size_t kFew = 5;
  Pace pace;
  std::array<std::vector<double>, std::tuple_size_v<decltype(Pace::decode)>> decode;
  std::vector<double> prompt;
  for (size_t i = 0; i < others.size(); ++i) {
    const RecordedStep& step = probe.steps[i];
    (has_prompts(step) ? prompt : decode[Pace::kind_of(step.work.tokens)])
        .push_back(seconds(step.duration) / others[i]);
  }
  for (size_t kind = decode.size(); kind-- > 0;) {
    const bool few = decode[kind].size() < kFew && kind + 1 < decode.size();
    pace.decode[kind] = few ? pace.decode[kind + 1] : median_of(std::move(decode[kind]));
  }
  pace.prompt = median_of(std::move(prompt));
  return pace;
}

}  // namespace

size_t Pace::kind_of(int64_t rows) {
  const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1))));
  return std::min(width, std::tuple_size_v<decltype(Pace::decode)>) - 1;
}

LiveCalibration::LiveCalibration(EngineFlags& engine_flags, const Options& options)
    : engine_(limited(engine_flags)),
      overlap_(engine_flags.overlap == "on"),
      base_(engine_.unmeasured_profile()),
      probe_(make_workload(kProbe)) {
  base_.name = options.name;
  if (engine_.max_model_len() < kModelLength) {
    fail(ErrorCode::InvalidArgument, "the model's length is {} tokens, calibrate needs {}", engine_.max_model_len(),
         kModelLength);
  }
  constexpr int kFirstRuns = 8;
  for (int i = 0; i < 2; ++i) static_cast<void>(engine_.run(probe_));  // warm: tuned, paged in
  probe();
  for (int i = 0; i < kFirstRuns; ++i) train();
  fit();
  most_ = 80.0 / simulate(make_workload(kMixed), {}, 0).makespan_s();
  for (const std::string& spec :
       {std::string("bimodal,requests=96,seed=211,output=mix:0.8:10-50:100-200"),
        std::string("closed,requests=64,prompt=128,output=64"),
        fmt::format("{},arrivals=poisson,rate={:.4g}", kMixed, 0.7 * most_)}) {  // 70 % of what can be served
    checks_.push_back({.name = spec, .workload = make_workload(spec)});
  }
  if (!options.trace.empty()) {
    checks_.push_back({.name = options.trace, .workload = read_trace_workload(options.trace, {})});
  }
  for (int round = 0; round < options.rounds; ++round) check_round();
  fit();
  for (Check& check : checks_) {
    check.used = undisturbed(check.live);
    for (const LiveRun* const live : check.used) {
      check.paces.push_back(pace_of(*live));
      std::vector<SimResult>& draws = check.simulated.emplace_back();
      for (int draw = 0; draw < kDraws; ++draw) draws.push_back(simulate(check.workload, check.paces.back(), draw));
    }
  }
}

double LiveCalibration::others_share() const { return others_sum_ / static_cast<double>(std::max(attempts_, 1)); }

double LiveCalibration::pace_spread() const {
  std::vector<double> sorted;
  for (const RecordedRun& run : probes_) sorted.push_back(run.makespan_s());
  std::ranges::sort(sorted);
  const size_t tail = sorted.size() / 10;
  return (sorted[sorted.size() - 1 - tail] - sorted[tail]) / 2.0 / sorted[sorted.size() / 2];
}

std::string LiveCalibration::steps_csv() const {
  std::string csv =
      "workload,run,after_idle,wake,warm,idle,tokens,sequences,prompts,"
      "decode_context,prefill_pairs,us,us_at_usual_pace,predicted_us\n";
  append_steps(csv, "training", undisturbed(training_));
  for (const Check& check : checks_) append_steps(csv, check.name, check.used);
  return csv;
}

void LiveCalibration::append_steps(std::string& csv, const std::string& name,
                                   const std::vector<const LiveRun*>& runs) const {
  const DeviceModel model(fit_.profile);
  for (size_t i = 0; i < runs.size(); ++i) {
    const Pace pace = pace_of(*runs[i]);
    for (const RecordedStep& step : runs[i]->run.steps) {
      const DeviceWork& work = step.work;
      const double us = static_cast<double>(step.duration) * 1e-3;
      csv += fmt::format("\"{}\",{},{},{:.3f},{:.3f},{:.3f},{},{},{},{},{},{:.3f},{:.3f},{:.3f}\n", name, i,
                         step.after_idle ? 1 : 0, work.wake, work.warm, work.idle, work.tokens, work.sequences,
                         work.prompts, work.decode_context, work.prefill_pairs, us, us / of(pace, step),
                         static_cast<double>(model.device_time(work)) * 1e-3);
    }
  }
}

void LiveCalibration::probe() { probes_.push_back(engine_.run(probe_)); }

// Once more where others took the processors or the machine changed its pace.
LiveRun LiveCalibration::live_run(const Workload& workload) {
  constexpr int kAttempts = 2;
  constexpr double kOthersMax = 0.05;
  constexpr double kTicks = 0.01;  // seconds: what OtherLoad cannot see
  LiveRun live;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const OtherLoad others;
    live = {.run = engine_.run(workload), .probe_before = probes_.size() - 1};
    const double share = others.share();
    probe();
    live.others = std::max(0.0, share - kOthersMax - kTicks / live.run.makespan_s());
    others_sum_ += share;
    ++attempts_;
    if (live.others == 0.0 && drift(live) <= kDriftMax) break;
  }
  return live;
}

void LiveCalibration::train() { training_.push_back(live_run(training_workload(training_.size(), most_))); }

// Measuring and checking take turns, so that both see the same machine.
void LiveCalibration::check_round() {
  constexpr int kTrainingRuns = 2;
  for (Check& check : checks_) {
    check.live.push_back(live_run(check.workload));
    for (int i = 0; i < kTrainingRuns; ++i) train();
  }
}

// By what factor the pace changed during a run.
double LiveCalibration::drift(const LiveRun& live) const {
  const Pace pace = pace_over(probes_[live.probe_before + 1], step_seconds(probes_[live.probe_before]));
  const double many = pace.decode.back();
  return std::max({many, 1.0 / many, pace.prompt, 1.0 / pace.prompt});
}

// Between the probes before and after it.
Pace LiveCalibration::pace_of(const LiveRun& live) const {
  const Pace before = pace_over(probes_[live.probe_before], usual_);
  const Pace after = pace_over(probes_[live.probe_before + 1], usual_);
  Pace pace{.prompt = std::sqrt(before.prompt * after.prompt)};
  for (size_t kind = 0; kind < pace.decode.size(); ++kind) {
    pace.decode[kind] = std::sqrt(before.decode[kind] * after.decode[kind]);
  }
  return pace;
}

// Those during which nothing else ran and the machine kept its pace. Where these are fewer than half: the half that is
// disturbed least.
std::vector<const LiveRun*> LiveCalibration::undisturbed(const std::vector<LiveRun>& runs) const {
  std::vector<const LiveRun*> sorted;
  for (const LiveRun& live : runs) sorted.push_back(&live);
  std::ranges::stable_sort(sorted, {}, [&](const LiveRun* live) { return live->others + drift(*live); });
  const auto calm = static_cast<size_t>(std::ranges::count_if(
      sorted, [&](const LiveRun* live) { return live->others == 0.0 && drift(*live) <= kDriftMax; }));
  sorted.resize(std::max(calm, (runs.size() + 1) / 2));
  return sorted;
}

void LiveCalibration::fit() {
  usual_.clear();
  for (size_t i = 0; i < probes_.front().steps.size(); ++i) {
    std::vector<double> durations;
    for (const RecordedRun& run : probes_) durations.push_back(seconds(run.steps.at(i).duration));
    usual_.push_back(std::max(median_of(std::move(durations)), 1e-9));
  }
  std::vector<double> pickups;  // seconds
  std::vector<Pace> paces;
  const auto used = undisturbed(training_);
  for (const LiveRun* const live : used) {
    paces.push_back(pace_of(*live));
    for (const TimeNs pickup : live->run.pickups) pickups.push_back(seconds(pickup));
  }
  fit_steps(used, paces);
  for (size_t i = 0; i < used.size(); ++i) paces[i].prompt *= prompt_error(*used[i], paces[i]);
  fit_steps(used, paces);
  if (!pickups.empty()) fit_.profile.pickup_us = 1e6 * median_of(std::move(pickups));
}

void LiveCalibration::fit_steps(const std::vector<const LiveRun*>& runs, const std::vector<Pace>& paces) {
  std::vector<MeasuredStep> steps;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const RecordedStep& step : runs[i]->run.steps) {
      if (step.duration > 0) steps.push_back({step.work, seconds(step.duration) / of(paces[i], step)});
    }
  }
  fit_ = fit_device_profile(steps, base_);
  step_count_ = steps.size();
}

// What a training run's own steps with prompts took over what is predicted for them, their median. A probe has few such
// steps and they are long, so that the pace may change among them; what that adds is no noise of single steps.
double LiveCalibration::prompt_error(const LiveRun& live, const Pace& pace) const {
  constexpr size_t kStepsMin = 8;
  const DeviceModel model(fit_.profile);
  std::vector<double> ratios;
  for (const RecordedStep& step : live.run.steps) {
    if (!has_prompts(step) || step.after_idle || step.duration <= 0) continue;
    ratios.push_back(seconds(step.duration) / pace.prompt / std::max(seconds(model.device_time(step.work)), 1e-9));
  }
  return ratios.size() < kStepsMin ? 1.0 : median_of(std::move(ratios));
}

SimResult LiveCalibration::simulate(const Workload& workload, const Pace& pace, int draw) const {
  SimOptions options{.setup = {}, .device = at_pace(fit_.profile, pace), .overlap = overlap_};
  options.setup.config.max_num_seqs = kSlots;
  options.setup.config.max_num_batched_tokens = kBudget;
  options.setup.blocks.prefix_caching = false;
  options.setup.seed = static_cast<uint64_t>(draw);
  return run_simulation(options, workload, SteadyClock());
}

}  // namespace inflight::cli
