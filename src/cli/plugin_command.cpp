// SPDX-License-Identifier: Apache-2.0
// `inflight plugin list`: every policy that can be named here, without running any of the files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/plugin_commands.h"
#include "cli/stderr_log.h"
#include "plugin_host/plugin_file.h"
#include "plugin_host/plugin_notes.h"
#include "plugin_host/plugin_registry.h"

namespace inflight::cli {
namespace {

const char* kind_name(uint32_t kind) { return kind == INFLIGHT_KIND_EVICT ? "evict" : "sched"; }

const char* param_type_name(uint32_t type) {
  constexpr const char* kNames[] = {"string", "int64", "float64", "bool"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

std::string short_name_of(const std::string& id) { return id.substr(id.rfind('.') + 1); }

void list_as_json(const std::vector<PluginRegistry::Listed>& listed, const std::vector<std::string>& problems) {
  nlohmann::ordered_json policies = nlohmann::ordered_json::array();
  for (const auto& entry : listed) {
    nlohmann::ordered_json policy = {
        {"name", short_name_of(entry.id)}, {"id", entry.id}, {"kind", kind_name(entry.kind)}, {"origin", entry.origin}};
    if (entry.policy != nullptr) {
      policy["summary"] = entry.policy->summary;
      policy["version"] = entry.policy->version;
      policy["parameters"] = nlohmann::ordered_json::array();
      for (const inflight_param_t& param : std::span(entry.policy->params, entry.policy->param_count)) {
        const auto text = [](const char* value) { return value == nullptr ? nlohmann::ordered_json() : value; };
        policy["parameters"].push_back({{"key", param.key},
                                        {"type", param_type_name(param.type)},
                                        {"runtime", (param.flags & INFLIGHT_PARAM_RUNTIME) != 0},
                                        {"default", text(param.default_value)},
                                        {"minimum", text(param.minimum)},
                                        {"maximum", text(param.maximum)},
                                        {"help", text(param.help)}});
      }
    }
    policies.push_back(policy);
  }
  print_json({{"policies", policies}, {"problems", problems}});
}

void list_as_text(const std::vector<PluginRegistry::Listed>& listed, const std::vector<std::string>& problems) {
  size_t width = 0;
  for (const auto& entry : listed) width = std::max(width, short_name_of(entry.id).size());
  for (const uint32_t kind : {INFLIGHT_KIND_SCHED, INFLIGHT_KIND_EVICT}) {
    fmt::print("{}\n",
               kind == INFLIGHT_KIND_SCHED ? "Scheduling policies (--policy)" : "\nEviction strategies (--evict)");
    for (const auto& entry : listed) {
      if (entry.kind != kind) continue;
      fmt::print("  {:<{}}  {}\n", short_name_of(entry.id), width,
                 entry.policy != nullptr ? entry.policy->summary : entry.origin);
      if (entry.policy == nullptr) continue;
      for (const inflight_param_t& param : std::span(entry.policy->params, entry.policy->param_count)) {
        fmt::print("  {:<{}}    {}={}: {}\n", "", width, param.key,
                   param.default_value != nullptr ? param.default_value : "...",
                   param.help != nullptr ? param.help : "");
      }
    }
  }
  for (const std::string& problem : problems) print_to_stderr("inflight: {}\n", problem);
}

void run_list(bool as_json) {
  PluginRegistry& registry = plugin_registry();
  std::vector<std::string> problems;
  auto listed = registry.list(problems);
  std::ranges::stable_sort(listed, {}, [](const auto& entry) { return short_name_of(entry.id); });
  if (as_json) {
    list_as_json(listed, problems);
  } else {
    list_as_text(listed, problems);
  }
}

void add_plugin_lock_command(CLI::App& plugin) {
  CLI::App* const lock =
      plugin.add_subcommand("lock", "The lines for plugins.lock that pin files to what they are now");
  lock->add_option("FILE", "Plugin files; nothing of them is run")->required()->expected(1, -1)->allow_extra_args();
  lock->callback([lock] {
    for (const auto& path : (*lock)["FILE"]->results()) {
      const auto notes = read_plugin_notes(path);
      if (notes.empty()) fail(ErrorCode::Plugin, "{}: names no policy in its notes", path);
      const std::string sha256 = sha256_of_file(path);
      for (const PluginNote& note : notes) fmt::print("{}  {}\n", sha256, note.id);
    }
  });
}

}  // namespace

void add_plugin_command(CLI::App& app) {
  CLI::App* const plugin = app.add_subcommand("plugin", "Scheduling policies and eviction strategies");
  plugin->require_subcommand(1);
  CLI::App* const list = plugin->add_subcommand("list", "Every policy that can be named, its parameters, where it is");
  list->add_flag("--json")->description("One JSON object");
  list->callback([list] { run_list(list->count("--json") > 0); });
  add_plugin_check_command(*plugin);
  add_plugin_lock_command(*plugin);
  add_plugin_new_command(*plugin);
  add_plugin_replay_command(*plugin);
}

}  // namespace inflight::cli
