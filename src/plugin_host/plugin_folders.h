// SPDX-License-Identifier: Apache-2.0
// Where plugin files are looked for.   THREAD: any that does not change the environment meanwhile.
#pragma once

#include <string>
#include <vector>

namespace inflight {

// Folders that are searched before and after the built-in policies.
[[nodiscard]] std::vector<std::string> user_plugin_folders();
[[nodiscard]] std::string installed_plugin_folder();

// The plugin files of a folder, by name; none where it cannot be read.
[[nodiscard]] std::vector<std::string> plugin_files(const std::string& folder);

}  // namespace inflight
