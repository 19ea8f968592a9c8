// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugins_lock.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "plugin_host/plugin_file.h"

namespace inflight {
namespace {

constexpr size_t kHashDigits = 64;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string default_path() {
  if (const char* config = ::secure_getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0') {
    return std::string(config) + "/inflight/plugins.lock";
  }
  const char* home = ::secure_getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.config/inflight/plugins.lock" : "";
}

}  // namespace

PluginsLock parse_plugins_lock(std::string_view text, const std::string& origin) {
  PluginsLock lock;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      const auto key = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
      if (key == "require_lock" && (value == "true" || value == "false")) {
        lock.require_lock = value == "true";
        continue;
      }
    }
    const std::string_view hash = line.substr(0, line.find_first_of(" \t"));
    const std::string_view id = trimmed(line.substr(hash.size()));
    if (!is_hash(hash) || id.empty()) {
      fail(ErrorCode::InvalidArgument,
           "{}:{}: '{}' is no entry, allowed: '<sha256> <policy id>', 'require_lock = true', '# comment'", origin,
           number, line);
    }
    lock.entries.emplace_back(hash, id);
  }
  return lock;
}

PluginsLock read_plugins_lock() {
  const char* const wish = ::secure_getenv("INFLIGHT_PLUGINS_LOCK");
  const bool named = wish != nullptr && *wish != '\0';
  const std::string path = named ? wish : default_path();
  struct stat info{};
  // Nothing at the default place: there is no lock. One that cannot be read, a dead link too, may forbid the file.
  if (path.empty() || (!named && ::lstat(path.c_str(), &info) != 0 && errno == ENOENT)) return {};
  const auto require = [&path](bool good) {
    if (!good) fail(ErrorCode::Io, "{}: the lock file cannot be read: {}", path, std::strerror(errno));
  };
  const File file(std::fopen(path.c_str(), "rbe"));
  require(file != nullptr);
  require_trusted_file(path, "the lock file");
  std::string text;
  char part[4096];
  for (size_t got = sizeof part; got == sizeof part;) {
    got = std::fread(part, 1, sizeof part, file.get());
    text.append(part, got);
  }
  require(std::ferror(file.get()) == 0);
  return parse_plugins_lock(text, path);
}

void require_locked(const PluginsLock& lock, const std::string& path, const std::string& sha256,
                    const std::vector<PluginNote>& notes) {
  for (const PluginNote& note : notes) {
    const auto of_id = [&](const auto& entry) { return entry.second == note.id; };
    const auto same = [&](const auto& entry) { return of_id(entry) && entry.first == sha256; };
    if (std::ranges::any_of(lock.entries, of_id) && std::ranges::none_of(lock.entries, same)) {
      fail(ErrorCode::Plugin, "plugin {} is not what plugins.lock lists for {}: its sha256 is {}", path, note.id,
           sha256);
    }
  }
  const auto listed = [&](const auto& entry) { return entry.first == sha256; };
  if (lock.require_lock && std::ranges::none_of(lock.entries, listed)) {
    fail(ErrorCode::Plugin, "plugin {} is not in plugins.lock, which requires it; add: 'inflight plugin lock {}'", path,
         path);
  }
}

}  // namespace inflight
