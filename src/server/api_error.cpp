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
      return {429, failure.what(), "", "queue_full"};
    case INFLIGHT_ERROR_ENGINE_FAILED:
      return {503, failure.what(), "", "engine_failed"};
    default:
      return {500, failure.what()};
  }
}

}  // namespace

std::string ApiError::type() const {
  switch (status_) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return status_ >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string ApiError::body() const {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  nlohmann::ordered_json error;
  error["type"] = "error";  // Anthropic's clients look for it
  error["error"]["message"] = what();
  error["error"]["type"] = type();
  error["error"]["param"] = text_or_null(param_);
  error["error"]["code"] = text_or_null(code_);
  return error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
