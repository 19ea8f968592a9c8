// SPDX-License-Identifier: Apache-2.0
// `inflight bench latency|throughput`: tokens per second of one stream and of a batch, beside what the memory allows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/stderr_log.h"
#include "device/bandwidth.h"
#include "device/device.h"
#include "sim/parse_number.h"

namespace inflight::cli {
namespace {

struct BenchFlags {
  int32_t batch = 1;
  int32_t prompt_tokens = 128;
  int32_t output_tokens = 128;
  int32_t repeat = 5;
  uint64_t seed = 1;
  bool as_json = false;
  std::vector<std::string> adapters;  // of --lora: the sequences take them in turn
};

struct Sample {
  double prefill_tokens_per_second;
  double decode_tokens_per_second;
  double total_tokens_per_second;
};

double seconds_between(TimeNs from, TimeNs to) { return std::max(static_cast<double>(to - from) * 1e-9, 1e-9); }

RequestOptions random_request(const BenchFlags& flags, int32_t vocabulary_size, Rng& rng) {
  RequestOptions request;
  for (int32_t i = 0; i < flags.prompt_tokens; ++i) request.prompt_ids.push_back(rng.between(0, vocabulary_size - 1));
  request.params.max_tokens = flags.output_tokens;
  request.params.ignore_eos = 1;
  return request;
}

// One batch from submit to the last token. The decode rate counts the tokens that came while every sequence was
// decoding: after the last first token, before the first end (llama-batched-bench's S_TG); 0 where there was no such
// time. (The steps that bring an end have no step submitted behind them, so they would count as too short.)
Sample measure_once(Engine& engine, const BenchFlags& flags, int32_t vocabulary_size, Rng& rng) {
  const SteadyClock clock;
  std::vector<RequestOptions> requests;
  for (int32_t i = 0; i < flags.batch; ++i) {
    requests.push_back(random_request(flags, vocabulary_size, rng));
    if (!flags.adapters.empty())
      requests.back().lora_name = flags.adapters[static_cast<size_t>(i) % flags.adapters.size()];
  }
  std::vector<Stream> streams;
  const TimeNs begin = clock.now();
  for (const RequestOptions& request : requests) streams.push_back(engine.submit(request));

  std::vector<int32_t> counts(streams.size(), 0);
  int32_t started = 0, ended = 0;
  int64_t decode_tokens = 0, output_tokens = 0;
  TimeNs all_started = 0, decode_end = 0, now = begin;
  while (ended < flags.batch) {
    engine.step();
    now = clock.now();
    int64_t came = 0;
    const bool was_full = started == flags.batch;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].ended()) continue;
      const auto event = streams[i].next(std::chrono::milliseconds(0));
      if (!event) continue;
      if (event->finish_reason == INFLIGHT_FINISH_ERROR) fail(ErrorCode::EngineFailed, "{}", event->error);
      const auto count = static_cast<int32_t>(event->token_ids.size());
      if (counts[i] == 0 && count > 0) ++started;
      counts[i] += count;
      came += count;
      if (event->finish_reason != INFLIGHT_FINISH_NONE) {
        ++ended;
        streams[i].cancel();
      }
    }
    output_tokens += came;
    if (was_full && ended == 0) {
      decode_tokens += came;
      decode_end = now;
    } else if (started == flags.batch && all_started == 0) {
      all_started = now;
    }
  }
  return {static_cast<double>(flags.batch) * flags.prompt_tokens / seconds_between(begin, all_started),
          decode_tokens == 0 ? 0.0 : static_cast<double>(decode_tokens) / seconds_between(all_started, decode_end),
          static_cast<double>(output_tokens) / seconds_between(begin, now)};
}

// What the engine's thread has done since it was made.
struct LoopTimes {
  double scheduler_s = 0.0;  // plan and commit
  double device_s = 0.0;     // submit and wait: all that a bare loop over the same steps would do
  double busy_s = 0.0;       // everything but being idle
  double steps = 0.0;
};

LoopTimes loop_times(Engine& engine) {
  LoopTimes times;
  std::istringstream lines(engine.metrics_text());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const double value = parse_number(std::string_view(line).substr(line.rfind(' ') + 1)).value_or(0.0);
    const auto has = [&line](const char* text) { return line.find(text) != std::string::npos; };
    if (has("scheduler_steps_total")) times.steps = value;
    if (!has("engine_seconds_total") || has("\"idle\"")) continue;
    times.busy_s += value;
    if (has("\"plan\"") || has("\"commit\"")) times.scheduler_s += value;
    if (has("\"submit\"") || has("\"wait\"")) times.device_s += value;
  }
  return times;
}

// Arithmetic and memory traffic of a phase, at the rates that were measured.
struct Roofline {
  double flop_per_second, bytes_per_second;
};

