// SPDX-License-Identifier: Apache-2.0
// Errors as OpenAI's and Anthropic's clients expect them: {"type": "error", "error": {"message", "type", "param",
// "code"}} with the matching HTTP status.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "server/http_types.h"
#include "server/json_body.h"

namespace inflight::server {

class ApiError : public std::exception {
 public:
  // param: the request's field at fault, as a path ("messages[0].role"); "" = none. code: "" = none.
  // retry_after_s: when another attempt makes sense; 0 = not told.
  ApiError(int status, std::string message, std::string param = "", std::string code = "", int32_t retry_after_s = 0)
      : message_(std::move(message)),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)),
        retry_after_s_(retry_after_s) {}

  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }  // up to a NUL
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  // path: of the request. The class of error for the status is Anthropic's for /v1/messages and what is below it, else
  // OpenAI's: "invalid_request_error", "authentication_error", ...
  [[nodiscard]] std::string type(std::string_view path) const;
  // {"type": "error", "error": {...}}
  [[nodiscard]] Json body(std::string_view path) const;
  [[nodiscard]] HttpResponse response(std::string_view path) const;

 private:
  std::string message_;
  int status_;
  std::string param_;
  std::string code_;
  int32_t retry_after_s_;
};

// The exception that is being handled, as an answer: an ApiError as it is, the engine's refusals with the status that
// they deserve, else 500.
[[nodiscard]] ApiError current_error();

}  // namespace inflight::server
