// SPDX-License-Identifier: Apache-2.0
// `inflight plugin new NAME`: a folder with a working policy, built with nothing but the installed header.
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/plugin_commands.h"
#include "cli/plugin_templates.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

struct NewOptions {
  std::string name, lang, kind, into;
};

std::string_view template_text(std::string_view name) {
  for (const PluginTemplate& file : plugin_templates()) {
    if (file.name == name) return file.text;
  }
  fail(ErrorCode::Internal, "no template {}", name);
}

void require_name(const std::string& name) {
  const bool letters = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (name.empty() || name.size() > 64 || !letters || std::isalpha(static_cast<unsigned char>(name[0])) == 0 ||
      name.back() == '-') {
    fail(ErrorCode::InvalidArgument,
         "the plugin's name is '{}', allowed: up to 64 letters a-z, digits and '-', beginning with a letter", name);
  }
}

std::string symbol_of(std::string name) {
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
}

std::string type_of(const std::string& name) {  // my-policy -> MyPolicy
  std::string type;
  bool upper = true;
  for (const char letter : name) {
    if (letter != '-') {
      type += static_cast<char>(upper ? std::toupper(static_cast<unsigned char>(letter)) : letter);
    }
    upper = letter == '-';
  }
  return type;
}

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "@" + key + "@";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size())) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

void run_new(const NewOptions& options) {
  require_name(options.name);
  const bool evicts = options.kind == "evict", is_c = options.lang == "c";
  const std::filesystem::path folder = options.into.empty() ? options.name : options.into;
  if (std::filesystem::exists(folder))
    fail(ErrorCode::Io, "{} is there already; choose another place with --into", folder.string());
  const std::string source = options.name + (is_c ? ".c" : ".cpp");
  const std::vector<std::pair<std::string, std::string>> values = {
      {"name", options.name},
      {"Name", type_of(options.name)},
      {"symbol", symbol_of(options.name)},
      {"source", source},
      {"kind_text", evicts ? "KV-eviction strategy" : "scheduling policy"},
      {"option", evicts ? "--evict" : "--policy"},
      {"parameter", evicts ? "hit_ms=500" : "aging_ms=5"},
      {"compiler_variable", is_c ? "CC" : "CXX"},
      {"flags", is_c ? "CFLAGS" : "CXXFLAGS"},
      {"standard", is_c ? "-std=c11" : "-std=c++17"},
      {"flags_variable", is_c ? "plugin_cflags" : "plugin_cxxflags"}};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::Io, "{}: {}", folder.string(), error.message());
  const std::string policy = fmt::format("{}.{}", evicts ? "evict" : "sched", options.lang);
  const std::pair<std::string, std::string> files[] = {
      {source, policy}, {"CMakeLists.txt", "CMakeLists.txt"}, {"Makefile", "Makefile"}, {"README.md", "README.md"}};
  try {
    for (const auto& [file, from] : files) {
      write_text_file((folder / file).string(), filled(std::string(template_text(from)), values));
    }
  } catch (const Error&) {
    std::filesystem::remove_all(folder, error);  // so that it can be tried again
    throw;
  }
  fmt::print("{}: {}, CMakeLists.txt, Makefile, README.md; next: cd {} && make check\n", folder.string(), source,
             folder.string());
}

}  // namespace

void add_plugin_new_command(CLI::App& plugin) {
  CLI::App* const command = plugin.add_subcommand("new", "Write a working policy to begin from: source, build, README");
  command->add_option("NAME", "Its name: letters a-z, digits, '-'")->required();
  command->add_option("--lang", "c or cpp")->type_name("TEXT")->check(CLI::IsMember({"c", "cpp"}))->default_str("cpp");
  command->add_option("--kind", "schedule (order, admission, victims) or evict (stored blocks)")
      ->type_name("TEXT")
      ->check(CLI::IsMember({"schedule", "evict"}))
      ->default_str("schedule");
  command->add_option("--into", "The folder to make (default: NAME)")->type_name("FOLDER");
  command->callback([command] {
    const CLI::App& given = *command;
    const auto text = [&](const char* option, const char* otherwise) {
      return given.count(option) > 0 ? given[option]->as<std::string>() : std::string(otherwise);
    };
    run_new({.name = text("NAME", ""),
             .lang = text("--lang", "cpp"),
             .kind = text("--kind", "schedule"),
             .into = text("--into", "")});
  });
}

}  // namespace inflight::cli
