// SPDX-License-Identifier: Apache-2.0
// The library's log on standard error.
#pragma once

#include "inflight/inflight.h"

namespace inflight::cli {

// From now on, messages of this level and above: "inflight: warning: ...", one line each.
void log_to_stderr(inflight_log_level_t level);

}  // namespace inflight::cli
