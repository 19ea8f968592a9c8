// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible server: which path does what, who may, and what happens when it is full or told to stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inflight/inflight.hpp"
#include "server/api_error.h"
#include "server/generation.h"
#include "server/http_server.h"
#include "server/load_watch.h"
#include "server/lora_routes.h"
#include "server/ready_queue.h"
#include "server/text_routes.h"

namespace inflight::server {

struct ApiOptions {
  std::vector<std::string> model_names;   // that requests may ask for; the first one is shown. Empty: the model's own
  std::vector<std::string> api_keys;      // empty: everybody may
  std::vector<std::string> cors_origins;  // web pages of other origins that may; "*": all
  std::chrono::seconds shutdown_timeout{30};    // for running answers after SIGTERM
  std::function<void(const std::string&)> log;  // one line an event; empty: none
  bool log_requests = false;
  bool give_up_on_failure = false;  // engine failed, or a step hangs: every answer ends with an error, run() returns
  bool reasoning_apart = true;      // what models mark as reasoning is told apart from the answer
  bool allow_runtime_lora_updating = false;  // clients may load and unload adapters, files of the server's machine
};

class ApiServer {
 public:
  // LIFETIME: the engine is borrowed.  ERRORS: as HttpServer.
  ApiServer(Engine& engine, const HttpServerOptions& http, ApiOptions options);
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  [[nodiscard]] std::string address() const { return http_.address(); }
  [[nodiscard]] int listener() const { return http_.listener(); }
  enum class End {
    Stopped,       // by a signal or stop(); what was still open after shutdown_timeout or a second signal got an error
    EngineFailed,  // only with give_up_on_failure
  };
  End run();
  // Any thread: as SIGTERM.
  void stop();

 private:
  using Handle = void (ApiServer::*)(Exchange&, HttpRequest&);
  struct Route {
    std::string_view method;
    std::string_view path;
    Handle handle;
    unsigned traits;
  };
  static const Route kRoutes[];
  // Null: none, `allowed` says which methods there are for the path, if any.
  [[nodiscard]] static const Route* find_route(const HttpRequest& head, std::string& allowed);

  // What can be told of a request before its body is read.   ERRORS: ApiError: 404, 405, 403, 401, 415.
  void check_head(Exchange& exchange, const HttpRequest& head) const;
  [[nodiscard]] std::optional<HttpResponse> refusal(Exchange& exchange, const HttpRequest& head) const;
  void handle(Exchange& exchange, HttpRequest request);
  [[nodiscard]] bool is_cors_origin(std::string_view origin) const;
  void add_cors_headers(Exchange& exchange, const HttpRequest& request) const;
  // Web pages of other sites may not make a browser send what changes something or costs time; nor may pages whose own
  // name was made to lead to this machine.   ERRORS: ApiError 403.
  void check_origin(const HttpRequest& request) const;
  // The key's number, for tenants; 0 without keys.   ERRORS: ApiError 401.
  [[nodiscard]] uint32_t check_key(const HttpRequest& request) const;

  void get_health(Exchange& exchange, HttpRequest& request);
  void get_ready(Exchange& exchange, HttpRequest& request);
  void get_metrics(Exchange& exchange, HttpRequest& request);
  void get_page(Exchange& exchange, HttpRequest& request);
  void get_widget(Exchange& exchange, HttpRequest& request);
  void post_simulate(Exchange& exchange, HttpRequest& request);
  void get_stats(Exchange& exchange, HttpRequest& request);
  void get_tokenizer_info(Exchange& exchange, HttpRequest& request);
  void get_version(Exchange& exchange, HttpRequest& request);
  void get_models(Exchange& exchange, HttpRequest& request);
  void get_openapi(Exchange& exchange, HttpRequest& request);
  void post_load_lora(Exchange& exchange, HttpRequest& request);
  void post_unload_lora(Exchange& exchange, HttpRequest& request);
  void post_reset_prefix_cache(Exchange& exchange, HttpRequest& request);
  void post_tokenize(Exchange& exchange, HttpRequest& request);
  void post_detokenize(Exchange& exchange, HttpRequest& request);
  void post_completions(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kCompletions); }
  void post_chat(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kChat); }
  void post_responses(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kResponses); }
  void post_messages(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kMessages); }
  void post_count_tokens(Exchange& exchange, HttpRequest& request) { count_tokens(exchange, request, kMessages); }
  void post_input_tokens(Exchange& exchange, HttpRequest& request) { count_tokens(exchange, request, kResponses); }
  void post_embeddings(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kEmbeddings); }
  void post_rerank(Exchange& exchange, HttpRequest& request) { generate(exchange, request, kRerank); }

  void count_tokens(Exchange& exchange, HttpRequest& request, unsigned endpoint);
  void generate(Exchange& exchange, HttpRequest& request, unsigned endpoint);
  void attach(uint64_t exchange, SubmittedRequest submitted);
  // `job` runs on a worker, unless the client has left by then; what it throws becomes an error answer.   bytes: as
  // HttpServer::work().
  void work_on(uint64_t exchange, size_t bytes, Task job);
  // The same with a job that reads the request's body. Takes the request.
  void work_on(Exchange& exchange, HttpRequest& request, std::function<void(const std::string& body)> job);
  // The same with a job that makes the answer, or its body.
  void respond_later(Exchange& exchange, HttpRequest& request,
                     std::function<HttpResponse(const std::string& body)> answer);
  void answer_later(Exchange& exchange, HttpRequest& request,
                    std::function<std::string(const std::string& body)> answer);
  void write_later(uint64_t exchange, size_t bytes, WholeAnswer answer);
  // Any thread.
  void post_answer(uint64_t exchange, HttpResponse answer);
  // Notes and gives it.
  [[nodiscard]] HttpResponse error_answer(Exchange& exchange, const ApiError& error) const;
  void respond_error(uint64_t exchange, const ApiError& error);
  // Whether it is an adapter's name, not the model's.   ERRORS: ApiError 404.
  [[nodiscard]] bool is_adapter(const std::string& name) const;
  // The same for those who ask nothing but whether it is served.
  [[nodiscard]] ModelCheck model_check() const {
    return [this](const std::string& name) {
      if (!name.empty()) static_cast<void>(is_adapter(name));
    };
  }
  // ERRORS: ApiError 403.
  void check_lora_updating() const;
  // ERRORS: ApiError 400.
  void check_dimensions(const GenerationRequest& request) const;
  // ERRORS: ApiError 400: so many prompts at a time never fit into the queue.
  void check_room(const GenerationRequest& request, unsigned endpoint) const;

  void pump_ready();
  void watch_engine();
  void give_up();
  void begin_drain();
  void end_drain_in_time();
  void end_drain();
  // Every open answer ends with `error`; run() returns when their readers have it, or a short time has passed.
  void end_answers(const ApiError& error);
  void log(const std::string& line) const;
  // Every fault of the server has a line; with log_requests every request.
  void log_request(const HttpRecord& record) const;

  Engine& engine_;
  ApiOptions options_;
  int64_t started_s_;
  Json info_;            // inflight_engine_info_json()
  std::string openapi_;  // /openapi.json
  CallMarks call_marks_;
  ReasoningMarks reasoning_;  // that is told apart
  LoadWatch load_;
  ReadyQueue ready_;  // before http_, whose connections' streams wake it
  HttpServer http_;
  const bool local_only_;  // programs of other machines cannot connect
  bool draining_ = false;
  bool answers_ended_ = false;  // by end_answers()
  bool gave_up_ = false;
  std::chrono::steady_clock::time_point drain_end_;
};

}  // namespace inflight::server
