// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_folders.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "plugin_host/plugin_file.h"

namespace inflight {

std::vector<std::string> plugin_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().string().ends_with(kPluginSuffix)) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> user_plugin_folders() {
  std::vector<std::string> folders;
  if (const char* path = ::secure_getenv("INFLIGHT_PLUGIN_PATH"); path != nullptr) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t colon = rest.find(':');
      if (colon != 0) folders.emplace_back(rest.substr(0, colon));
      rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
    }
  }
  if (const char* data = ::secure_getenv("XDG_DATA_HOME"); data != nullptr && *data != '\0') {
    folders.push_back(std::string(data) + "/inflight/plugins-1");
  } else if (const char* home = ::secure_getenv("HOME"); home != nullptr && *home != '\0') {
    folders.push_back(std::string(home) + "/.local/share/inflight/plugins-1");
  }
  return folders;
}

std::string installed_plugin_folder() { return INFLIGHT_PLUGIN_DIR; }

}  // namespace inflight
