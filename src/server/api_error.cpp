// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

#include <nlohmann/json.hpp>

namespace inflight::server {

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

}  // namespace inflight::server
