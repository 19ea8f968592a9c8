// SPDX-License-Identifier: Apache-2.0
#include "cli/stderr_log.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace inflight::cli {

void write_to_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void log_to_stderr(inflight_log_level_t level) {
  const auto write = [](void*, inflight_log_level_t of, const char* message, size_t length) {
    constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    print_to_stderr("inflight: {}: {}\n", kNames[std::clamp(of, 0, 3)], std::string_view(message, length));
  };
  inflight_set_log(write, nullptr, level);
}

}  // namespace inflight::cli
