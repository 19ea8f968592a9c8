// SPDX-License-Identifier: Apache-2.0
// Errors as OpenAI's clients expect them: {"error": {"message", "type", "param", "code"}} with the matching HTTP
// status.
#pragma once

#include <stdexcept>
#include <string>

#include "server/http_types.h"

namespace inflight::server {

class ApiError : public std::runtime_error {
 public:
  // param: the request's field at fault, as a path ("messages[0].role"); "" = none. code: "" = none.
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : std::runtime_error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  // OpenAI's class of error for the status: "invalid_request_error", "authentication_error", ...
  [[nodiscard]] std::string type() const;
  // {"error": {...}}
  [[nodiscard]] std::string body() const;
  [[nodiscard]] HttpResponse response() const { return {.status = status_, .body = body()}; }

 private:
  int status_;
  std::string param_;
  std::string code_;
};

// The exception that is being handled, as an answer: an ApiError as it is, the engine's refusals with the status that
// they deserve, else 500.
[[nodiscard]] ApiError current_error();

}  // namespace inflight::server
