// SPDX-License-Identifier: Apache-2.0
// What the checks of plugin_check.h share. A check throws Error(Plugin) when it fails and returns what is worth saying.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_module.h"

namespace inflight {

// In memory that the parent shares, so that it can say where a child ended.
struct CheckProgress {
  char policy[96];
  char op[32];
  int64_t call;
};

struct CheckContext {
  const CheckOptions& options;
  CheckProgress& progress;
  const PluginModule& module;
  std::vector<const inflight_policy_t*> policies;  // those of the module that are checked
};

// The check does not apply to this file.
struct CheckSkipped {
  const char* why;
};

struct CheckTest {
  const char* group;
  const char* name;
  std::string (*run)(CheckContext& context);
};

[[nodiscard]] std::span<const CheckTest> file_checks();
[[nodiscard]] std::span<const CheckTest> policy_checks();
[[nodiscard]] std::span<const CheckTest> state_checks();
[[nodiscard]] std::span<const CheckTest> liveness_checks();

// Null: it has none.
[[nodiscard]] inline auto set_param_of(const inflight_policy_t& policy) {
  return policy.kind == INFLIGHT_KIND_SCHED ? policy.sched->set_param : policy.evict->set_param;
}

// Notes what is about to be called.
void note_progress(CheckContext& context, const inflight_policy_t& policy, const char* op, int64_t call);

}  // namespace inflight
