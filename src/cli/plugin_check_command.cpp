// SPDX-License-Identifier: Apache-2.0
// `inflight plugin check FILE`: one line a check, exit status 1 when one fails.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/format.h"
#include "cli/plugin_commands.h"
#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_config.h"

namespace inflight::cli {
namespace {

const char* word_of(CheckStatus status) {
  constexpr const char* kWords[] = {"ok", "FAILED", "skipped"};
  return kWords[static_cast<size_t>(status)];
}

void print_line(const CheckResult& result) {
  fmt::print("{:<8}{:<12} {}{}{}\n", word_of(result.status), result.group, result.name,
             result.message.empty() ? "" : ": ", result.message);
  std::fflush(stdout);
}

void run_check(const CheckOptions& options, bool as_json) {
  const auto results = check_plugin(options, [as_json](const CheckResult& result) {
    if (!as_json) print_line(result);
  });
  int failed = 0;
  auto list = nlohmann::ordered_json::array();
  for (const CheckResult& result : results) {
    failed += result.status == CheckStatus::Failed ? 1 : 0;
    list.push_back({{"group", result.group},
                    {"name", result.name},
                    {"status", result.status == CheckStatus::Failed ? "failed" : word_of(result.status)},
                    {"message", result.message},
                    {"wall_s", result.seconds}});
  }
  if (as_json) {
    const nlohmann::ordered_json report = {
        {"path", options.path}, {"seed", options.seed}, {"failed", failed}, {"checks", list}};
    print_json(report);
  }
  std::fflush(stdout);
  if (failed > 0) {
    fail(ErrorCode::Plugin, "{}: {} of {} checks failed; again: --seed {}", options.path, failed, results.size(),
         options.seed);
  }
}

}  // namespace

void add_plugin_check_command(CLI::App& plugin) {
  CLI::App* const command =
      plugin.add_subcommand("check", "Does a plugin file keep to plugin.h? Each check runs in a process of its own");
  command
      ->add_option(
          "FILE",
          "NAME.ifp.so, with #POLICY for one of several, with :key=value,... for other parameters than the defaults")
      ->required();
  command->add_option("--only", "Groups (G,G,...): file, query, create, ops, determinism, state, time, liveness")
      ->type_name("TEXT")
      ->delimiter(',')
      ->take_all();
  command->add_option("--seed", "Of the random calls (default: 1)")->type_name("UINT");
  const auto add_count = [command](const char* name, const char* help, int32_t most) {
    command->add_option(name)->description(help)->type_name("INT")->check(CLI::Range(1, most));
  };
  add_count("--calls", "Random steps (default: 5000)", 100'000'000);
  add_count("--limit-s", "Seconds that one check may take (default: 60)", 100'000);
  command->add_flag("--json")->description("One JSON object");
  command->callback([command] {
    const CLI::App& given = *command;
    CheckOptions options;
    const PolicySpec spec = parse_policy_spec(given["FILE"]->as<std::string>());
    options.path = spec.name;
    options.member = spec.member;
    options.parameters = spec.parameters;
    if (given.count("--only") > 0) options.only = given["--only"]->results();
    if (given.count("--seed") > 0) options.seed = given["--seed"]->as<uint64_t>();
    if (given.count("--calls") > 0) options.calls = given["--calls"]->as<int32_t>();
    if (given.count("--limit-s") > 0) options.limit_seconds = given["--limit-s"]->as<int32_t>();
    run_check(options, given.count("--json") > 0);
  });
}

}  // namespace inflight::cli
