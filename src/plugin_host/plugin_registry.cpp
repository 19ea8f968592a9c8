// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_registry.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "plugin_host/builtin_policies.h"
#include "plugin_host/plugin_folders.h"
#include "plugin_host/plugin_notes.h"

namespace inflight {
namespace {

constexpr uint32_t kAnyKind = 0;

const inflight_policy_t* member_of(const PluginModule& module, const std::string& name, uint32_t kind) {
  for (const inflight_policy_t* policy : module.policies()) {
    if (kind != kAnyKind && policy->kind != kind) continue;
    if (name.empty() || name == policy->id || name == short_name(*policy)) return policy;
  }
  return nullptr;
}

bool is_path(const PolicySpec& spec) { return spec.name.find('/') != std::string::npos; }

std::string_view short_name_of(std::string_view id) { return id.substr(id.rfind('.') + 1); }

// The file's notes name such a policy. Nothing of the file runs before that is known; files that cannot be read promise
// nothing.
bool promises(const std::string& file, const std::string& name, uint32_t kind) {
  try {
    return std::ranges::any_of(read_plugin_notes(file), [&](const PluginNote& note) {
      return (kind == kAnyKind || note.kind == kind) && (name == note.id || name == short_name_of(note.id));
    });
  } catch (const Error&) {
    return false;
  }
}

const char* kind_name(uint32_t kind) {
  if (kind == kAnyKind) return "policy";
  return kind == INFLIGHT_KIND_EVICT ? "eviction strategy" : "scheduling policy";
}

}  // namespace

PluginRegistry::PluginRegistry() {
  for (const inflight_plugin_query_fn query : builtin_policy_queries()) {
    builtin_.push_back(PluginModule::from_query(query, "built in"));
  }
}

const PluginModule& PluginRegistry::load(const std::string& path) {
  if (path.find('/') == std::string::npos) {
    fail(ErrorCode::Plugin, "{}: the path of a plugin file contains a '/': ./{}", path, path);
  }
  const std::scoped_lock lock(mutex_);
  return load_locked(path);
}

const PluginModule& PluginRegistry::load_locked(const std::string& path) {
  std::string sha256;
  for (const auto& module : loaded_) {
    if (module->origin() != path) continue;
    if (sha256.empty()) sha256 = sha256_of_file(path);
    if (module->sha256() == sha256) return *module;
  }
  loaded_.insert(loaded_.begin(), PluginModule::load(path));  // the newest is found first
  return *loaded_.front();
}

PluginRegistry::Found PluginRegistry::find_in_folders(const std::vector<std::string>& folders, const PolicySpec& spec,
                                                      uint32_t kind) {
  for (const std::string& folder : folders) {
    for (const std::string& file : plugin_files(folder)) {
      if (!promises(file, spec.name, kind)) continue;
      const PluginModule& module = load_locked(file);
      if (const inflight_policy_t* policy = member_of(module, spec.name, kind); policy != nullptr) {
        return {policy, module.origin(), &module};
      }
    }
  }
  return {};
}

PluginRegistry::Found PluginRegistry::search_locked(const PolicySpec& spec, uint32_t kind) {
  if (is_path(spec)) {
    const PluginModule& module = load_locked(spec.name);
    if (spec.member.empty() && module.policies().size() > 1 && kind == kAnyKind) {
      fail(ErrorCode::InvalidArgument, "{} holds {} policies: name one as {}#{}", spec.name, module.policies().size(),
           spec.name, short_name(*module.policies().front()));
    }
    return {member_of(module, spec.member, kind), module.origin(), &module};
  }
  if (!spec.member.empty()) {
    fail(ErrorCode::InvalidArgument, "'{}#{}': '#' names a policy of a file, and the path of a file contains a '/'",
         spec.name, spec.member);
  }
  const auto among = [&](const auto& modules) -> Found {
    for (const auto& module : modules) {
      if (const auto* policy = member_of(*module, spec.name, kind)) return {policy, module->origin(), module.get()};
    }
    return {};
  };
  if (const Found found = among(loaded_); found.policy != nullptr) return found;
  if (const Found found = find_in_folders(user_plugin_folders(), spec, kind); found.policy != nullptr) return found;
  if (const Found found = among(builtin_); found.policy != nullptr) return found;
  return find_in_folders({installed_plugin_folder()}, spec, kind);
}

PluginRegistry::Found PluginRegistry::find_locked(const PolicySpec& spec, uint32_t kind) {
  const Found found = search_locked(spec, kind);
  if (found.policy != nullptr) return found;
  if (is_path(spec)) {
    fail(ErrorCode::NotFound, "{} holds no {}{}{}", spec.name, kind_name(kind), spec.member.empty() ? "" : " ",
         spec.member);
  }
  std::string known;
  for (const auto& module : builtin_) {
    for (const inflight_policy_t* policy : module->policies()) {
      if (kind == kAnyKind || policy->kind == kind) known += " " + short_name(*policy);
    }
  }
  fail(ErrorCode::NotFound, "there is no {} '{}'; built in:{}; others: 'inflight plugin list'", kind_name(kind),
       spec.name, known);
}

PluginRegistry::Found PluginRegistry::find(const PolicySpec& spec, uint32_t kind) {
  const std::scoped_lock lock(mutex_);
  return find_locked(spec, kind);
}

const inflight_policy_t* PluginRegistry::search(const PolicySpec& spec, uint32_t kind) {
  const std::scoped_lock lock(mutex_);
  return search_locked(spec, kind).policy;
}

uint32_t PluginRegistry::kind_of(const PolicySpec& spec) {
  const std::scoped_lock lock(mutex_);
  const inflight_policy_t& policy = *find_locked(spec, kAnyKind).policy;
  const uint32_t other = policy.kind == INFLIGHT_KIND_SCHED ? INFLIGHT_KIND_EVICT : INFLIGHT_KIND_SCHED;
  if (const inflight_policy_t* const second = search_locked(spec, other).policy; second != nullptr) {
    fail(ErrorCode::InvalidArgument, "'{}' names the {} {} and the {} {}: give the id of one", spec.name,
         kind_name(policy.kind), policy.id, kind_name(other), second->id);
  }
  return policy.kind;
}

std::vector<PluginRegistry::Listed> PluginRegistry::list(std::vector<std::string>& problems) {
  const std::scoped_lock lock(mutex_);
  std::vector<Listed> listed;
  for (const auto* modules : {&builtin_, &loaded_}) {
    for (const auto& module : *modules) {
      for (const inflight_policy_t* policy : module->policies()) {
        listed.push_back({policy->kind, policy->id, module->origin(), policy});
      }
    }
  }
  std::vector<std::string> folders = user_plugin_folders();
  folders.push_back(installed_plugin_folder());
  for (const std::string& folder : folders) {
    for (const std::string& file : plugin_files(folder)) {
      if (std::ranges::any_of(loaded_, [&](const auto& module) { return module->origin() == file; })) continue;
      try {
        const auto notes = read_plugin_notes(file);
        if (notes.empty()) problems.push_back(file + ": names no policy in its notes; it can be used by its path");
        for (const PluginNote& note : notes) listed.push_back({note.kind, note.id, file, nullptr});
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    }
  }
  return listed;
}

PluginRegistry& plugin_registry() {
  static PluginRegistry registry;
  return registry;
}

}  // namespace inflight
