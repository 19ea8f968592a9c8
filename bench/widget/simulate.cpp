// SPDX-License-Identifier: Apache-2.0
// The simulator as a WebAssembly module: text in, text out, what `inflight sim --json` would print. The page's script
// calls the three exported functions; the one import of its own is inflight_failed(), which throws in JavaScript: the
// instance is not used any more after that. No files, no plugins but the built-in ones, one thread.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <typeinfo>
#include <vector>

#include "base/error.h"
#include "plugin_host/plugin_file.h"
#include "plugin_host/plugin_folders.h"
#include "plugin_host/plugin_guard.h"
#include "plugin_host/plugin_notes.h"
#include "plugin_host/policy_report.h"
#include "sim/sim_spec.h"

namespace {
std::string answer;  // of the last call
}

extern "C" {

[[clang::import_module("inflight"), clang::import_name("failed")]] [[noreturn]] void inflight_failed(
    const char* message);

// Memory for a request of `size` bytes; inflight_simulate() takes it back.
[[clang::export_name("inflight_allocate")]] char* inflight_allocate(size_t size) {
  return static_cast<char*>(std::malloc(size));
}

// The address of the answer, which is valid until the next call.
[[clang::export_name("inflight_simulate")]] const char* inflight_simulate(char* request, size_t size) {
  answer = inflight::run_simulation_json({request, size});
  std::free(request);
  return answer.data();
}

[[clang::export_name("inflight_answer_size")]] size_t inflight_answer_size() { return answer.size(); }

// clang 16 compiles `throw` for WebAssembly to these calls and leaves handlers out. Everything thrown here derives from
// std::exception first, so its message can be told.
void* __cxa_allocate_exception(size_t size) noexcept { return std::malloc(size); }
void __cxa_free_exception(void* thrown) noexcept { std::free(thrown); }
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  inflight_failed(static_cast<std::exception*>(thrown)->what());
}
[[noreturn]] void __cxa_rethrow() { inflight_failed("an exception was thrown again"); }
void* __cxa_begin_catch(void* thrown) noexcept { return thrown; }
void __cxa_end_catch() {}

char* secure_getenv(const char*) { return nullptr; }

}  // extern "C"

// What src/plugin_host has for files, signals and threads, where there are none.
namespace inflight {

GuardResult run_guarded(const GuardLimits&, void (*function)(void*), void* argument) {
  function(argument);
  return {};
}
GuardResult run_catching(void (*function)(void*), void* argument) {
  function(argument);
  return {};
}
ThreadUse thread_use() { return {}; }
HostFunction::HostFunction() = default;
void HostFunction::end() {}
CallWatchUser::CallWatchUser() = default;
CallWatchUser::~CallWatchUser() = default;

LoadedFile load_plugin_file(const std::string& path) { fail(ErrorCode::NotFound, "{}: no such plugin file", path); }
void unload_plugin_file(const LoadedFile&) {}
std::string sha256_of_file(const std::string& path) { fail(ErrorCode::NotFound, "{}: no such file", path); }
std::vector<PluginNote> read_plugin_notes(const std::string&) { return {}; }

std::vector<std::string> user_plugin_folders() { return {}; }
std::string installed_plugin_folder() { return {}; }
std::vector<std::string> plugin_files(const std::string&) { return {}; }

// A policy that is taken out leaves no report.
std::string default_report_folder() { return {}; }
std::string write_policy_report(const PolicyInstance&, const inflight_exit_t&, const std::string&) { return {}; }
nlohmann::ordered_json to_json(const inflight_step_t&) { return {}; }
nlohmann::ordered_json to_json(const inflight_units_t&) { return {}; }
nlohmann::ordered_json to_json(const inflight_events_t&) { return {}; }

}  // namespace inflight
