// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>

#include "cli/commands.h"
#include "cli/demo_model.h"
#include "cli/format.h"
#include "cli/inspect_report.h"

namespace inflight::cli {
namespace {

void run_inspect(const std::string& path, bool as_json) {
  const GgufFile file(path);
  const Inspection inspection = inspect(file);
  if (as_json) {
    print_json(to_json(inspection));
  } else {
    fmt::print("{}", to_text(inspection));
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("inspect", "Show what a model file holds and what memory it takes");
  command->add_option("FILE", "GGUF file or folder of safetensors, runnable or not (default: the demo model)")
      ->check(not_empty());
  command->add_flag("--json")->description("One JSON object instead of tables");
  command->callback([command] {
    const std::string path = command->count("FILE") > 0 ? (*command)["FILE"]->as<std::string>() : demo_model_path();
    run_inspect(path, command->count("--json") > 0);
  });
}

}  // namespace inflight::cli
