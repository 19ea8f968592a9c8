// SPDX-License-Identifier: Apache-2.0
// A C stream that is closed when its owner goes. Who writes one closes it by hand, std::fclose(file.release()), and so
// learns whether everything arrived.
#pragma once

#include <cstdio>
#include <memory>

namespace inflight {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }  // NOLINT: nothing to be done about failure
};
using File = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace inflight
