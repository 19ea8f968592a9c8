// SPDX-License-Identifier: Apache-2.0
// One loaded plugin file, or the policies that are built in: the descriptors, checked.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inflight/plugin.h"
#include "plugin_host/plugin_file.h"

namespace inflight {

// LIFETIME: a loaded file stays in the process for good: its descriptors and code may be referred to from anywhere.
class PluginModule {
 public:
  // Loads a file.  ERRORS: NotFound (no such file), Plugin (says what is wrong: not trusted, not loadable, no entry
  // symbol, another ABI version, a bad descriptor, a crash in its query).
  [[nodiscard]] static std::unique_ptr<PluginModule> load(const std::string& path);
  // Takes descriptors that are linked in.  ERRORS: Plugin, as above.
  [[nodiscard]] static std::unique_ptr<PluginModule> from_query(inflight_plugin_query_fn query,
                                                                const std::string& origin);

  [[nodiscard]] std::span<const inflight_policy_t* const> policies() const { return policies_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  // Of a file: what it contained when it was loaded; empty and nowhere for what is built in.
  [[nodiscard]] const std::string& sha256() const { return file_.sha256; }
  [[nodiscard]] const CodeRange& code() const { return file_.code; }
  [[nodiscard]] bool is_file() const { return file_.handle != nullptr; }

 private:
  PluginModule() = default;
  std::string origin_;  // the path, or "built in"
  LoadedFile file_;
  std::vector<const inflight_policy_t*> policies_;
};

// The last part of a reverse-DNS id: what users write.
[[nodiscard]] std::string short_name(const inflight_policy_t& policy);

}  // namespace inflight
