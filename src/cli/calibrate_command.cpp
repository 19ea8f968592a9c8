// SPDX-License-Identifier: Apache-2.0
// `inflight calibrate`: measures steps of the live engine, fits the simulator's device model to them, and checks what
// that predicts against runs that it has not seen.
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
#include "sim/calibration.h"
#include "sim/simulation.h"
#include "sim/text_file.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kSlots = 32;
constexpr int32_t kBudget = 512;
constexpr int32_t kModelLength = 512;  // prompt and output of the longest measurement
constexpr int32_t kKvBlocks = kSlots * (kModelLength / 16 + 1);

struct Flags {
  std::string output;
  std::string name = "calibrated";
  bool as_json = false;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Steps in which `batch` sequences decode at about the same context: the median stands for all.
MeasuredStep measure_decodes(LiveEngine& engine, int32_t batch, int32_t prompt_tokens) {
  constexpr int32_t kOutput = 24;
  std::vector<Stream> streams;
  for (int32_t i = 0; i < batch; ++i) streams.push_back(engine.submit(prompt_tokens, kOutput));
  std::vector<int32_t> counts(streams.size(), 0);
  std::vector<double> seconds;
  double context = 0.0;
  for (size_t ended = 0; ended < streams.size();) {
    const bool all_decode = ended == 0 && std::ranges::all_of(counts, [](int32_t count) { return count > 0; });
    if (all_decode) {
      for (const int32_t count : counts) context += prompt_tokens + count;
    }
    const double taken = engine.timed_step();
    if (all_decode) seconds.push_back(taken);
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].ended()) continue;
      const Arrived arrived = poll(streams[i]);
      counts[i] += arrived.tokens;
      ended += arrived.ended;
      if (arrived.ended) streams[i].cancel();
    }
  }
  const auto steps = static_cast<double>(std::max<size_t>(seconds.size(), 1));
  return {{.tokens = batch, .sequences = batch, .decode_context = static_cast<int64_t>(context / steps)},
          median(seconds)};
}

MeasuredStep measure_prefill(LiveEngine& engine, int32_t tokens) {
  constexpr int kRepeat = 5;
  std::vector<double> seconds;
  for (int i = 0; i < kRepeat; ++i) {
    Stream stream = engine.submit(tokens, 1);
    seconds.push_back(engine.timed_step());
    while (!poll(stream).ended) engine.timed_step();
  }
  return {{.tokens = tokens, .sequences = 1, .prefill_pairs = int64_t{tokens} * (tokens + 1) / 2}, median(seconds)};
}

struct Compared {
  std::string workload;
  LiveResult live;
  SimResult simulated;
};

// A workload live; then simulated.
Compared compare_with_live(LiveEngine& engine, const std::string& spec, const DeviceProfile& profile) {
  const Workload workload = make_workload(spec);
  SimOptions options{.setup = {}, .device = profile, .overlap = false};
  options.setup.config.max_num_seqs = kSlots;
  options.setup.config.max_num_batched_tokens = kBudget;
  options.setup.blocks.prefix_caching = false;
  return {.workload = spec,
          .live = run_live(engine, workload),
          .simulated = run_simulation(options, workload, SteadyClock())};
}

Json to_json(const Compared& compared) {
  const auto pair = [](double live, double simulated) {
    return Json{{"live", live}, {"simulated", simulated}, {"error", simulated / live - 1.0}};
  };
  return {{"workload", compared.workload},
          {"makespan_s", pair(compared.live.makespan_s, compared.simulated.makespan_s())},
          {"ttft_p50_ms", pair(compared.live.ttft.p50, compared.simulated.ttft.p50)},
          {"ttft_p95_ms", pair(compared.live.ttft.p95, compared.simulated.ttft.p95)},
          {"itl_p50_ms", pair(compared.live.itl.p50, compared.simulated.itl.p50)},
          {"itl_p95_ms", pair(compared.live.itl.p95, compared.simulated.itl.p95)}};
}

