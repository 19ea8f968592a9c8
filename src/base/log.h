// SPDX-License-Identifier: Apache-2.0
// Log lines go to a sink that the host program sets; by default nowhere. A library never owns stderr.
// THREAD: log() may be called from any thread; set_log_sink() before the first engine is made, or at any time later
// (calls in progress finish with the old sink).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace inflight {

enum class LogLevel : int32_t { Debug = 0, Info = 1, Warning = 2, Error = 3 };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Lines below `threshold` are dropped before they are formatted. An empty sink silences everything.
void set_log_sink(LogSink sink, LogLevel threshold);
[[nodiscard]] bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace inflight
