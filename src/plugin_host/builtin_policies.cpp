// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/builtin_policies.h"

#include <array>

// plugins/CMakeLists.txt compiles each of these files a second time with its entry renamed.
extern "C" {
const inflight_module_t* inflight_builtin_fcfs(const inflight_query_t* query);
const inflight_module_t* inflight_builtin_lru(const inflight_query_t* query);
}

namespace inflight {

std::span<const inflight_plugin_query_fn> builtin_policy_queries() {
  static constexpr std::array<inflight_plugin_query_fn, 2> kQueries = {inflight_builtin_fcfs, inflight_builtin_lru};
  return kQueries;
}

}  // namespace inflight
