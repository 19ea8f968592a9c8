// SPDX-License-Identifier: Apache-2.0
// All policies that can be named: the built-in ones, loaded files, and files found in the plugin folders.
//
// A name is looked for in this order: a path (contains '/'); files loaded before; $INFLIGHT_PLUGIN_PATH (folders,
// colon-separated; ignored for set-user-id programs); $XDG_DATA_HOME/inflight/plugins-1 (or ~/.local/share/...); the
// built-in policies; the folder they were installed to. Never the current folder.
// THREAD: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin_host/plugin_config.h"
#include "plugin_host/plugin_module.h"

namespace inflight {

class PluginRegistry {
 public:
  PluginRegistry();

  struct Found {
    const inflight_policy_t* policy;
    std::string origin;
    const PluginModule* module;
  };
  // ERRORS: NotFound listing the names there are; InvalidArgument: a member of what is no path; Plugin as
  // PluginModule::load.
  [[nodiscard]] Found find(const PolicySpec& spec, uint32_t kind);
  // The policy that find() finds; null where nothing has the name.  ERRORS: as find(), but NotFound.
  [[nodiscard]] const inflight_policy_t* search(const PolicySpec& spec, uint32_t kind);
  // The kind of the policy that the spec names.  ERRORS: as find(); InvalidArgument: one of each kind has the name.
  [[nodiscard]] uint32_t kind_of(const PolicySpec& spec);

  // Loads a file now; its policies can be named from then on. One whose content has changed since it was loaded is
  // loaded again; the old module stays for those who use it.  ERRORS: as PluginModule::load; Plugin: no '/' in it.
  const PluginModule& load(const std::string& path);

  struct Listed {
    uint32_t kind;
    std::string id;
    std::string origin;
    const inflight_policy_t* policy;  // null: known from its note only
  };
  // Everything that can be named. Runs no code of files; what is wrong with them goes to `problems`, one line each.
  [[nodiscard]] std::vector<Listed> list(std::vector<std::string>& problems);

 private:
  const PluginModule& load_locked(const std::string& path);
  [[nodiscard]] Found find_in_folders(const std::vector<std::string>& folders, const PolicySpec& spec, uint32_t kind);
  [[nodiscard]] Found search_locked(const PolicySpec& spec, uint32_t kind);  // a null policy where there is none
  [[nodiscard]] Found find_locked(const PolicySpec& spec, uint32_t kind);

  std::mutex mutex_;
  std::vector<std::unique_ptr<PluginModule>> builtin_;
  std::vector<std::unique_ptr<PluginModule>> loaded_;
};

// The one of the process: loading the same file twice must give the same module.
[[nodiscard]] PluginRegistry& plugin_registry();

}  // namespace inflight
