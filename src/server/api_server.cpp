// SPDX-License-Identifier: Apache-2.0
#include "server/api_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "inflight/version.h"
#include "server/model_routes.h"
#include "server/openapi.h"
#include "server/server_metrics.h"
#include "server/sim_route.h"
#include "server/web_page.h"

namespace inflight::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

int64_t unix_time_s() {
  return std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// tool_calls: of the engine's info.
CallMarks read_call_marks(const Json& tool_calls) {
  CallMarks marks{tool_calls["begin_mark"].get<std::string>(), tool_calls["end_mark"].get<std::string>()};
  const Json& plain = tool_calls["plain_name"];
  if (plain.is_null()) return marks;
  marks.open = plain["open"].get<MarkTexts>();
  marks.middle = plain["middle"].get<MarkTexts>();
  marks.separator = plain["separator"].get<MarkTexts>();
  if (const Json& as = plain["elements"]; !as.is_null()) {
    marks.elements = {as["open"].get<std::string>(), as["string_middle"].get<std::string>(),
                      as["middle"].get<std::string>(), as["close"].get<std::string>(), as["end"].get<std::string>()};
  }
  if (const Json& as = plain["members"]; !as.is_null())
    marks.members = {as["middle"].get<std::string>(), as["quote"].get<std::string>(), as["end"].get<std::string>()};
  return marks;
}

// "2026-01-31T12:00:00Z"
// Takes the same time wherever the two differ, so that a key cannot be guessed letter by letter.
bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < secret.size(); ++i) {
    const char letter = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(letter) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

// OpenAI's clients send a bearer token, Anthropic's a header of their own.
std::string_view key_of(const HttpRequest& request) {
  std::string_view value = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size() || !same_word(value.substr(0, kScheme.size()), kScheme)) {
    return request.header("x-api-key");
  }
  value.remove_prefix(kScheme.size());
  value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
  return value;
}

constexpr const char* kShuttingDown = "the server is shutting down";

// Of a route.
constexpr unsigned kOpen = 1;  // no API key is wanted
constexpr unsigned kJson = 2;  // the request's body is JSON

// Browsers let any page send other types without asking first.
void check_body_type(const HttpRequest& request) {
  const std::string_view type = request.header("content-type");
  const std::string_view media = type.substr(0, type.find_first_of("; "));
  if (!type.empty() && !same_word(media, "application/json")) {
    throw ApiError(415, fmt::format("Content-Type is '{}', application/json is expected", media));
  }
  const std::string_view coding = request.header("content-encoding");
  if (!coding.empty() && !same_word(coding, "identity")) {
    throw ApiError(415, fmt::format("Content-Encoding is '{}', allowed: identity", coding));
  }
}

std::string model_name_of(const Json& info) {
  const Json model = info.value("model", Json::object());
  if (const auto name = model.value("name", std::string()); !name.empty()) return name;
  const auto path = model.value("path", std::string("model"));
  const std::string file = path.substr(path.find_last_of('/') + 1);
  return file.substr(0, file.rfind(".gguf"));
}

// Of an address of HttpServer; "" for a Unix socket.
std::string_view host_of(std::string_view address) {
  constexpr std::string_view kScheme = "http://";
  return address.starts_with(kScheme) ? address.substr(kScheme.size()) : "";
}

// Loads nothing but from here.
void respond_page(Exchange& exchange, std::string_view page) {
  exchange.respond({.body = std::string(page),
                    .content_type = "text/html; charset=utf-8",
                    .headers = {{"Cache-Control", "no-cache"},
                                {"Content-Security-Policy",
                                 "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
                                 "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"},
                                {"Referrer-Policy", "no-referrer"},
                                {"X-Content-Type-Options", "nosniff"}}});
}

}  // namespace