// Of a model and a batch; `info` is inflight_engine_info_json()'s.
struct StepCost {
  StepCost(const nlohmann::json& info, const BenchFlags& flags)
      : batch(flags.batch),
        layer_flop(2.0 * info.at("model").at("layer_weights").get<double>()),
        prompt_flop(2.0 * info.at("model").at("prompt_layer_weights").get<double>()),
        output_flop(2.0 * info.at("model").at("vocabulary_size").get<double>() *
                    info.at("model").at("embedding_length").get<double>()),
        pair_flop(4.0 * info.at("model").at("layers").get<double>() *
                  info.at("model").at("query_length").get<double>()),
        prompt_share(info.at("model").at("prompt_layers").get<double>() / info.at("model").at("layers").get<double>()),
        weight_bytes(info.at("memory").at("weight_bytes_read_a_step")),
        kv_bytes(info.at("memory").at("kv_bytes_per_token")),
        step_tokens(info.at("limits").at("max_num_batched_tokens")) {}

  [[nodiscard]] Roofline prefill(double prompt_tokens, double tokens_per_second) const {
    const double pairs = prompt_tokens * (prompt_tokens + 1.0) / 2.0;
    // The last token alone goes through all layers.
    const double layers = prompt_tokens * prompt_flop + (layer_flop - prompt_flop) + pairs * pair_flop * prompt_share;
    const double flop = batch * (layers + output_flop);
    const double steps = std::ceil(batch * prompt_tokens / step_tokens);
    const double seconds = batch * prompt_tokens / tokens_per_second;
    return {flop / seconds, (steps * weight_bytes + batch * prompt_tokens * kv_bytes) / seconds};
  }
  // One token of each sequence at the mean context.
  [[nodiscard]] Roofline decode(double context, double tokens_per_second) const {
    const double steps_per_second = tokens_per_second / batch;
    return {steps_per_second * batch * (layer_flop + output_flop + context * pair_flop),
            steps_per_second * (weight_bytes + batch * context * kv_bytes)};
  }

  double batch, layer_flop, prompt_flop, output_flop, pair_flop, prompt_share, weight_bytes, kv_bytes, step_tokens;
};

double median_figure(std::vector<Sample> samples, double Sample::* figure) {
  std::sort(samples.begin(), samples.end(), [&](const Sample& a, const Sample& b) { return a.*figure < b.*figure; });
  return samples[samples.size() / 2].*figure;
}

// open_engine() for sequences of this length, unless --max-model-len says another.
Engine open_for(const BenchFlags& flags, EngineFlags& engine_flags) {
  int32_t& length = engine_flags.options.params.max_model_len;
  if (length != 0) return open_engine(engine_flags);
  length = flags.prompt_tokens + flags.output_tokens;
  try {
    return open_engine(engine_flags);
  } catch (const Failure& failure) {
    const std::string_view message = failure.what();
    if (!message.starts_with("max_model_len is ")) throw;
    fail(ErrorCode::InvalidArgument, "--prompt-tokens is {} and --output-tokens {}: {}", flags.prompt_tokens,
         flags.output_tokens, message);
  }
}

