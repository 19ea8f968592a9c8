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
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
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

// A live engine that runs step by step, each one timed.
class LiveEngine {
 public:
  explicit LiveEngine(EngineFlags& flags) : engine_(open_engine(flags)) {
    info_ = nlohmann::json::parse(engine_.info_json());
    vocabulary_size_ = info_.at("model").at("vocabulary_size");
    if (const int32_t length = info_.at("limits").at("max_model_len"); length < kModelLength) {
      fail(ErrorCode::InvalidArgument, "the model's length is {} tokens, calibrate needs {}", length, kModelLength);
    }
  }

  Stream submit(int32_t prompt_tokens, int32_t output_tokens) {
    RequestOptions request;
    for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt_ids.push_back(rng_.between(0, vocabulary_size_ - 1));
    request.params.max_tokens = output_tokens;
    request.params.ignore_eos = 1;
    return engine_.submit(request);
  }
  double timed_step() {
    const TimeNs begin = clock_.now();
    engine_.step();
    const TimeNs taken = clock_.now() - begin;
    stepped_ += taken;
    return static_cast<double>(taken) * 1e-9;
  }
  // The time spent in steps: what the program does between two of them is not the engine's.
  [[nodiscard]] TimeNs stepped() const { return stepped_; }
  [[nodiscard]] double host_seconds() { return engine_.stats().schedule_seconds; }
  [[nodiscard]] std::string description() const {
    return info_.at("model").at("name").get<std::string>() + " on " + info_.at("device").at("name").get<std::string>();
  }

 private:
  Engine engine_;
  nlohmann::json info_;
  SteadyClock clock_;
  TimeNs stepped_ = 0;
  Rng rng_{7};
  int32_t vocabulary_size_ = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// What came on a stream, without waiting.
struct Arrived {
  int32_t tokens = 0;
  bool ended = false;
};
Arrived poll(Stream& stream) {
  const auto event = stream.next(std::chrono::milliseconds(0));
  if (!event) return {};
  if (event->finish_reason == INFLIGHT_FINISH_ERROR) fail(ErrorCode::EngineFailed, "{}", event->error);
  return {static_cast<int32_t>(event->token_ids.size()), event->finish_reason != INFLIGHT_FINISH_NONE};
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
  double live_s = 0.0, simulated_s = 0.0;
  LatencySummary live_ttft, simulated_ttft, live_itl, simulated_itl;
};

// A workload that is there from the begin, live; then simulated.
Compared compare_with_live(LiveEngine& engine, const std::string& spec, const DeviceProfile& profile) {
  const Workload workload = make_workload(spec);
  struct Progress {
    TimeNs last = 0;
    bool started = false;
  };
  std::vector<Stream> streams;
  const TimeNs begin = engine.stepped();
  for (const SimRequest& request : workload.requests) {
    streams.push_back(engine.submit(request.prompt_tokens, request.output_tokens));
  }
  std::vector<Progress> progress(streams.size());
  std::vector<TimeNs> ttft, itl;
  for (size_t ended = 0; ended < streams.size();) {
    engine.timed_step();
    const TimeNs now = engine.stepped();
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].ended()) continue;
      const Arrived arrived = poll(streams[i]);
      if (arrived.tokens > 0) {
        (progress[i].started ? itl : ttft).push_back(now - (progress[i].started ? progress[i].last : begin));
        progress[i] = {now, true};
      }
      ended += arrived.ended;
      if (arrived.ended) streams[i].cancel();
    }
  }
  Compared compared{.workload = spec, .live_s = static_cast<double>(engine.stepped() - begin) * 1e-9};
  compared.live_ttft = LatencySummary::of(std::move(ttft));
  compared.live_itl = LatencySummary::of(std::move(itl));
  SimOptions options{.setup = {}, .device = profile, .overlap = false};
  options.setup.config.max_num_seqs = kSlots;
  options.setup.config.max_num_batched_tokens = kBudget;
  options.setup.blocks.prefix_caching = false;
  const SimResult result = run_simulation(options, workload, SteadyClock());
  compared.simulated_s = result.makespan_s();
  compared.simulated_ttft = result.ttft;
  compared.simulated_itl = result.itl;
  return compared;
}

Json to_json(const Compared& compared) {
  const auto pair = [](double live, double simulated) {
    return Json{{"live", live}, {"simulated", simulated}, {"error", simulated / live - 1.0}};
  };
  return {{"workload", compared.workload},
          {"makespan_s", pair(compared.live_s, compared.simulated_s)},
          {"ttft_p50_ms", pair(compared.live_ttft.p50, compared.simulated_ttft.p50)},
          {"ttft_p95_ms", pair(compared.live_ttft.p95, compared.simulated_ttft.p95)},
          {"itl_p50_ms", pair(compared.live_itl.p50, compared.simulated_itl.p50)},
          {"itl_p95_ms", pair(compared.live_itl.p95, compared.simulated_itl.p95)}};
}

void run_calibrate(EngineFlags& engine_flags, const Flags& flags) {
  auto& params = engine_flags.options.params;
  params.host_driven = 1;
  params.max_num_seqs = kSlots;
  params.max_num_batched_tokens = kBudget;
  if (params.kv_blocks == 0) params.kv_blocks = kKvBlocks * 16 / (params.block_size == 0 ? 16 : params.block_size);
  engine_flags.overlap = "off";
  engine_flags.prefix_caching = "off";
  LiveEngine engine(engine_flags);

  static_cast<void>(measure_decodes(engine, kSlots, 16));  // warm: tuned, cached, paged in
  std::vector<MeasuredStep> steps;
  const double host_before = engine.host_seconds();
  int64_t step_count = 0;
  for (const int32_t batch : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    for (const int32_t prompt : {16, 256}) {
      if (batch * prompt > kBudget * 8) continue;
      steps.push_back(measure_decodes(engine, batch, prompt));
      step_count += 24;
    }
  }
  for (const int32_t tokens : {8, 16, 32, 64, 128, 256, 384, 500}) {
    steps.push_back(measure_prefill(engine, tokens));
    step_count += 5;
  }
  DeviceProfile base{.name = flags.name, .description = engine.description()};
  CalibrationFit fit = fit_device_profile(steps, base);
  // The host's part of the measured steps is given back to the host.
  const double host_us = (engine.host_seconds() - host_before) * 1e6 / static_cast<double>(step_count);
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
        one.workload, one.live_s, one.simulated_s, one.live_ttft.p50, one.simulated_ttft.p50, one.live_itl.p50,
        one.simulated_itl.p50, one.live_itl.p95, one.simulated_itl.p95);
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
