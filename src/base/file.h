// SPDX-License-Identifier: Apache-2.0
// A C stream that is closed when its owner goes, and names for files that are not finished.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>

namespace inflight {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }  // NOLINT: nothing to be done about failure
};
// Who writes one closes it by hand, std::fclose(file.release()), and so learns whether everything arrived.
using File = std::unique_ptr<std::FILE, CloseFile>;

// A name beside `path` that nothing has: drawn, since processes of two containers that write there may have one number.
[[nodiscard]] inline std::string unused_name(const std::string& path) {
  std::random_device random;
  return path + "." + std::to_string(uint64_t{random()} << 32U | random());
}

}  // namespace inflight
