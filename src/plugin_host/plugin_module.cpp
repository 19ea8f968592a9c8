// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_module.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string_view>

#include "base/error.h"
#include "inflight/version.h"
#include "plugin_host/plugin_notes.h"

namespace inflight {
namespace {

constexpr uint32_t kPoliciesMax = 64;  // of a file
constexpr uint32_t kParamsMax = 256;   // of a policy
constexpr size_t kTextBytesMax = 4096;

bool is_id(const char* id) {
  if (id == nullptr || *id == '\0') return false;
  return std::string_view(id).find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string_view::npos;
}

void require_params(const std::string& origin, const inflight_policy_t& policy) {
  if (policy.param_count > kParamsMax || (policy.param_count > 0 && policy.params == nullptr)) {
    fail(ErrorCode::Plugin, "{}: policy {} says it has {} parameters{}, allowed: {}", origin, policy.id,
         policy.param_count, policy.params == nullptr ? " but lists none" : "", kParamsMax);
  }
  for (const inflight_param_t& param : std::span(policy.params, policy.param_count)) {
    const std::string_view key = param.key == nullptr ? "" : param.key;
    if (key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string_view::npos ||
        param.type > INFLIGHT_TYPE_BOOL) {
      fail(ErrorCode::Plugin, "{}: policy {} has the parameter '{}' of type {}, allowed: lower_snake_case, type 0 to 3",
           origin, policy.id, key, param.type);
    }
  }
}

// `needed`: up to the end of the last field that the major version began with.
void require_size(const std::string& origin, std::string_view what, uint32_t struct_size, size_t needed) {
  if (struct_size >= needed) return;
  fail(ErrorCode::Plugin, "{}: {} is shorter ({} bytes) than ABI {}.0 asks for ({} bytes)", origin, what, struct_size,
       INFLIGHT_PLUGIN_ABI_MAJOR, needed);
}

template <typename Ops>
void require_ops(const std::string& origin, const inflight_policy_t& policy, const Ops* ops) {
  if (ops == nullptr) {
    fail(ErrorCode::Plugin, "{}: policy {} has no table of ops for its kind {}", origin, policy.id, policy.kind);
  }
  require_size(origin, fmt::format("policy {}'s table of ops", policy.id), ops->struct_size,
               offsetof(Ops, load) + sizeof(ops->load));
  if (ops->create == nullptr || ops->destroy == nullptr) {
    fail(ErrorCode::Plugin, "{}: policy {} lacks the ops create and destroy", origin, policy.id);
  }
  if ((policy.capabilities & INFLIGHT_CAP_STATE) != 0 && (ops->save == nullptr || ops->load == nullptr)) {
    fail(ErrorCode::Plugin, "{}: policy {} claims INFLIGHT_CAP_STATE but lacks the ops save and load", origin,
         policy.id);
  }
}

// `number`: its place in the file, from 1.
void require_policy(const std::string& origin, uint32_t number, const inflight_policy_t* policy) {
  constexpr size_t kNeeded = offsetof(inflight_policy_t, evict) + sizeof(policy->evict);
  if (policy == nullptr) {
    fail(ErrorCode::Plugin, "{}: the descriptor of policy {} is missing, ABI {}.0 asks for {} bytes", origin, number,
         INFLIGHT_PLUGIN_ABI_MAJOR, kNeeded);
  }
  require_size(origin, fmt::format("the descriptor of policy {}", number), policy->struct_size, kNeeded);
  if (!is_id(policy->id)) {
    fail(ErrorCode::Plugin, "{}: a policy has the id '{}', allowed: letters a-z, digits, '.' and '-'", origin,
         policy->id == nullptr ? "(none)" : policy->id);
  }
  switch (policy->kind) {
    case INFLIGHT_KIND_SCHED:
      require_ops(origin, *policy, policy->sched);
      break;
    case INFLIGHT_KIND_EVICT:
      require_ops(origin, *policy, policy->evict);
      break;
    default:
      fail(ErrorCode::Plugin, "{}: policy {} is of kind {}, allowed: 1 (sched), 2 (evict)", origin, policy->id,
           policy->kind);
  }
  require_params(origin, *policy);
  for (const char* text : {policy->name, policy->version, policy->vendor, policy->license, policy->summary}) {
    if (text != nullptr && ::strnlen(text, kTextBytesMax) == kTextBytesMax) {
      fail(ErrorCode::Plugin, "{}: policy {} has a text of more than {} bytes", origin, policy->id, kTextBytesMax);
    }
  }
}

// A file without notes is fine: it can be used by its path. One whose notes lie is not.
void require_notes(const PluginModule& module) {
  const auto notes = read_plugin_notes(module.origin());
  for (const PluginNote& note : notes) {
    const bool offered = std::ranges::any_of(module.policies(), [&](const inflight_policy_t* policy) {
      return policy->kind == note.kind && note.id == policy->id;
    });
    if (!offered)
      fail(ErrorCode::Plugin, "{}: its note promises {}, which it does not offer", module.origin(), note.id);
  }
}

}  // namespace

std::string short_name(const inflight_policy_t& policy) {
  const std::string_view id = policy.id;
  return std::string(id.substr(id.rfind('.') + 1));
}

std::unique_ptr<PluginModule> PluginModule::from_query(inflight_plugin_query_fn query, const std::string& origin) {
  const inflight_query_t question{.struct_size = sizeof(inflight_query_t),
                                  .abi_minor = INFLIGHT_PLUGIN_ABI_MINOR,
                                  .host_name = "inflight",
                                  .host_version = INFLIGHT_VERSION_STRING};
  const inflight_module_t* const answer = query(&question);
  if (answer == nullptr) fail(ErrorCode::Plugin, "{}: has nothing for inflight {}", origin, INFLIGHT_VERSION_STRING);
  require_size(origin, "its module descriptor", answer->struct_size,
               offsetof(inflight_module_t, policies) + sizeof(answer->policies));
  if (answer->min_host_minor > INFLIGHT_PLUGIN_ABI_MINOR) {
    fail(ErrorCode::Plugin, "{}: needs plugin ABI {}.{} or later, this is {}.{}", origin, INFLIGHT_PLUGIN_ABI_MAJOR,
         answer->min_host_minor, INFLIGHT_PLUGIN_ABI_MAJOR, INFLIGHT_PLUGIN_ABI_MINOR);
  }
  if (answer->count == 0 || answer->policies == nullptr) fail(ErrorCode::Plugin, "{}: offers no policy", origin);
  if (answer->count > kPoliciesMax) {
    fail(ErrorCode::Plugin, "{}: says it offers {} policies, allowed: {}", origin, answer->count, kPoliciesMax);
  }
  std::unique_ptr<PluginModule> module(new PluginModule);
  module->origin_ = origin;
  for (uint32_t i = 0; i < answer->count; ++i) {
    require_policy(origin, i + 1, answer->policies[i]);
    module->policies_.push_back(answer->policies[i]);
  }
  return module;
}

std::unique_ptr<PluginModule> PluginModule::load(const std::string& path) {
  const LoadedFile file = load_plugin_file(path);
  std::unique_ptr<PluginModule> module;
  std::exception_ptr error;
  // What it answers is looked at inside the guard as well: pointers and counts may lie.
  const CallWatchUser watched;
  const GuardResult result =
      run_guarded({.code = file.code, .policy = path.c_str(), .op = INFLIGHT_PLUGIN_ENTRY_SYMBOL}, [&] {
        try {
          module = from_query(reinterpret_cast<inflight_plugin_query_fn>(file.query), path);
          require_notes(*module);
        } catch (...) {
          error = std::current_exception();
        }
      });
  if (result.outcome != GuardOutcome::Returned) {  // stays loaded: who knows what still runs
    fail(ErrorCode::Plugin, "{}: {} failed: {}", path, INFLIGHT_PLUGIN_ENTRY_SYMBOL, result.what);
  }
  if (error) {
    unload_plugin_file(file);
    std::rethrow_exception(error);
  }
  module->file_ = file;
  return module;
}

}  // namespace inflight
