// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace inflight {

void check_failed(const char* expression, const char* file, int line) {
  throw InternalError(fmt::format("internal error: {} does not hold ({}:{})", expression, file, line));
}

}  // namespace inflight
