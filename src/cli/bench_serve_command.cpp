// SPDX-License-Identifier: Apache-2.0
// `inflight bench serve`: load on any OpenAI-compatible server, and what its clients see of it.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "loadgen/load_summary.h"
#include "sim/parse_number.h"
#include "sim/text_file.h"
#include "sim/trace_reader.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

struct LoadFlags {
  std::string base_url = "http://127.0.0.1:8000", endpoint = "/v1/completions";
  std::string workload, trace;
  TraceOptions trace_options{};
  int32_t num_prompts = 0;
  int32_t input_len = 128, output_len = 64;
  std::vector<std::string> request_rates;
  double burstiness = 1.0;
  std::vector<std::string> goodput;
  std::string extra_body, html;
  bool stop_at_eos = false, as_json = false;
  LoadOptions load;
  int32_t timeout_s = 600;
};

Workload offered_load(const LoadFlags& flags) {
  if (!flags.trace.empty()) {
    if (!flags.workload.empty())
      fail(ErrorCode::InvalidArgument, "--workload and --trace are both given, allowed: one");
    TraceOptions options = flags.trace_options;
    options.requests_max = flags.num_prompts;
    return read_trace_workload(flags.trace, options);
  }
  if (!flags.workload.empty()) {
    if (flags.num_prompts > 0 && flags.workload.find(",requests=") != std::string::npos) {
      fail(ErrorCode::InvalidArgument, "--num-prompts is {} beside --workload '{}', allowed: one that counts requests",
           flags.num_prompts, flags.workload);
    }
    const std::string count = flags.num_prompts > 0 ? fmt::format(",requests={}", flags.num_prompts) : "";
    return make_workload(flags.workload + count);
  }
  return make_workload(fmt::format("closed,requests={},prompt={},output={},seed={}",
                                   flags.num_prompts > 0 ? flags.num_prompts : 100, flags.input_len, flags.output_len,
                                   flags.load.seed));
}

double rate_of(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  const auto rate = parse_number(text);
  if (!rate || !(*rate > 0)) {
    fail(ErrorCode::InvalidArgument, "--request-rate is '{}', allowed: requests a second above 0, or inf", text);
  }
  return *rate;
}

LoadSummary measure(const Workload& workload, const LoadFlags& flags, const ServiceLevel& level,
                    const std::string& what) {
  const SteadyClock clock;
  ProgressBar bar(what, clock);
  const size_t count = workload.requests.size();
  const LoadRecords records = run_load(workload, flags.load, [&](size_t ended) {
    bar.update_share(static_cast<double>(ended) / static_cast<double>(count), fmt::format("{} of {}", ended, count));
  });
  return summarize(records, level);
}

void bench_serve(LoadFlags& flags) {
  flags.load.target = parse_load_target(flags.base_url, flags.endpoint);
  flags.load.ignore_eos = !flags.stop_at_eos;
  flags.load.timeout = std::chrono::seconds(flags.timeout_s);
  if (const char* const key = std::getenv("OPENAI_API_KEY"); flags.load.api_key.empty() && key != nullptr) {
    flags.load.api_key = key;
  }
  if (flags.load.end_token_id <= flags.load.first_token_id) {
    fail(ErrorCode::InvalidArgument, "--vocab-size is {}, allowed: more than {}", flags.load.end_token_id,
         flags.load.first_token_id);
  }
  if (!flags.extra_body.empty()) {
    flags.load.extra_body = nlohmann::json::parse(flags.extra_body, nullptr, false);
    if (!flags.load.extra_body.is_object()) {
      fail(ErrorCode::InvalidArgument, "--extra-body is '{}', allowed: a JSON object", flags.extra_body);
    }
  }
  check_outputs({{"--html", flags.html}}, {});
  const ServiceLevel level = parse_service_level(flags.goodput);
  std::vector<double> rates;
  for (const std::string& text : flags.request_rates) rates.push_back(rate_of(text));
  Workload workload = offered_load(flags);
  const char* const own_arrivals = !flags.trace.empty() ? "trace" : !flags.workload.empty() ? "workload" : "";

  std::vector<LoadSummary> runs;
  for (size_t i = 0; i < std::max<size_t>(rates.size(), 1); ++i) {
    if (!rates.empty()) set_arrivals(workload, rates[i], flags.burstiness, flags.load.seed);
    const std::string what = rates.empty() ? flags.base_url : flags.request_rates[i] + " requests/s";
    runs.push_back(measure(workload, flags, level, what));
    if (rates.empty()) {
      runs.back().arrivals_of = own_arrivals;
    } else {
      runs.back().request_rate = rates[i];
    }
    if (!flags.as_json && rates.size() < 2) fmt::print("{}", to_text(runs.back()));
  }
  if (flags.as_json) {
    nlohmann::ordered_json json = to_json(runs.front());
    if (runs.size() > 1) {
      json = {{"runs", nlohmann::ordered_json::array()}};
      for (const LoadSummary& run : runs) json["runs"].push_back(to_json(run));
    }
    json["base_url"] = flags.base_url;
    json["workload"] = workload.name;
    if (!flags.trace.empty()) json["trace_speed"] = flags.trace_options.speed;
    print_json(json);
  } else if (runs.size() > 1) {
    fmt::print("{}", to_table(runs));
  }
  if (!flags.html.empty()) write_text_file(flags.html, sweep_html("inflight bench serve: " + flags.base_url, runs));
  for (const LoadSummary& run : runs) {
    if (run.failed > 0) {
      fail(ErrorCode::Io, "{} of {} requests failed: {}", run.failed, run.failed + run.completed, run.errors.front());
    }
  }
}

}  // namespace