const ApiServer::Route ApiServer::kRoutes[] = {
    {"POST", "/v1/completions", &ApiServer::post_completions, kJson},
    {"POST", "/v1/chat/completions", &ApiServer::post_chat, kJson},
    {"POST", "/v1/responses", &ApiServer::post_responses, kJson},
    {"POST", "/v1/responses/input_tokens", &ApiServer::post_input_tokens, kJson},
    {"POST", "/v1/messages", &ApiServer::post_messages, kJson},
    {"POST", "/v1/messages/count_tokens", &ApiServer::post_count_tokens, kJson},
    {"POST", "/v1/embeddings", &ApiServer::post_embeddings, kJson},
    {"POST", "/v1/rerank", &ApiServer::post_rerank, kJson},
    {"POST", "/v2/rerank", &ApiServer::post_rerank, kJson},
    {"POST", "/rerank", &ApiServer::post_rerank, kJson},
    {"GET", "/v1/models", &ApiServer::get_models, 0},
    {"POST", "/v1/load_lora_adapter", &ApiServer::post_load_lora, kJson},
    {"POST", "/v1/unload_lora_adapter", &ApiServer::post_unload_lora, kJson},
    {"POST", "/reset_prefix_cache", &ApiServer::post_reset_prefix_cache, 0},
    {"POST", "/tokenize", &ApiServer::post_tokenize, kJson},
    {"POST", "/detokenize", &ApiServer::post_detokenize, kJson},
    {"GET", "/tokenizer_info", &ApiServer::get_tokenizer_info, 0},
    {"GET", "/", &ApiServer::get_page, kOpen},
    {"GET", "/widget", &ApiServer::get_widget, kOpen},
    {"POST", "/inflight/simulate", &ApiServer::post_simulate, kJson},
    {"GET", "/inflight/stats", &ApiServer::get_stats, 0},
    {"GET", "/health", &ApiServer::get_health, kOpen},
    {"GET", "/ready", &ApiServer::get_ready, kOpen},
    {"GET", "/metrics", &ApiServer::get_metrics, kOpen},
    {"GET", "/version", &ApiServer::get_version, kOpen},
    {"GET", "/openapi.json", &ApiServer::get_openapi, kOpen},
};

ApiServer::ApiServer(Engine& engine, const HttpServerOptions& http, ApiOptions options)
    : engine_(engine),
      options_(std::move(options)),
      started_s_(unix_time_s()),
      info_(Json::parse(engine.info_json())),
      call_marks_(read_call_marks(info_["tool_calls"])),
      reasoning_(options_.reasoning_apart ? read_reasoning_marks(info_["reasoning"]) : ReasoningMarks{}),
      ready_([this] { http_.post([this] { pump_ready(); }); }),
      http_(http, [this](Exchange& exchange, HttpRequest request) { handle(exchange, std::move(request)); },
            {.add_headers = [this](Exchange& exchange, const HttpRequest& head) { add_cors_headers(exchange, head); },
             .refusal = [this](Exchange& exchange, const HttpRequest& head) { return refusal(exchange, head); },
             .ended = [this](const HttpRecord& record) { log_request(record); }}),
      local_only_(is_loopback(host_of(http_.address()))) {
  if (options_.model_names.empty()) options_.model_names = {model_name_of(info_), "default"};
  for (const Json& lora : loaded_loras(engine_)) check_lora_name(lora["name"], options_.model_names);
  openapi_ = openapi_document(info_);
  http_.every(milliseconds(200), [this] { watch_engine(); });
  http_.every(milliseconds(100), [this] { end_drain_in_time(); });
  http_.on_signal([this] { begin_drain(); });
}

ApiServer::End ApiServer::run() {
  http_.run();
  return gave_up_ ? End::EngineFailed : End::Stopped;
}

void ApiServer::stop() {
  http_.post([this] { begin_drain(); });
}

const ApiServer::Route* ApiServer::find_route(const HttpRequest& head, std::string& allowed) {
  const std::string_view method = head.method == "HEAD" ? "GET" : std::string_view(head.method);
  const bool one_model = head.path.starts_with("/v1/models/");
  for (const Route& route : kRoutes) {
    if (route.path != head.path && !(one_model && route.path == "/v1/models")) continue;
    if (route.method == method) return &route;
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method == "GET" ? "GET, HEAD" : route.method);
  }
  return nullptr;
}