void bench(BenchFlags& flags, EngineFlags& engine_flags) {
  flags.adapters = lora_names(engine_flags);
  if (engine_flags.options.params.max_num_seqs == 0)
    engine_flags.options.params.max_num_seqs = std::max(flags.batch, 1);
  engine_flags.options.params.host_driven = 1;
  Engine engine = open_for(flags, engine_flags);
  const auto info = nlohmann::json::parse(engine.info_json());
  const int32_t vocabulary_size = info.at("model").at("vocabulary_size");
  const double weight_bytes = info.at("memory").at("weight_bytes_read_a_step");

  Rng rng(flags.seed);
  std::vector<Sample> samples;
  static_cast<void>(measure_once(engine, flags, vocabulary_size, rng));  // warm: tuned, cached, paged in
  const LoopTimes before = loop_times(engine);
  for (int32_t i = 0; i < flags.repeat; ++i) samples.push_back(measure_once(engine, flags, vocabulary_size, rng));
  const LoopTimes after = loop_times(engine);
  write_profile(engine, engine_flags);

  Device device = Device::open({.spec = engine_flags.options.device});
  const double bandwidth = measure_read_bandwidth(device);
  const double prefill = median_figure(samples, &Sample::prefill_tokens_per_second);
  const double decode = median_figure(samples, &Sample::decode_tokens_per_second);
  const double total = median_figure(samples, &Sample::total_tokens_per_second);
  if (decode == 0.0) {
    print_to_stderr(
        "inflight: no decode rate: at no time did all {} sequences decode; give more --output-tokens or "
        "--max-num-batched-tokens\n",
        flags.batch);
  }
  const double fraction = decode / flags.batch * weight_bytes / bandwidth;
  // With guesses a step gives more tokens than it reads weights.
  const bool reads = decode > 0.0 && info.at("limits").at("num_speculative_tokens") == 0;
  const StepCost cost(info, flags);
  const Roofline prefill_roof = cost.prefill(flags.prompt_tokens, prefill);
  const Roofline decode_roof = cost.decode(flags.prompt_tokens + flags.output_tokens / 2.0, decode);
  const double busy = std::max(after.busy_s - before.busy_s, 1e-9);
  const double scheduler_us =
      (after.scheduler_s - before.scheduler_s) * 1e6 / std::max(after.steps - before.steps, 1.0);
  const double scheduler_share = (after.scheduler_s - before.scheduler_s) / busy;
  const double loop_efficiency = (after.device_s - before.device_s) / busy;
  if (flags.as_json) {
    const auto figure_if = [](bool known, double figure) { return known ? nlohmann::ordered_json(figure) : nullptr; };
    const nlohmann::ordered_json all = {
        {"prefill_tokens_per_second", prefill},
        {"decode_tokens_per_second", figure_if(decode > 0.0, decode)},
        {"total_tokens_per_second", total},
        {"read_bandwidth_gb_per_second", bandwidth * 1e-9},
        {"bandwidth_fraction", figure_if(reads, fraction)},
        {"prefill_gflop_per_second", prefill_roof.flop_per_second * 1e-9},
        {"prefill_gb_per_second", prefill_roof.bytes_per_second * 1e-9},
        {"decode_gflop_per_second", figure_if(reads, decode_roof.flop_per_second * 1e-9)},
        {"decode_gb_per_second", figure_if(reads, decode_roof.bytes_per_second * 1e-9)},
        {"scheduler_us_per_step", scheduler_us},
        {"scheduler_share", scheduler_share},
        {"loop_efficiency", loop_efficiency},
        {"batch", flags.batch},
        {"prompt_tokens", flags.prompt_tokens},
        {"output_tokens", flags.output_tokens},
        {"repeat", flags.repeat},
        {"model", info.at("model").at("name")},
        {"device", info.at("device").at("name")}};
    print_json(all);
    return;
  }
  fmt::print("{} on {}\n", info.at("model").at("name").get<std::string>(),
             info.at("device").at("name").get<std::string>());
  fmt::print("batch {}, {} prompt tokens and {} output tokens each, median of {}\n", flags.batch, flags.prompt_tokens,
             flags.output_tokens, flags.repeat);
  fmt::print("  prefill  {:10.1f} tokens/s\n", prefill);
  if (decode > 0.0) {
    fmt::print("  decode   {:10.1f} tokens/s", decode);
    if (reads) fmt::print(", reading weights at {:.0f} % of {:.1f} GB/s", fraction * 100.0, bandwidth * 1e-9);
    fmt::print("\n");
  }
  fmt::print("  overall  {:10.1f} output tokens/s\n", total);
  const auto print_roof = [](const char* phase, const Roofline& roof) {
    fmt::print("  {}  {:8.1f} GFLOP/s, {:6.1f} GB/s of weights and KV\n", phase, roof.flop_per_second * 1e-9,
               roof.bytes_per_second * 1e-9);
  };
  print_roof("prefill", prefill_roof);
  if (reads) print_roof("decode ", decode_roof);
  fmt::print("  scheduler {:.1f} us a step, {:.2f} % of the time; {:.1f} % of it go to submitting and waiting\n",
             scheduler_us, scheduler_share * 100.0, loop_efficiency * 100.0);
}

void add_bench(CLI::App& parent, const char* name, const char* help, bool with_batch) {
  CLI::App* const command = parent.add_subcommand(name, help);
  const auto flags = std::make_shared<BenchFlags>();
  constexpr int32_t kCountMax = 1 << 20;
  constexpr int32_t kDecodedTokensMin = 3;  // the first and the last are in no decode rate
  const CLI::Range count(1, kCountMax);
  if (with_batch) {
    flags->batch = 8;
    command->add_option("--batch", flags->batch, "Sequences")->check(count)->capture_default_str();
  }
  command->add_option("--prompt-tokens", flags->prompt_tokens, "Random tokens of each prompt")
      ->check(count)
      ->capture_default_str();
  command->add_option("--output-tokens", flags->output_tokens, "Tokens of each answer")
      ->check(CLI::Range(kDecodedTokensMin, kCountMax))
      ->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Measurements, after one to warm up")
      ->check(count)
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Of the random prompts")->capture_default_str();
  command->add_flag("--json", flags->as_json, "One JSON object");
  const auto engine_flags = add_engine_flags(*command);
  engine_flags->prefix_caching = "off";
  command->callback([flags, engine_flags] { bench(*flags, *engine_flags); });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("bench", "Measure the engine");
  command->require_subcommand(1);
  add_bench(*command, "latency", "One stream: time to first token, tokens per second", false);
  add_bench(*command, "throughput", "A batch: tokens per second of all sequences while all decode", true);
  add_bench_kernels(*command);
  add_bench_sched(*command);
  add_bench_serve(*command);
  add_bench_workload(*command);
}

}  // namespace inflight::cli
