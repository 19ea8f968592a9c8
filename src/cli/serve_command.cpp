// SPDX-License-Identifier: Apache-2.0
// `inflight serve`: the OpenAI-compatible server (server/api_server.h) on one engine.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/restart.h"
#include "cli/stderr_log.h"
#include "server/api_server.h"

namespace inflight::cli {
namespace {

constexpr const char* kKeyVariable = "INFLIGHT_API_KEY";

struct ServeFlags {
  server::HttpServerOptions http;
  server::ApiOptions api;
  int32_t timeout_s = 30;
  size_t max_body_megabytes = 16;
  std::string reasoning_format = "auto";
};

// The next process begins a record of its own.
void keep_record(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::rename(path, path + ".failed", error);
  print_to_stderr("inflight: {}\n", error ? fmt::format("the record {} is lost: {}", path, error.message())
                                          : fmt::format("what was recorded is in {}.failed", path));
}

// Whether a browser may send it: scheme://host[:port], in lower case.
bool is_origin(std::string_view text) {
  const size_t end = text.find("://");
  if (end == 0 || end == std::string_view::npos) return false;
  const std::string_view host = text.substr(end + 3);
  const bool plain =
      std::ranges::all_of(text, [](char byte) { return byte > ' ' && byte < 0x7F && !std::isupper(byte); });
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  const std::string_view port = has_port ? host.substr(colon + 1) : "0";
  if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) return false;
  return plain && !host.empty() && host[0] != ':' && host.find_first_of("/?#@*") == std::string_view::npos;
}

void check_texts(const ServeFlags& flags) {
  constexpr const char* kEmpty = "{} is empty, allowed: any text of one byte or more";
  if (const size_t keys = flags.api.api_keys.size(); keys >= size_t{limits::kTenantsMax}) {  // each is a tenant
    fail(ErrorCode::InvalidArgument, "--api-key is given {} times, allowed: at most {}", keys, limits::kTenantsMax - 1);
  }
  if (const char* const key = std::getenv(kKeyVariable); key != nullptr && *key == '\0' && flags.api.api_keys.empty()) {
    fail(ErrorCode::InvalidArgument, "${} is empty, which is no key: unset it for a server that everybody may use",
         kKeyVariable);
  }
  for (const std::string& key : flags.api.api_keys) {
    if (key.empty()) fail(ErrorCode::InvalidArgument, kEmpty, "--api-key");
  }
  for (const std::string& name : flags.api.model_names) {
    if (name.empty()) fail(ErrorCode::InvalidArgument, kEmpty, "--served-model-name");
  }
  for (const std::string& origin : flags.api.cors_origins) {
    if (origin == "*" || origin == "null" || is_origin(origin)) continue;  // null: pages out of files
    fail(ErrorCode::InvalidArgument, "--cors-origin is '{}', allowed: *, null or scheme://host[:port] in lower case",
         origin);
  }
}

void serve(ServeFlags& flags, EngineFlags& engine_flags) {
  check_texts(flags);
  flags.http.limits.body_bytes = flags.max_body_megabytes << 20;
  flags.http.limits.bodies_bytes = std::max(flags.http.limits.bodies_bytes, 2 * flags.http.limits.body_bytes);
  flags.api.reasoning_apart = flags.reasoning_format != "none";
  flags.api.shutdown_timeout = std::chrono::seconds(flags.timeout_s);
  flags.api.log = [](const std::string& line) { print_to_stderr("inflight: {}\n", line); };
  log_to_stderr(INFLIGHT_LOG_INFO);
  std::signal(SIGPIPE, SIG_IGN);  // whoever read standard error may leave
  flags.http.listener = inherited_listener();
  // Where it cannot listen is told before the model is loaded, which may take long.
  if (flags.http.listener < 0) const server::HttpServer attempt(flags.http, {});

  engine_flags.options.params.populate_kv = 1;
  if (!flags.api.model_names.empty()) engine_flags.options.served_model_name = flags.api.model_names.front();
  Engine engine = open_engine(engine_flags);
  server::ApiServer api(engine, flags.http, flags.api);
  print_to_stderr("inflight: serving on {}\n", api.address());
  if (api.run() == server::ApiServer::End::EngineFailed) {
    keep_record(engine_flags.options.record_path);
    restart_process(api.listener());
  }
  write_profile(engine, engine_flags);
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("serve", "OpenAI-compatible server with metrics and a web page");
  const auto flags = std::make_shared<ServeFlags>();
  constexpr const char* kServer = "Server";
  const auto add = [command](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(kServer)->capture_default_str();
  };
  add("--host", flags->http.host, "Address to listen on; 0.0.0.0: every one")->check(not_empty());
  add("--uds", flags->http.uds, "Path of a Unix socket to listen on instead; who may open it may use the server")
      ->check(not_empty());
  add("--port", flags->http.port, "Port to listen on; 0: any free one")->check(CLI::Range(0, 65535));
  add("--api-key", flags->api.api_keys, "Clients must send one of these keys")
      ->allow_extra_args(false)
      ->envname(kKeyVariable);
  add("--served-model-name", flags->api.model_names, "Names that requests may ask for (default: the model's)");
  add("--cors-origin", flags->api.cors_origins, "Origins whose web pages may use the server; '*': all");
  add("--max-connections", flags->http.limits.connections, "Open connections at most")->check(CLI::Range(1, 1 << 20));
  add("--max-body-megabytes", flags->max_body_megabytes, "Longest request")->check(CLI::Range(1, 1024));
  add("--http-workers", flags->http.worker_count, "Threads that read and tokenize requests")->check(CLI::Range(1, 256));
  add("--shutdown-timeout", flags->timeout_s, "Seconds that running answers have after SIGTERM")
      ->check(CLI::Range(0, 86'400));
  add("--reasoning-format", flags->reasoning_format,
      "auto: reasoning that the model marks is told apart from the answer; none: it stays in the text")
      ->check(CLI::IsMember({"auto", "none"}));
  command
      ->add_flag(
          "--restart-on-failure", flags->api.give_up_on_failure,
          "When the engine fails, or a step takes longer than --watchdog-timeout: every request ends with an error, "
          "and the program starts again in its place, on the same socket")
      ->group(kServer);
  command->add_flag("--log-requests", flags->api.log_requests, "One line a request on standard error")->group(kServer);
  command
      ->add_flag("--allow-runtime-lora-updating", flags->api.allow_runtime_lora_updating,
                 "Clients may load and unload LoRA adapters, from files of this machine")
      ->group(kServer);
  const auto engine_flags = add_engine_flags(*command);
  command->callback([flags, engine_flags] { serve(*flags, *engine_flags); });
}

}  // namespace inflight::cli
