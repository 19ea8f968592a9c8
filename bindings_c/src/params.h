// SPDX-License-Identifier: Apache-2.0
// The C structs to the engine's own types, checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/runtime.h"
#include "inflight/inflight.h"

namespace inflight::c {

// `size`: the struct_size of a caller's struct, of which this version knows `known` bytes. Shorter ones were never
// released; longer ones than Linux's copy_struct_from_user takes are memory that nobody initialised.
// ERRORS: InvalidArgument.
void check_struct_size(size_t size, size_t known, const char* name);

// A caller's struct of any version: longer ones must have a zero tail (the rule of copy_struct_from_user).
// ERRORS: InvalidArgument, Unsupported.
template <typename Struct>
[[nodiscard]] Struct read_struct(const Struct* given, const char* name) {
  if (given == nullptr) fail(ErrorCode::InvalidArgument, "{} is NULL", name);
  const uint32_t size = given->struct_size;
  check_struct_size(size, sizeof(Struct), name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      fail(ErrorCode::Unsupported,
           "{} sets a field at byte {} that this library (" INFLIGHT_VERSION_STRING ") does not know", name, i);
    }
  }
  Struct copy;
  std::memcpy(&copy, given, sizeof copy);
  return copy;
}

// A caller's output struct of any version.  ERRORS: InvalidArgument.
template <typename Struct>
void check_output(const Struct* target, const char* name) {
  if (target == nullptr) fail(ErrorCode::InvalidArgument, "{} is NULL", name);
  check_struct_size(target->struct_size, sizeof(Struct), name);
}

// Fills it; what it has beyond this version becomes zero.
template <typename Struct>
void write_struct(Struct source, Struct* target, const char* name) {
  check_output(target, name);
  const uint32_t size = target->struct_size;
  source.struct_size = size;
  std::memcpy(target, &source, sizeof source);
  std::memset(reinterpret_cast<unsigned char*>(target) + sizeof source, 0, size - sizeof source);
}

// ERRORS: InvalidArgument naming the field, the value and what is allowed.
[[nodiscard]] RuntimeOptions read_engine_params(const inflight_engine_params_t& params);
// `runtime` tokenizes a text prompt.
[[nodiscard]] SubmitOptions read_request_params(const inflight_request_params_t& params, const Runtime& runtime);

// What `structured_*` ask for.   ERRORS: InvalidArgument for several of them, Unsupported.
struct StructuredOutput {
  FilterSource filter;                // empty: any text may come
  bool sleeps = false;                // SubmitOptions::filter_sleeps
  std::vector<TokenId> shown_tokens;  // control tokens that the answer's text has
};
[[nodiscard]] StructuredOutput read_structured_output(const inflight_request_params_t& params, Runtime& runtime);

// The texts at which an answer ends.
[[nodiscard]] std::vector<std::string> read_stop_strings(const inflight_request_params_t& params);

// A pointer and a length, or INFLIGHT_NUL_TERMINATED.  ERRORS: InvalidArgument when `text` is NULL and length is not 0.
[[nodiscard]] std::string_view read_text(const char* text, size_t length, const char* name);

}  // namespace inflight::c
