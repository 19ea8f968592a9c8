// SPDX-License-Identifier: Apache-2.0
// Numbers and mistakes as people read them, and what options may not be, the same in every command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace inflight::cli {

[[nodiscard]] std::string bytes_text(size_t bytes);        // "512 B", "4.8 MiB"
[[nodiscard]] std::string grouped(int64_t number);         // "1,234,567"
[[nodiscard]] std::string parameters_text(int64_t count);  // "2.49 M", "1.10 B"

// One JSON object on standard output. Bytes that are no UTF-8, as names of files may hold, become U+FFFD.
void print_json(const nlohmann::ordered_json& json);

// On standard output, at once.   ERRORS: std::system_error.
void print_now(std::string_view text);

// For options that mean something else when they are not given: an empty text is refused.
[[nodiscard]] CLI::Validator not_empty();

// What could not be written, and files that would be written over one that is read, or over one another: found before
// the work is done. Empty paths are none.   ERRORS: InvalidArgument, Io; both name the option.
struct OutputFile {
  const char* option;
  std::string path;
};
void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs);

// Whole numbers of `app` and its commands are read by the base ten, "010" as 10, and none below 0 where none may be.
void read_whole_numbers(CLI::App& app);

// A mistake on the command line or in a file of options: names the option, what was given, what is allowed.
[[nodiscard]] std::string mistake_text(const CLI::ParseError& error);

}  // namespace inflight::cli
