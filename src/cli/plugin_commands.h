// SPDX-License-Identifier: Apache-2.0
// The subcommands of `inflight plugin`, one file each; each adds itself below `plugin`.
#pragma once

#include <CLI/CLI.hpp>

namespace inflight::cli {

void add_plugin_check_command(CLI::App& plugin);
void add_plugin_new_command(CLI::App& plugin);
void add_plugin_replay_command(CLI::App& plugin);

}  // namespace inflight::cli