void ApiServer::check_head(Exchange& exchange, const HttpRequest& head) const {
  std::string allowed;
  if (const Route* const route = find_route(head, allowed)) {
    if (route->method == "POST") check_origin(head);
    if ((route->traits & kOpen) == 0) static_cast<void>(check_key(head));
    if ((route->traits & kJson) != 0) check_body_type(head);
    return;
  }
  if (head.method == "OPTIONS") return;
  if (allowed.empty()) throw ApiError(404, fmt::format("there is no {}; see /openapi.json", head.path));
  exchange.add_header({"Allow", allowed});
  throw ApiError(405, fmt::format("{} is not allowed for {}, allowed: {}", head.method, head.path, allowed));
}

std::optional<HttpResponse> ApiServer::refusal(Exchange& exchange, const HttpRequest& head) const {
  try {
    check_head(exchange, head);
    return std::nullopt;
  } catch (...) {
    return error_answer(exchange, current_error());
  }
}

void ApiServer::handle(Exchange& exchange, HttpRequest request) {
  const uint64_t id = exchange.id();
  try {
    std::string allowed;
    if (const Route* const route = find_route(request, allowed)) return (this->*route->handle)(exchange, request);
    exchange.respond({.status = 204, .headers = {{"Allow", allowed.empty() ? "GET, HEAD, POST" : allowed}}});
  } catch (...) {
    respond_error(id, current_error());
  }
}

