// SPDX-License-Identifier: Apache-2.0
// The files of plugins/template, inside the program. `inflight plugin new` fills in what stands between @s.
#pragma once

#include <span>
#include <string_view>

namespace inflight::cli {

struct PluginTemplate {
  std::string_view name;  // "sched.cpp"
  std::string_view text;
};
// Defined by cmake/embed_files.cmake.
[[nodiscard]] std::span<const PluginTemplate> plugin_templates();

}  // namespace inflight::cli
