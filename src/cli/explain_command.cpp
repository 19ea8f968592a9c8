// SPDX-License-Identifier: Apache-2.0
// `inflight explain` and `inflight replay`: what a recording tells.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/replay_report.h"
#include "sim/explain.h"
#include "sim/recording.h"
#include "sim/replay.h"

namespace inflight::cli {
namespace {

using Json = nlohmann::ordered_json;

double ms(TimeNs time) { return static_cast<double>(time) * 1e-6; }

void run_explain(const CLI::App& command) {
  const auto request = command["REQUEST"]->as<int64_t>();
  if (request < 1) fail(ErrorCode::InvalidArgument, "REQUEST is {}, allowed: a number from 1, by arrival", request);
  const auto records = read_recording(command["TRACE"]->as<std::string>());
  const Explanation told = explain_request(records, static_cast<uint64_t>(request), command["--choice"]->as<int32_t>());
  const TimeNs arrival = told.lines.front().begin;
  if (command.count("--json") > 0) {
    Json lines = Json::array();
    for (const ExplainedLine& line : told.lines) {
      Json entry = {{"what", to_string(line.kind)},          {"first_step", line.first_step},
                    {"last_step", line.last_step},           {"begin_ms", ms(line.begin - arrival)},
                    {"end_ms", ms(line.end - arrival)},      {"tokens", line.computed_tokens},
                    {"guessed_tokens", line.guessed_tokens}, {"text", line.text}};
      if (line.kind == ExplainedKind::Waited) entry["reason"] = to_string(line.result);
      lines.push_back(std::move(entry));
    }
    print_json({{"request", told.request}, {"choice", told.choice}, {"lines", lines}});
    return;
  }
  fmt::print("{:>12}  {:<13}  {:<9}  {}\n", "ms", "steps", "what", "why");
  for (const ExplainedLine& line : told.lines) {
    std::string steps = line.first_step == 0 ? "" : std::to_string(line.first_step);
    if (line.last_step != line.first_step) steps += fmt::format("..{}", line.last_step);
    fmt::print("{:>12.3f}  {:<13}  {:<9}  {}\n", ms(line.begin - arrival), steps, to_string(line.kind), line.text);
  }
}

void replay_recording(const CLI::App& command) {
  const ReplayOptions options{.schedule_policy = command["--policy"]->as<std::string>(),
                              .eviction_policy = command["--evict"]->as<std::string>()};
  print_replay(replay_trace(read_recording(command["TRACE"]->as<std::string>()), options), command.count("--json") > 0);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* const explain = app.add_subcommand("explain", "Why a request waited, step by step, from a recording");
  explain->add_option("TRACE")->required()->description("A recording: of `sim --record` or an engine's record_path");
  explain->add_option("REQUEST")->required()->type_name("INT")->description(
      "The request, counted from 1 as they were submitted");
  explain->add_option("--choice")->type_name("INT")->default_val(0)->description("Which of its n answers");
  explain->add_flag("--json")->description("One JSON object");
  explain->callback([explain] { run_explain(*explain); });
}

void add_replay_command(CLI::App& app) {
  CLI::App* const replay =
      app.add_subcommand("replay", "A recording's decisions again, compared step by step; status 1: a plan differs");
  replay->add_option("TRACE")->required()->description("A recording with inputs");
  const auto add_policy = [replay](const char* names, const char* help) {
    replay->add_option(names)->type_name("TEXT")->default_val("")->description(help);
  };
  add_policy("--policy,--schedule-policy", "Another scheduling policy");
  add_policy("--evict,--radix-eviction-policy", "Another eviction strategy");
  replay->add_flag("--json")->description("One JSON object");
  replay->callback([replay] { replay_recording(*replay); });
}

}  // namespace inflight::cli
