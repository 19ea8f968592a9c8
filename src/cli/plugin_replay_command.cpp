// SPDX-License-Identifier: Apache-2.0
// `inflight plugin replay FILE TRACE`: a recorded run with another policy beside the recorded one, call by call.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/format.h"
#include "cli/plugin_commands.h"
#include "cli/replay_report.h"
#include "plugin_host/plugin_registry.h"
#include "sim/recording.h"
#include "sim/replay.h"

namespace inflight::cli {
namespace {

nlohmann::ordered_json compared_json(const ShadowCounts::Compared& compared) {
  return {{"decisions", compared.all},
          {"differing", compared.differing},
          {"first_step",
           compared.first_step == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(compared.first_step)}};
}

void print_counts(const char* what, const ShadowCounts::Compared& compared) {
  if (compared.all == 0) return;
  fmt::print("  {:<11} {} of {} differ{}\n", what, compared.differing, compared.all,
             compared.first_step > 0 ? fmt::format(", first in step {}", compared.first_step) : "");
}

void replay_policy(const std::string& policy, const std::string& trace, bool applies, bool as_json) {
  const auto records = read_recording(trace);
  const bool schedules = plugin_registry().kind_of(parse_policy_spec(policy)) == INFLIGHT_KIND_SCHED;
  ReplayOptions options;
  (!applies ? options.shadow_policy : schedules ? options.schedule_policy : options.eviction_policy) = policy;
  const ReplayResult result = replay_trace(records, options);
  nlohmann::ordered_json json = {{"policy", policy}};
  json.update(replay_json(result));
  if (result.shadow) {
    json["order"] = compared_json(result.shadow->order);
    json["limits"] = compared_json(result.shadow->limits);
    json["admissions"] = compared_json(result.shadow->admissions);
    json["victims"] = compared_json(result.shadow->victims);
    json["strikes"] = result.shadow_strikes;
    json["fault"] = result.shadow_fault;
  }
  if (as_json) {
    print_json(json);
  } else if (result.shadow) {
    fmt::print("{} beside the recorded policy: {} steps, {} requests, {} strikes\n", policy, result.shadow->steps,
               result.requests, result.shadow_strikes);
    print_counts("order", result.shadow->order);
    print_counts("limits", result.shadow->limits);
    print_counts("admissions", result.shadow->admissions);
    print_counts("victims", result.shadow->victims);
    if (!result.shadow_fault.empty()) fmt::print("  {}\n", result.shadow_fault);
  } else {
    fmt::print("{}", describe(result));
  }
  if (result.shadow && result.difference) {
    fail(ErrorCode::CorruptFile, "{}: the recorded run is not reproduced: step {} differs", trace,
         result.difference->step);
  }
}

}  // namespace

void add_plugin_replay_command(CLI::App& plugin) {
  CLI::App* const command =
      plugin.add_subcommand("replay", "Ask a policy what a recorded run asked, and compare its decisions");
  command->add_option("POLICY", "File, name or id; :key=value,... for parameters")->required();
  command->add_option("TRACE", "Recording, as `inflight sim --record` writes it")->required();
  command->add_flag("--apply")->description("Let it decide, up to the first plan that differs");
  command->add_flag("--json")->description("One JSON object");
  command->callback([command] {
    const CLI::App& given = *command;
    replay_policy(given["POLICY"]->as<std::string>(), given["TRACE"]->as<std::string>(), given.count("--apply") > 0,
                  given.count("--json") > 0);
  });
}

}  // namespace inflight::cli
