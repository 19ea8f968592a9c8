// SPDX-License-Identifier: Apache-2.0
#include "cli/stderr_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace inflight::cli {

void log_to_stderr(inflight_log_level_t level) {
  const auto write = [](void*, inflight_log_level_t of, const char* message, size_t length) {
    constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    std::string line(message, length);  // one line, whatever a request or a file put into it
    std::ranges::replace_if(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    fmt::print(stderr, "inflight: {}: {}\n", kNames[std::clamp(of, 0, 3)], line);
  };
  inflight_set_log(write, nullptr, level);
}

}  // namespace inflight::cli