bool ApiServer::is_cors_origin(std::string_view origin) const {
  return std::ranges::any_of(options_.cors_origins,
                             [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

void ApiServer::check_origin(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");  // that browsers send with every POST
  const std::string_view host = request.header("host");
  const size_t scheme = origin.find("://");
  const bool own =
      scheme != origin.npos && same_word(origin.substr(scheme + 3), host) && (!local_only_ || is_loopback(host));
  if (origin.empty() || own || is_cors_origin(origin)) return;
  throw ApiError(403,
                 fmt::format("pages of {} may not use this server: start it with --cors-origin {}", origin, origin));
}

void ApiServer::add_cors_headers(Exchange& exchange, const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !is_cors_origin(origin)) return;
  exchange.add_header({"Access-Control-Allow-Origin", is_cors_origin("*") ? "*" : std::string(origin)});
  exchange.add_header({"Vary", "Origin"});
  exchange.add_header({"Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After"});
  if (request.method == "OPTIONS") {
    exchange.add_header({"Access-Control-Allow-Methods", "GET, POST, OPTIONS"});
    // Whatever they are: clients have some of their own (X-Stainless-Os, ...), and more with every version.
    const std::string_view wanted = request.header("access-control-request-headers");
    if (!wanted.empty()) exchange.add_header({"Access-Control-Allow-Headers", std::string(wanted)});
    exchange.add_header({"Access-Control-Max-Age", "600"});
  }
}

uint32_t ApiServer::check_key(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return 0;
  const std::string_view given = key_of(request);
  uint32_t tenant = 0;
  for (size_t i = 0; i < options_.api_keys.size(); ++i) {  // all of them: the time tells nothing
    if (same_secret(given, options_.api_keys[i])) tenant = static_cast<uint32_t>(i + 1);
  }
  if (tenant == 0) {
    throw ApiError(401,
                   given.empty() ? "no API key: send 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'" : "wrong API key",
                   "", "invalid_api_key");
  }
  return tenant;
}

void ApiServer::get_health(Exchange& exchange, HttpRequest&) {
  if (load_.failed()) throw ApiError(503, "the engine has failed", "", "engine_failed");
  if (load_.hung()) throw ApiError(503, "a step of the engine hangs", "", "hung");
  exchange.respond({.body = R"({"status":"ok"})"});
}

void ApiServer::get_ready(Exchange& exchange, HttpRequest& request) {
  if (draining_) throw ApiError(503, kShuttingDown, "", "shutting_down");
  get_health(exchange, request);
}

void ApiServer::get_metrics(Exchange& exchange, HttpRequest& request) {
  respond_later(exchange, request, [this, http = http_.stats()](const std::string&) {
    const std::string own = engine_.metrics_text();
    return HttpResponse{.body = own + vllm_aliases(own) + http_metrics(http, options_.model_names.front()),
                        .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  });
}

void ApiServer::get_page(Exchange& exchange, HttpRequest&) { respond_page(exchange, web_page()); }
void ApiServer::get_widget(Exchange& exchange, HttpRequest&) { respond_page(exchange, widget_page()); }

void ApiServer::post_simulate(Exchange& exchange, HttpRequest& request) {
  answer_later(exchange, request, simulate_answer);
}

void ApiServer::get_stats(Exchange& exchange, HttpRequest& request) {
  uint64_t since = 0;
  constexpr std::string_view kSince = "since=";
  constexpr uint64_t kSinceMax = (uint64_t{1} << 53) - 1;  // beyond, JSON's numbers are not exact
  if (const std::string_view query = request.query; !query.empty()) {
    const std::string_view digits = query.substr(std::min(query.size(), kSince.size()));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), since);
    if (!query.starts_with(kSince) || error != std::errc() || end != digits.data() + digits.size() ||
        since > kSinceMax) {
      throw ApiError(400, fmt::format("the query is '{}', allowed: since=N with N the last step seen", query), "since");
    }
  }
  respond_later(exchange, request, [this, since](const std::string&) {
    return HttpResponse{.body = engine_.steps_json(since), .headers = {{"Cache-Control", "no-store"}}};
  });
}

void ApiServer::get_version(Exchange& exchange, HttpRequest&) {
  exchange.respond({.body = to_text(Json{{"version", inflight_version()}})});
}

void ApiServer::get_models(Exchange& exchange, HttpRequest& request) {
  const ServedModels models{options_.model_names, loaded_loras(engine_), info_, started_s_};
  if (request.path == "/v1/models") return exchange.respond({.body = models_answer(models)});
  const auto name = percent_decoded(std::string_view(request.path).substr(std::string_view("/v1/models/").size()));
  if (!name) throw ApiError(400, fmt::format("the path {} has a % without two hexadecimal digits", request.path));
  static_cast<void>(is_adapter(*name));
  exchange.respond({.body = model_answer(models, *name)});
}

void ApiServer::get_openapi(Exchange& exchange, HttpRequest&) { exchange.respond({.body = openapi_}); }

void ApiServer::get_tokenizer_info(Exchange& exchange, HttpRequest&) {
  Json tokenizer = info_["tokenizer"];
  if (tokenizer.is_null()) throw ApiError(404, "the model has no vocabulary: it knows token ids only");
  tokenizer["model_max_length"] = info_["limits"]["max_model_len"];
  exchange.respond({.body = to_text(tokenizer)});
}

void ApiServer::post_tokenize(Exchange& exchange, HttpRequest& request) {
  answer_later(exchange, request,
               [this](const std::string& body) { return tokenize_answer(engine_, body, model_check(), info_); });
}

void ApiServer::post_detokenize(Exchange& exchange, HttpRequest& request) {
  answer_later(exchange, request,
               [this](const std::string& body) { return detokenize_answer(engine_, body, model_check()); });
}

void ApiServer::count_tokens(Exchange& exchange, HttpRequest& request, unsigned endpoint) {
  answer_later(exchange, request, [this, endpoint](const std::string& body) {
    return count_tokens_answer(engine_, body, model_check(), endpoint);
  });
}

void ApiServer::post_load_lora(Exchange& exchange, HttpRequest& request) {
  check_lora_updating();
  answer_later(exchange, request,
               [this](const std::string& body) { return load_lora_answer(engine_, body, options_.model_names); });
}

void ApiServer::post_unload_lora(Exchange& exchange, HttpRequest& request) {
  check_lora_updating();
  answer_later(exchange, request, [this](const std::string& body) { return unload_lora_answer(engine_, body); });
}

void ApiServer::check_lora_updating() const {
  if (options_.allow_runtime_lora_updating) return;
  throw ApiError(403, "adapters cannot be changed over HTTP: start the server with --allow-runtime-lora-updating");
}

void ApiServer::post_reset_prefix_cache(Exchange& exchange, HttpRequest& request) {
  answer_later(exchange, request, [this](const std::string&) {
    engine_.reset_prefix_cache();
    return std::string("{}");
  });
}

void ApiServer::work_on(uint64_t exchange, size_t bytes, Task job) {
  http_.work(exchange, bytes, [this, exchange, job = std::move(job)]() mutable {
    try {
      job();
    } catch (...) {
      http_.post([this, exchange, error = current_error()] { respond_error(exchange, error); });
    }
  });
}

void ApiServer::work_on(Exchange& exchange, HttpRequest& request, std::function<void(const std::string& body)> job) {
  const size_t bytes = request.body.size();
  work_on(exchange.id(), bytes, [request = std::move(request), job = std::move(job)] { job(request.body); });
}

void ApiServer::respond_later(Exchange& exchange, HttpRequest& request,
                              std::function<HttpResponse(const std::string& body)> answer) {
  work_on(exchange, request, [this, id = exchange.id(), answer = std::move(answer)](const std::string& given) {
    post_answer(id, answer(given));
  });
}

void ApiServer::answer_later(Exchange& exchange, HttpRequest& request,
                             std::function<std::string(const std::string& body)> answer) {
  respond_later(exchange, request,
                [answer = std::move(answer)](const std::string& given) { return HttpResponse{.body = answer(given)}; });
}

void ApiServer::write_later(uint64_t exchange, size_t bytes, WholeAnswer answer) {
  work_on(exchange, bytes,
          [this, exchange, answer = std::move(answer)] { post_answer(exchange, {.body = answer.text()}); });
}

void ApiServer::post_answer(uint64_t exchange, HttpResponse answer) {
  http_.post([this, exchange, answer = std::move(answer)]() mutable {
    if (Exchange* const open = http_.find(exchange)) open->respond(std::move(answer));
  });
}

void ApiServer::generate(Exchange& exchange, HttpRequest& request, unsigned endpoint) {
  const uint32_t tenant = check_key(request);
  if (draining_) throw ApiError(503, kShuttingDown, "", "shutting_down");
  AnswerInfo info{.id = request.id,
                  .created_s = unix_time_s(),
                  .model = options_.model_names.front(),
                  .call_marks = call_marks_,
                  .short_call_ids = info_["tool_calls"]["ids"].get<bool>(),
                  .reasoning = reasoning_,
                  .max_tokens_limit = info_["limits"]["max_tokens_limit"].get<int32_t>()};
  if (endpoint == kMessages) exchange.add_header({"Request-Id", info.id});  // where Anthropic's clients look
  work_on(exchange, request, [this, id = exchange.id(), endpoint, tenant, info](const std::string& body) {
    auto wanted = std::make_unique<GenerationRequest>(
        read_generation_request(parse_json_object(body), endpoint, info.max_tokens_limit));
    AnswerInfo named = info;
    if (!wanted->model.empty() && is_adapter(wanted->model)) named.model = wanted->lora_name = wanted->model;
    check_dimensions(*wanted);
    check_room(*wanted, endpoint);
    auto submitted = submit_request(engine_, std::move(wanted), endpoint, std::move(named), tenant);
    http_.post([this, id, submitted = std::move(submitted)]() mutable { attach(id, std::move(submitted)); });
  });
}

void ApiServer::attach(uint64_t exchange, SubmittedRequest submitted) {
  Exchange* const open = http_.find(exchange);
  if (open == nullptr) return;  // the client has gone; the streams go with `submitted`
  try {
    open->set_producer(std::make_unique<Generation>(
        engine_, *open, ready_, std::move(submitted),
        [this](uint64_t id, size_t bytes, WholeAnswer answer) { write_later(id, bytes, std::move(answer)); }));
  } catch (...) {
    return respond_error(exchange, current_error());
  }
  open->proceed();
}

HttpResponse ApiServer::error_answer(Exchange& exchange, const ApiError& error) const {
  exchange.ended_by(error);
  HttpResponse response = error.response(exchange.path());
  if (error.status() == 503) {
    response.headers.push_back({"Retry-After", std::to_string(load_.retry_after_s())});
  }
  if (error.status() == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

void ApiServer::respond_error(uint64_t exchange, const ApiError& error) {
  if (Exchange* const open = http_.find(exchange)) open->respond(error_answer(*open, error));
}

bool ApiServer::is_adapter(const std::string& name) const {
  const auto& names = options_.model_names;
  if (std::find(names.begin(), names.end(), name) != names.end()) return false;
  std::vector<std::string> served = names;
  for (const Json& lora : loaded_loras(engine_)) {
    if (lora["name"] == name) return true;
    served.push_back(lora["name"]);
  }
  throw ApiError(404, fmt::format("the model '{}' does not exist, served: {}", name, fmt::join(served, ", ")), "model",
                 "model_not_found");
}

void ApiServer::check_dimensions(const GenerationRequest& request) const {
  const int32_t length = info_["model"]["embedding_length"];
  if (request.dimensions == 0 || request.dimensions == length) return;
  throw ApiError(400,
                 fmt::format("'dimensions' is {}, this model's embeddings have {} and are not shortened",
                             request.dimensions, length),
                 "dimensions");
}

void ApiServer::check_room(const GenerationRequest& request, unsigned endpoint) const {
  const int64_t count = request.sequence_count();
  const int64_t most = info_["limits"]["sequences_max"];
  if (request.prompts.size() < 2 || count <= most) return;  // of one prompt the engine says it
  const char* const field = content_field(endpoint);
  throw ApiError(400,
                 fmt::format("'{}' has {} prompts, {} sequences; at most {} can run and wait here: send it in parts",
                             field, request.prompts.size(), count, most),
                 field);
}

void ApiServer::pump_ready() {
  std::vector<uint64_t> ready = ready_.take();
  std::sort(ready.begin(), ready.end());
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  for (const uint64_t id : ready) {
    Exchange* const open = http_.find(id);
    if (open != nullptr) open->proceed();
  }
}

void ApiServer::watch_engine() {
  load_.observe(engine_.stats(), Clock::now());
  if (options_.give_up_on_failure && !draining_ && (load_.failed() || load_.hung())) give_up();
}

void ApiServer::give_up() {
  gave_up_ = true;
  http_.stop_accepting();
  end_answers({503, load_.failed() ? "the engine has failed" : "a step of the engine hangs", "", "engine_failed"});
}

void ApiServer::end_answers(const ApiError& error) {
  constexpr seconds kTellTime{2};  // for the errors to reach their readers
  draining_ = answers_ended_ = true;
  drain_end_ = Clock::now() + kTellTime;
  const std::vector<uint64_t> open = http_.open_exchanges();
  log(fmt::format("{}: {} requests end with an error", error.what(), open.size()));
  for (const uint64_t id : open) {
    Exchange* const exchange = http_.find(id);
    if (exchange == nullptr) continue;
    if (exchange->producer() != nullptr) {
      exchange->producer()->fail(error);
    } else {
      respond_error(id, error);
    }
  }
  http_.close_idle();
}

void ApiServer::begin_drain() {
  if (draining_) return end_drain();
  draining_ = true;
  drain_end_ = Clock::now() + options_.shutdown_timeout;
  log(fmt::format("shutting down: {} requests have {} s to end", http_.stats().exchanges_open,
                  options_.shutdown_timeout.count()));
  http_.close_idle();
}

void ApiServer::end_drain_in_time() {
  if (draining_ && (http_.stats().exchanges_open == 0 || Clock::now() >= drain_end_)) end_drain();
}

void ApiServer::end_drain() {
  if (answers_ended_ || http_.stats().exchanges_open == 0) return http_.stop();
  end_answers({503, kShuttingDown, "", "shutting_down"});
}

void ApiServer::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

void ApiServer::log_request(const HttpRecord& record) const {
  constexpr size_t kPathBytesMax = 200, kMessageBytesMax = 1000;
  const bool fault = record.error && record.error->status() >= 500;
  if (!fault && !options_.log_requests) return;
  const std::string why = fault ? ": " + printable(record.error->what(), kMessageBytesMax) : "";
  log(fmt::format("{} {} {} {} {} {} ms{}", record.id, printable(record.method, kPathBytesMax),
                  printable(record.path, kPathBytesMax), record.status, record.bytes,
                  std::chrono::duration_cast<milliseconds>(record.time).count(), why));
}

}  // namespace inflight::server
