// SPDX-License-Identifier: Apache-2.0
// Numbers and mistakes as people read them, the same in every command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace inflight::cli {

[[nodiscard]] std::string bytes_text(size_t bytes);        // "512 B", "4.8 MiB"
[[nodiscard]] std::string grouped(int64_t number);         // "1,234,567"
[[nodiscard]] std::string parameters_text(int64_t count);  // "2.49 M", "1.10 B"

// A mistake on the command line or in a file of options: names the option, what was given, what is allowed.
[[nodiscard]] std::string mistake_text(const CLI::ParseError& error);

}  // namespace inflight::cli
