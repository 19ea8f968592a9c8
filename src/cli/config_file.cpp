// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/format.h"
#include "inflight/version.h"

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

std::string name_of(const CLI::Option& option) { return option.get_lnames().front(); }

// Whether the option may stand in a file.
bool is_setting(const CLI::Option* option) {
  return option != nullptr && !option->get_lnames().empty() &&
         std::ranges::find(kNotSettings, name_of(*option)) == std::end(kNotSettings);
}

void read_file(CLI::App& command, ConfigFlags& flags) {
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(flags.path)) {
    const std::string name = item.fullname();
    CLI::Option* const option = item.parents.empty() ? command.get_option_no_throw("--" + name) : nullptr;
    if (!is_setting(option)) {
      fail(ErrorCode::InvalidArgument, "{}: '{}' is no option of {}; see: inflight {} --print-config", flags.path, name,
           command.get_name(), command.get_name());
    }
    if (option->count() > 0) continue;  // the command line or the environment says it
    option->add_result(item.inputs);
    flags.from_file.insert(option);
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      fail(ErrorCode::InvalidArgument, "{}: {}", flags.path, mistake_text(error));
    }
  }
}

std::string quoted(const std::string& value) {
  const bool number = !value.empty() && value.find_first_not_of("-+.0123456789") == std::string::npos;
  if (number || value == "true" || value == "false") return value;
  const char quote = value.find_first_of("\"\\") == std::string::npos ? '"' : '\'';  // nothing is escaped between these
  return fmt::format("{}{}{}", quote, value, quote);
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
  fmt::print("# inflight {} {}\n", command.get_name(), INFLIGHT_VERSION_STRING);
  for (const CLI::Option* option : command.get_options(is_setting)) {
    const std::string name = name_of(*option);
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
