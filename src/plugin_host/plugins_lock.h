// SPDX-License-Identifier: Apache-2.0
// plugins.lock: which bytes a policy's file must have. Text, one entry a line:
//
//   # comment
//   require_lock = true                                  files that are not listed are refused
//   <sha256, 64 hex digits>  org.example.vtc             as `inflight plugin lock FILE` prints it
//
// Found at $INFLIGHT_PLUGINS_LOCK, else $XDG_CONFIG_HOME/inflight/plugins.lock (~/.config/...). Where the variable is
// not set and no file is there, anything that is trusted by owner and mode may be loaded.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin_host/plugin_notes.h"

namespace inflight {

struct PluginsLock {
  bool require_lock = false;
  std::vector<std::pair<std::string, std::string>> entries;  // sha256, id
};

// ERRORS: InvalidArgument naming `origin`, the line and what is allowed.
[[nodiscard]] PluginsLock parse_plugins_lock(std::string_view text, const std::string& origin);

// The lock in force; an empty one when there is no file at the default place.
// ERRORS: as above; Io: it cannot be read, or the variable names one that is missing; Plugin: others may write it.
[[nodiscard]] PluginsLock read_plugins_lock();

// ERRORS: Plugin when the lock forbids the file: it lists one of its ids with other bytes, or does not list the bytes
// though it must.
void require_locked(const PluginsLock& lock, const std::string& path, const std::string& sha256,
                    const std::vector<PluginNote>& notes);

}  // namespace inflight
