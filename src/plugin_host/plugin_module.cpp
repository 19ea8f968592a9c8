// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_module.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "inflight/version.h"
#include "plugin_host/plugin_notes.h"

namespace inflight {
namespace {

// Whoever may write the file, or replace it, runs code in this process. A sticky directory (as /tmp) is fine: only the
// owner of an entry may replace it there.
void require_trusted(const std::filesystem::path& file) {
  const std::filesystem::path absolute = std::filesystem::canonical(file);
  for (std::filesystem::path path = absolute;; path = path.parent_path()) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) fail(ErrorCode::Plugin, "{}: {}", path.string(), std::strerror(errno));
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      fail(ErrorCode::Plugin,
           "plugin {} is not trusted: {} belongs to user {}, allowed: root or the user who runs this", file.string(),
           path.string(), info.st_uid);
    }
    const bool open = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    if (open && !sticky) {
      fail(ErrorCode::Plugin, "plugin {} is not trusted: {} can be written by others (mode {:o}), allowed: chmod go-w",
           file.string(), path.string(), info.st_mode & 07777);
    }
    if (path == path.root_path()) return;
  }
}

bool is_id(const char* id) {
  if (id == nullptr || *id == '\0') return false;
  return std::string_view(id).find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string_view::npos;
}

template <typename Ops>
void require_ops(const std::string& origin, const inflight_policy_t& policy, const Ops* ops) {
  if (ops == nullptr || !INFLIGHT_HAS(ops, load)) {
    fail(ErrorCode::Plugin, "{}: policy {} has no table of ops for its kind {}", origin, policy.id, policy.kind);
  }
  if (ops->create == nullptr || ops->destroy == nullptr) {
    fail(ErrorCode::Plugin, "{}: policy {} lacks the ops create and destroy", origin, policy.id);
  }
}

void require_policy(const std::string& origin, const inflight_policy_t* policy) {
  if (policy == nullptr || !INFLIGHT_HAS(policy, evict)) {
    fail(ErrorCode::Plugin, "{}: a policy's descriptor is missing or shorter than ABI {}.0 asks for", origin,
         INFLIGHT_PLUGIN_ABI_MAJOR);
  }
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
  if (policy->param_count > 0 && policy->params == nullptr) {
    fail(ErrorCode::Plugin, "{}: policy {} says it has {} parameters but lists none", origin, policy->id,
         policy->param_count);
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
  if (!INFLIGHT_HAS(answer, policies)) {
    fail(ErrorCode::Plugin, "{}: its module descriptor is shorter ({} bytes) than ABI {}.0 asks for", origin,
         answer->struct_size, INFLIGHT_PLUGIN_ABI_MAJOR);
  }
  if (answer->min_host_minor > INFLIGHT_PLUGIN_ABI_MINOR) {
    fail(ErrorCode::Plugin, "{}: needs plugin ABI {}.{} or later, this is {}.{}", origin, INFLIGHT_PLUGIN_ABI_MAJOR,
         answer->min_host_minor, INFLIGHT_PLUGIN_ABI_MAJOR, INFLIGHT_PLUGIN_ABI_MINOR);
  }
  if (answer->count == 0 || answer->policies == nullptr) fail(ErrorCode::Plugin, "{}: offers no policy", origin);
  std::unique_ptr<PluginModule> module(new PluginModule);
  module->origin_ = origin;
  for (uint32_t i = 0; i < answer->count; ++i) {
    require_policy(origin, answer->policies[i]);
    module->policies_.push_back(answer->policies[i]);
  }
  return module;
}

std::unique_ptr<PluginModule> PluginModule::load(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) fail(ErrorCode::NotFound, "{}: no such plugin file", path);
  if (!std::string_view(path).ends_with(kPluginSuffix)) {
    fail(ErrorCode::Plugin, "{}: plugin files are named *{}", path, kPluginSuffix);
  }
  require_trusted(path);
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(ErrorCode::Plugin, "{}: cannot be loaded: {}", path, ::dlerror());
  void* const symbol = ::dlsym(handle, INFLIGHT_PLUGIN_ENTRY_SYMBOL);
  if (symbol == nullptr) {
    ::dlclose(handle);
    fail(ErrorCode::Plugin, "{}: does not export {} (a plugin for ABI major {})", path, INFLIGHT_PLUGIN_ENTRY_SYMBOL,
         INFLIGHT_PLUGIN_ABI_MAJOR);
  }
  try {
    auto module = from_query(reinterpret_cast<inflight_plugin_query_fn>(symbol), path);
    require_notes(*module);
    return module;
  } catch (...) {
    ::dlclose(handle);
    throw;
  }
}

}  // namespace inflight
