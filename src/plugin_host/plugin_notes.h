// SPDX-License-Identifier: Apache-2.0
// What a plugin file says it offers, read from its ELF notes without running any of its code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inflight {

struct PluginNote {
  uint32_t kind = 0;  // INFLIGHT_KIND_*
  std::string id;
};

// The notes of a file; none when it has none of ours.
// ERRORS: NotFound, Io, Plugin (not an ELF file of this machine, damaged).   COST: reads headers and notes only.
[[nodiscard]] std::vector<PluginNote> read_plugin_notes(const std::string& path);
// The same of a copy at `path`; messages name it `shown_as`.
[[nodiscard]] std::vector<PluginNote> read_plugin_notes(const std::string& path, const std::string& shown_as);

}  // namespace inflight
