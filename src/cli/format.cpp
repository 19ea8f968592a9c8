// SPDX-License-Identifier: Apache-2.0
#include "cli/format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <type_traits>

#include "base/error.h"
#include "sim/parse_number.h"

namespace inflight::cli {

std::string bytes_text(size_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t sign = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string parameters_text(int64_t count) {
  if (count < 1000) return std::to_string(count);
  const auto value = static_cast<double>(count);
  if (value >= 999.5e6) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 999.5e3) return fmt::format("{:.2f} M", value / 1e6);
  return fmt::format("{:.1f} K", value / 1e3);
}

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_now(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
}

namespace {

// The file, or the folder that it would be made in.
void require_writable(const OutputFile& output) {
  std::error_code absent;
  const std::filesystem::path path(output.path), parent = path.parent_path();
  if (std::filesystem::is_directory(path, absent)) {
    fail(ErrorCode::InvalidArgument, "{} is {}, a folder; allowed: a file", output.option, output.path);
  }
  const bool exists = std::filesystem::exists(path, absent);
  const std::string where = exists ? output.path : parent.empty() ? "." : parent.string();
  if (::access(where.c_str(), exists ? W_OK : W_OK | X_OK) == 0) return;
  fail(ErrorCode::Io, "{} is {}: {}: {}", output.option, output.path, where, std::strerror(errno));
}

}  // namespace

void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs) {
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code absent;
    const bool equal =
        !a.empty() && std::filesystem::path(a).lexically_normal() == std::filesystem::path(b).lexically_normal();
    return equal || std::filesystem::equivalent(a, b, absent);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    std::error_code absent;
    if (path.empty()) continue;
    require_writable(outputs[i]);
    if (std::filesystem::is_character_file(path, absent)) continue;  // such as /dev/null
    for (const std::string& input : inputs) {
      if (same(path, input)) {
        fail(ErrorCode::InvalidArgument, "{} is {}, which is read; give the output another name", option, path);
      }
    }
    for (const OutputFile& other : std::span(outputs).first(i)) {
      if (same(path, other.path)) {
        fail(ErrorCode::InvalidArgument, "{} and {} are both {}; give each a name of its own", other.option, option,
             path);
      }
    }
  }
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("is empty, allowed: any text of one byte or more") : std::string();
          },
          "", "not empty"};
}

namespace {

// CLI11 reads "010" as 8 and "-1" as the largest of unsigned numbers.
template <typename Number>
void read_by_base_ten(CLI::Option& option, const std::string& type) {
  const size_t range = type.find(" in [");
  const std::string allowed = "a whole number" + (range != std::string::npos ? type.substr(range)
                                                  : std::is_signed_v<Number> ? ""
                                                                             : " from 0");
  option.transform([&option, allowed](const std::string& text) {
    const std::optional<Number> number = parse_number<Number>(text);
    if (!number) throw CLI::ConversionError(fmt::format("{} is '{}', allowed: {}", option.get_name(), text, allowed));
    return fmt::to_string(*number);
  });
}

}  // namespace

void read_whole_numbers(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();  // "INT", or with what is checked: "N:INT in [1 - 1000]"
    if (type.find("UINT") != std::string::npos) {
      read_by_base_ten<uint64_t>(*option, type);
    } else if (type.find("INT") != std::string::npos) {
      read_by_base_ten<int64_t>(*option, type);
    }
  }
  for (CLI::App* const command : app.get_subcommands(nullptr)) read_whole_numbers(*command);
}

std::string mistake_text(const CLI::ParseError& error) {
  constexpr std::string_view kNoNumber = "Could not convert: ";  // "--max-tokens = abc"; everything else is text
  const std::string what = error.what();
  const size_t equals = what.find(" = ");
  if (!what.starts_with(kNoNumber) || equals == std::string::npos) return what;
  return fmt::format("{} is '{}', a number in its range is expected",
                     what.substr(kNoNumber.size(), equals - kNoNumber.size()), what.substr(equals + 3));
}

}  // namespace inflight::cli
