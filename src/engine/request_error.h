// SPDX-License-Identifier: Apache-2.0
// A mistake in one field of a request, so that whoever passes it on can name the field.
#pragma once

#include <string>

#include "base/error.h"

namespace inflight {

class RequestError : public Error {
 public:
  // field: one of inflight_last_error_field()'s names.   LIFETIME: static.
  RequestError(const char* field, const std::string& message)
      : Error(ErrorCode::InvalidArgument, message), field_(field) {}
  [[nodiscard]] const char* field() const { return field_; }

 private:
  const char* field_;
};

}  // namespace inflight
