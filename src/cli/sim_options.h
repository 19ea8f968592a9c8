// SPDX-License-Identifier: Apache-2.0
// The options that describe a simulation, the same in every command that runs one.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace inflight::cli {

// "--max-num-seqs" of "max_num_seqs".
[[nodiscard]] std::string sim_flag(std::string_view key);
// Adds one option for each key of sim_keys(), and the names by which they are known, too: --policy, --evict, --chunk,
// ...   without: a key that the command has no use for.
void add_sim_options(CLI::App& command, std::string_view without = "");
// What was given, as read_sim_spec() takes it.
[[nodiscard]] nlohmann::ordered_json sim_options_json(const CLI::App& command);

}  // namespace inflight::cli
