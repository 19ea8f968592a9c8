// SPDX-License-Identifier: Apache-2.0
// `inflight bench latency|throughput`: tokens per second of one stream and of a batch, beside what the memory allows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "device/bandwidth.h"
#include "device/device.h"

namespace inflight::cli {
namespace {

struct BenchFlags {
  int32_t batch = 1;
  int32_t prompt_tokens = 128;
  int32_t output_tokens = 128;
  int32_t repeat = 5;
  uint64_t seed = 1;
  bool as_json = false;
};

struct Sample {
  double prefill_tokens_per_second;
  double decode_tokens_per_second;
  double total_tokens_per_second;
};

double seconds(TimeNs from, TimeNs to) { return std::max(static_cast<double>(to - from) * 1e-9, 1e-9); }

RequestOptions random_request(const BenchFlags& flags, int32_t vocabulary_size, Rng& rng) {
  RequestOptions request;
  for (int32_t i = 0; i < flags.prompt_tokens; ++i) request.prompt_ids.push_back(rng.between(0, vocabulary_size - 1));
  request.params.max_tokens = flags.output_tokens;
  request.params.ignore_eos = 1;
  return request;
}

// One batch from submit to the last token. The decode rate counts the tokens that came while every sequence was
// decoding: after the last first token, until the first end (llama-batched-bench's S_TG).
Sample measure(Engine& engine, const BenchFlags& flags, int32_t vocabulary_size, Rng& rng) {
  const SteadyClock clock;
  std::vector<RequestOptions> requests;
  for (int32_t i = 0; i < flags.batch; ++i) requests.push_back(random_request(flags, vocabulary_size, rng));
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
    bool was_full = started == flags.batch && ended == 0;
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
    if (was_full) {
      decode_tokens += came;
      decode_end = now;
    } else if (started == flags.batch && all_started == 0) {
      all_started = now;
    }
  }
  return {static_cast<double>(flags.batch) * flags.prompt_tokens / seconds(begin, all_started),
          decode_tokens == 0 ? 0.0 : static_cast<double>(decode_tokens) / seconds(all_started, decode_end),
          static_cast<double>(output_tokens) / seconds(begin, now)};
}

double median_of(std::vector<Sample> samples, double Sample::* figure) {
  std::sort(samples.begin(), samples.end(), [&](const Sample& a, const Sample& b) { return a.*figure < b.*figure; });
  return samples[samples.size() / 2].*figure;
}

void bench(const BenchFlags& flags, EngineFlags& engine_flags) {
  if (engine_flags.options.params.max_num_seqs == 0)
    engine_flags.options.params.max_num_seqs = std::max(flags.batch, 1);
  if (engine_flags.options.params.max_model_len == 0) {
    engine_flags.options.params.max_model_len = flags.prompt_tokens + flags.output_tokens + 1;
  }
  engine_flags.options.params.host_driven = 1;
  Engine engine = open_engine(engine_flags);
  const auto info = nlohmann::json::parse(engine.info_json());
  const int32_t vocabulary_size = info.at("model").at("vocabulary_size");
  const double weight_bytes = info.at("memory").at("weight_bytes_read_a_step");

  Rng rng(flags.seed);
  std::vector<Sample> samples;
  static_cast<void>(measure(engine, flags, vocabulary_size, rng));  // warm: tuned, cached, paged in
  for (int32_t i = 0; i < flags.repeat; ++i) samples.push_back(measure(engine, flags, vocabulary_size, rng));
  write_profile(engine, engine_flags);

  Device device = Device::open({.spec = engine_flags.options.device});
  const double bandwidth = measure_read_bandwidth(device);
  const double prefill = median_of(samples, &Sample::prefill_tokens_per_second);
  const double decode = median_of(samples, &Sample::decode_tokens_per_second);
  const double total = median_of(samples, &Sample::total_tokens_per_second);
  const double fraction = decode / flags.batch * weight_bytes / bandwidth;
  if (flags.as_json) {
    const nlohmann::ordered_json all = {{"prefill_tokens_per_second", prefill},
                                        {"decode_tokens_per_second", decode},
                                        {"total_tokens_per_second", total},
                                        {"read_bandwidth_gb_per_second", bandwidth * 1e-9},
                                        {"bandwidth_fraction", fraction},
                                        {"batch", flags.batch},
                                        {"prompt_tokens", flags.prompt_tokens},
                                        {"output_tokens", flags.output_tokens},
                                        {"repeat", flags.repeat},
                                        {"model", info.at("model").at("name")},
                                        {"device", info.at("device").at("name")}};
    fmt::print("{}\n", all.dump(2));
    return;
  }
  fmt::print("{} on {}\n", info.at("model").at("name").get<std::string>(),
             info.at("device").at("name").get<std::string>());
  fmt::print("batch {}, {} prompt tokens and {} output tokens each, median of {}\n", flags.batch, flags.prompt_tokens,
             flags.output_tokens, flags.repeat);
  fmt::print(
      "  prefill  {:10.1f} tokens/s\n  decode   {:10.1f} tokens/s, reading weights at {:.0f} % of {:.1f} GB/s\n"
      "  overall  {:10.1f} output tokens/s\n",
      prefill, decode, fraction * 100.0, bandwidth * 1e-9, total);
}

void add_bench(CLI::App& parent, const char* name, const char* help, bool with_batch) {
  CLI::App* const command = parent.add_subcommand(name, help);
  const auto flags = std::make_shared<BenchFlags>();
  constexpr int32_t kCountMax = 1 << 20;
  const CLI::Range count(1, kCountMax);
  if (with_batch) {
    flags->batch = 8;
    command->add_option("--batch", flags->batch, "Sequences")->check(count)->capture_default_str();
  }
  command->add_option("--prompt-tokens", flags->prompt_tokens, "Random tokens of each prompt")
      ->check(count)
      ->capture_default_str();
  command->add_option("--output-tokens", flags->output_tokens, "Tokens of each answer")
      ->check(CLI::Range(2, kCountMax))
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