void run_calibrate(EngineFlags& engine_flags, const Flags& flags) {
  auto& params = engine_flags.options.params;
  params.max_num_seqs = kSlots;
  params.max_num_batched_tokens = kBudget;
  if (params.kv_blocks == 0) params.kv_blocks = kKvBlocks * 16 / (params.block_size == 0 ? 16 : params.block_size);
  engine_flags.prefix_caching = "off";
  LiveEngine engine(engine_flags);
  if (engine.max_model_len() < kModelLength) {
    fail(ErrorCode::InvalidArgument, "the model's length is {} tokens, calibrate needs {}", engine.max_model_len(),
         kModelLength);
  }

  static_cast<void>(measure_decodes(engine, kSlots, 16));  // warm: tuned, cached, paged in
  std::vector<MeasuredStep> steps;
  const double host_before = engine.engine().stats().schedule_seconds;
  int64_t step_count = 0;
  for (const int32_t batch : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    for (const int32_t prompt : {16, 128, 256}) {
      steps.push_back(measure_decodes(engine, batch, prompt));
      step_count += 24;
    }
  }
  for (const int32_t tokens : {8, 16, 32, 64, 128, 256, 384, 500}) {
    steps.push_back(measure_prefill(engine, tokens));
    step_count += 5;
  }
  DeviceProfile base{.name = flags.name, .description = engine.model() + " on " + engine.device()};
  CalibrationFit fit = fit_device_profile(steps, base);
  // The host's part of the measured steps is given back to the host.
  const double host_us =
      (engine.engine().stats().schedule_seconds - host_before) * 1e6 / static_cast<double>(step_count);
  fit.profile.host_us = std::min(host_us, fit.profile.overhead_us);
  fit.profile.overhead_us -= fit.profile.host_us;
  if (!flags.output.empty()) write_text_file(flags.output, inflight::to_json(fit.profile));

  std::vector<Compared> compared;
  for (const char* spec :
       {"bimodal,requests=96,seed=5,output=mix:0.8:10-50:100-200", "closed,requests=64,prompt=128,output=64",
        "uniform,requests=96,prompt=8-256,output=8-128,seed=9"}) {
    compared.push_back(compare_with_live(engine, spec, fit.profile));
  }
  if (flags.as_json) {
    Json checks = Json::array();
    for (const Compared& one : compared) checks.push_back(to_json(one));
    fmt::print("{}\n", Json{{"profile", Json::parse(inflight::to_json(fit.profile))},
                            {"measured_steps", steps.size()},
                            {"mean_error", fit.mean_error},
                            {"worst_error", fit.worst_error},
                            {"checks", checks}}
                           .dump(2));
    return;
  }
  fmt::print("{}: {} kinds of steps measured, fitted within {:.1f} % on average, {:.1f} % at worst\n",
             fit.profile.description, steps.size(), 100 * fit.mean_error, 100 * fit.worst_error);
  fmt::print("{}\n", inflight::to_json(fit.profile));
  for (const Compared& one : compared) {
    fmt::print(
        "{}\n  makespan {:.3f} s live, {:.3f} s simulated; TTFT p50 {:.1f}, {:.1f} ms; ITL p50 {:.2f}, {:.2f} ms, p95 "
        "{:.2f}, {:.2f} ms\n",
        one.workload, one.live.makespan_s, one.simulated.makespan_s(), one.live.ttft.p50, one.simulated.ttft.p50,
        one.live.itl.p50, one.simulated.itl.p50, one.live.itl.p95, one.simulated.itl.p95);
  }
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measure the engine's steps and fit the simulator's device model to them");
  const auto engine_flags = add_engine_flags(*command);
  const auto flags = std::make_shared<Flags>();
  command->add_option("-o,--output", flags->output, "Write the profile to FILE, for sim --device FILE");
  command->add_option("--name", flags->name, "Name of the profile [calibrated]");
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([engine_flags, flags] { run_calibrate(*engine_flags, *flags); });
}

}  // namespace inflight::cli