void add_bench_serve(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand("serve", "Load on any OpenAI-compatible server: latencies, goodput");
  const auto flags = std::make_shared<LoadFlags>();
  const auto add = [command](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->capture_default_str();
  };
  const CLI::Range count(1, 1 << 24);
  add("--base-url", flags->base_url, "http://HOST[:PORT][/PATH] of the server");
  add("--endpoint", flags->endpoint, "Path; one that ends in /chat/completions is sent messages");
  add("--model", flags->load.model, "Name to ask for (default: none is named)");
  add("--api-key", flags->load.api_key, "Sent as bearer token (also: $OPENAI_API_KEY)");
  add("--num-prompts", flags->num_prompts, "Requests (default: 100, or as the workload or trace has)")->check(count);
  add("--random-input-len", flags->input_len,
      "Tokens of each prompt, when no workload or trace is given; to chat: words, of several tokens each")
      ->check(count);
  add("--random-output-len", flags->output_len, "Tokens of each answer, likewise")->check(count);
  add("--workload", flags->workload, "Synthetic requests as in `inflight sim`: bimodal,requests=200,seed=3");
  CLI::Option* const trace =
      add("--trace", flags->trace, "Requests from a file: Azure, BurstGPT, Mooncake, OpenAI logs, recordings");
  add("--trace-speed", flags->trace_options.speed, "Replay speed of its arrivals; 0: all at the start")
      ->needs(trace)
      ->check(CLI::Range(0.0, kTraceSpeedMax));
  add("--request-rate", flags->request_rates, "Requests a second, or inf; several (R,R,...): a run for each")
      ->delimiter(',')
      ->type_name("R[,R...]");
  add("--burstiness", flags->burstiness, "Shape of the gamma distribution of the gaps; 1: Poisson")
      ->check(CLI::Range(1e-3, 1e6));
  add("--max-concurrency", flags->load.max_concurrency, "Requests open at once; 0: no limit")
      ->check(CLI::Range(0, 1 << 20));
  add("--seed", flags->load.seed, "Of prompts and arrivals");
  add("--goodput", flags->goodput, "Goals of a good request: ttft:MS tpot:MS e2el:MS")->delimiter(',');
  add("--vocab-size", flags->load.end_token_id, "Prompts are made of token ids from 10 up to this")
      ->check(CLI::Range(11, 1 << 24));
  add("--extra-body", flags->extra_body, "JSON object merged into every request");
  add("--timeout", flags->timeout_s, "Seconds without a byte until a request has failed")->check(CLI::Range(1, 86'400));
  command->add_flag("--stop-at-eos", flags->stop_at_eos, "Do not send ignore_eos: answers may end early");
  add("--html", flags->html, "Write a page with the plots to this file");
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { bench_serve(*flags); });
}

}  // namespace inflight::cli
