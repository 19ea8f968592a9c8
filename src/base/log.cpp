// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <limits>
#include <mutex>

namespace inflight {
namespace {

constexpr int32_t kSilent = std::numeric_limits<int32_t>::max();

// Where the log lines of the process go.
struct LogState {
  std::mutex mutex;
  LogSink sink;
  std::atomic<int32_t> threshold{kSilent};
};

LogState& state() {
  static LogState instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink sink, LogLevel threshold) {
  const std::scoped_lock lock(state().mutex);
  state().threshold = sink ? static_cast<int32_t>(threshold) : kSilent;
  state().sink = std::move(sink);
}

bool log_enabled(LogLevel level) { return static_cast<int32_t>(level) >= state().threshold; }

void log_line(LogLevel level, std::string_view message) {
  const std::scoped_lock lock(state().mutex);
  if (state().sink) state().sink(level, message);
}

}  // namespace inflight
