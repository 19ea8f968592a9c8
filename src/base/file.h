// SPDX-License-Identifier: Apache-2.0
// A C stream that is closed when its owner goes, and names for files that are not finished.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace inflight {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }  // NOLINT: nothing to be done about failure
};
// Who writes one closes it by hand, std::fclose(file.release()), and so learns whether everything arrived.
using File = std::unique_ptr<std::FILE, CloseFile>;

// A name beside `path` that nothing has, also where other containers, whose processes have the same numbers, write
// there.
[[nodiscard]] inline std::string unused_name(const std::string& path) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(now);
}

}  // namespace inflight
