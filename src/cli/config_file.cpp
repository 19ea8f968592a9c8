// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/format.h"
#include "inflight/version.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

constexpr std::string_view kDefaultsSince = "0.1.0";  // no default was changed by a later version
constexpr std::string_view kNotSettings[] = {"help", "config", "print-config"};
constexpr std::string_view kSecret = "api-key";

struct ConfigFlags {
  std::string path;
  bool print = false;
  std::set<const CLI::Option*> from_file;
};

// "inflight bench latency"
std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

std::string long_name(const CLI::Option& option) { return option.get_lnames().front(); }

// Whether the option may stand in a file.
bool is_setting(const CLI::Option* option) {
  return option != nullptr && !option->get_lnames().empty() &&
         std::ranges::find(kNotSettings, long_name(*option)) == std::end(kNotSettings);
}

toml::table read_toml(const std::string& path) {
  try {
    return toml::parse(read_text_file(path), path);
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::InvalidArgument, "{}:{}: no TOML (texts stand in quotes): {}", path, error.source().begin.line,
         error.description());
  }
}

// How true and false are given to an option.
struct TruthNames {
  const char *yes = "true", *no = "false";
};
TruthNames truth_names(const CLI::Option& option) {
  const bool switches = option.get_expected_min() == 0 && option.get_expected_max() > 0;  // --overlap, --overlap off
  return switches ? TruthNames{"on", "off"} : TruthNames{};
}

// As on the command line. Nothing: it is no value of one.
std::optional<std::string> scalar_text(const toml::node& node, const TruthNames& truth = {}) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? truth.yes : truth.no;
  return {};
}

// One value or an array of them.
std::vector<std::string> value_texts(const toml::node& node, const std::string& path, const std::string& name,
                                     const TruthNames& truth) {
  std::vector<std::string> texts;
  const auto append = [&](const toml::node& one) {
    std::optional<std::string> text = scalar_text(one, truth);
    if (!text) {
      fail(ErrorCode::InvalidArgument, "{}:{}: {} is no text, number, true or false, nor an array of these", path,
           one.source().begin.line, name);
    }
    texts.push_back(std::move(*text));
  };
  if (const toml::array* const several = node.as_array()) {
    for (const toml::node& one : *several) append(one);
  } else {
    append(node);
  }
  return texts;
}

void read_file(CLI::App& command, ConfigFlags& flags) {
  const toml::table settings = read_toml(flags.path);
  for (const auto& [key, node] : settings) {
    const std::string name(key.str());
    CLI::Option* const option = node.is_table() ? nullptr : command.get_option_no_throw("--" + name);
    if (!is_setting(option)) {
      fail(ErrorCode::InvalidArgument, "{}: '{}' is no option of {}; see: {} --print-config", flags.path, name,
           command.get_name(), full_name(command));
    }
    if (option->count() > 0) continue;  // the command line or the environment says it
    option->allow_extra_args(false);    // else a text in brackets would be taken apart
    for (std::string& text : value_texts(node, flags.path, name, truth_names(*option)))
      option->add_result(std::move(text));
    flags.from_file.insert(option);
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      fail(ErrorCode::InvalidArgument, "{}: {}", flags.path, mistake_text(error));
    }
  }
}

// A number, true or false that reads back as this very text.
bool needs_no_quotes(const std::string& value) {
  try {
    return scalar_text(*toml::parse("x = " + value).get("x")) == value;
  } catch (const toml::parse_error&) {
    return false;
  }
}

std::string quoted(const std::string& value) {
  if (needs_no_quotes(value)) return value;
  std::ostringstream text;
  text << toml::toml_formatter{toml::value{value},
                               toml::toml_formatter::default_flags & ~toml::format_flags::allow_multi_line_strings};
  return text.str();
}

// What holds without a value: said at the end of the option's help, or kept by the option.
std::string default_of(const CLI::Option& option) {
  constexpr std::string_view kMark = "(default: ";
  const std::string& help = option.get_description();
  if (const size_t begin = help.find(kMark); begin != std::string::npos) {
    return help.substr(begin + kMark.size(), help.rfind(')') - begin - kMark.size());
  }
  if (option.get_items_expected_max() == 0) return "false";  // a switch
  return option.get_default_str().empty() ? "none" : option.get_default_str();
}

std::string_view source_of(const CLI::Option& option, const ConfigFlags& flags) {
  if (flags.from_file.contains(&option)) return "file";
  const char* const variable = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return variable != nullptr && option.results().front() == variable ? "env" : "flag";
}

// A default is a comment: it may be words ("as many as fit"), and should follow the program's next version.
void print_settings(CLI::App& command, const ConfigFlags& flags) {
  fmt::print("# {} {}\n", full_name(command), INFLIGHT_VERSION_STRING);
  for (const CLI::Option* option : command.get_options(is_setting)) {
    const std::string name = long_name(*option);
    if (option->count() == 0) {
      fmt::print("# {} = {}  # default since {}\n", name, default_of(*option), kDefaultsSince);
      continue;
    }
    if (name == kSecret) {
      fmt::print("# {} is given by {}, not shown\n", name, source_of(*option, flags));
      continue;
    }
    std::vector<std::string> values = option->results();
    std::ranges::transform(values, values.begin(), quoted);
    const std::string value = values.size() == 1 ? values.front() : fmt::format("[{}]", fmt::join(values, ", "));
    fmt::print("# {}\n{} = {}\n", source_of(*option, flags), name, value);
  }
}

}  // namespace

void add_config_options(CLI::App& command) {
  const auto flags = std::make_shared<ConfigFlags>();
  command.add_option("--config", flags->path, "TOML file with options of this command; those given here come on top");
  command.add_flag("--print-config", flags->print,
                   "Print every option's value and where it comes from, as a --config file");
  command.parse_complete_callback([&command, flags] {
    if (!flags->path.empty()) read_file(command, *flags);
    if (!flags->print) return;
    print_settings(command, *flags);
    throw CLI::Success();
  });
}

}  // namespace inflight::cli
