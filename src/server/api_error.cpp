// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

#include <nlohmann/json.hpp>

#include "inflight/inflight.hpp"

namespace inflight::server {
namespace {

ApiError error_of(const Failure& failure) {
  switch (failure.status()) {
    case INFLIGHT_ERROR_INVALID_ARGUMENT:
    case INFLIGHT_ERROR_UNSUPPORTED:
      return {400, failure.what()};
    case INFLIGHT_ERROR_NOT_FOUND:
      return {404, failure.what()};
    case INFLIGHT_ERROR_REJECTED:
      return {429, failure.what(), "", "queue_full", failure.retry_after_s()};
    case INFLIGHT_ERROR_ENGINE_FAILED:
      return {503, failure.what(), "", "engine_failed"};
    default:
      return {500, failure.what()};
  }
}

}  // namespace

std::string ApiError::type(std::string_view path) const {
  const bool anthropic = path == "/v1/messages" || path.starts_with("/v1/messages/");
  switch (status_) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return anthropic ? "not_found_error" : "invalid_request_error";
    case 413:
      return anthropic ? "request_too_large" : "invalid_request_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return anthropic ? "overloaded_error" : "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      if (status_ < 500) return "invalid_request_error";
      return anthropic ? "api_error" : "server_error";
  }
}

Json ApiError::body(std::string_view path) const {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  Json error;
  error["type"] = "error";  // Anthropic's clients look for it
  error["error"]["message"] = message_;
  error["error"]["type"] = type(path);
  error["error"]["param"] = text_or_null(param_);
  error["error"]["code"] = text_or_null(code_);
  if (param_ == "thread") {  // by which Anthropic's clients go on without one
    error["error"]["details"] = {{"error_code", "thread_unsupported_request"}, {"unsupported", {"thread"}}};
  }
  return error;
}

HttpResponse ApiError::response(std::string_view path) const {
  HttpResponse response{.status = status_, .body = to_text(body(path))};
  if (retry_after_s_ > 0) response.headers.push_back({"Retry-After", std::to_string(retry_after_s_)});
  return response;
}

ApiError current_error() {
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const Failure& failure) {
    return error_of(failure);
  } catch (const std::exception& error) {
    return {500, error.what()};
  }
}

}  // namespace inflight::server
