// SPDX-License-Identifier: Apache-2.0
// What this program and the library say on standard error.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "inflight/inflight.h"

namespace inflight::cli {

// What cannot be written (a full disk, a closed pipe) is lost: there is nobody left to be told, and answers go on.
// THREAD: any.
void write_to_stderr(std::string_view text);

template <typename... Values>
void print_to_stderr(fmt::format_string<Values...> format, Values&&... values) {
  write_to_stderr(fmt::format(format, std::forward<Values>(values)...));
}

// From now on, messages of this level and above: "inflight: warning: ...", one line each.
void log_to_stderr(inflight_log_level_t level);

}  // namespace inflight::cli
