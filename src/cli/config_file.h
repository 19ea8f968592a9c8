// SPDX-License-Identifier: Apache-2.0
// --config and --print-config: a command's options from a TOML file, and where the value of each comes from.
#pragma once

#include <CLI/CLI.hpp>

namespace inflight::cli {

// --config FILE holds `name = value` lines, names as the command's long options without dashes in front. The command
// line comes before environment variables, these before the file, the file before the defaults. --print-config prints
// every option with its value, source (flag, env, file, default) and the version that set the default, in a form that
// --config reads, and ends the program.
// ERRORS: InvalidArgument for an unknown name or a value that the option refuses, naming file and option.
void add_config_options(CLI::App& command);

}  // namespace inflight::cli
