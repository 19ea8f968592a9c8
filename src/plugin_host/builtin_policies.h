// SPDX-License-Identifier: Apache-2.0
// The policies of plugins/, linked into the library. They come through the same descriptors as those of a file.
#pragma once

#include <span>

#include "inflight/plugin.h"

namespace inflight {

// Defined by plugins/builtin_policies.cpp.in.
[[nodiscard]] std::span<const inflight_plugin_query_fn> builtin_policy_queries();

}  // namespace inflight
