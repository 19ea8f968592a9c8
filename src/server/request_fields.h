// SPDX-License-Identifier: Apache-2.0
// The one table of what a request may contain. Reading, errors and the OpenAPI document all follow from it: a new
// option is one more row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/generation_request.h"
#include "server/json_body.h"

namespace inflight::server {

struct RequestField {
  enum class Kind {
    Integer,
    Number,
    Boolean,
    Text,
    Custom,       // `read` knows
    Ignored,      // accepted for OpenAI's clients, without effect
    Unsupported,  // known, but not here: only null, or `neutral`
  };
  using Request = GenerationRequest;

  std::string_view name;
  unsigned endpoints;
  Kind kind;
  std::string_view help;
  // Integer, Number: the range. Text: `max` characters.
  double min = 0, max = 0;
  bool above_min = false;  // Number: the range begins above `min`
  // Where the value goes: the one that fits the kind (Integer: integer or counter).
  int32_t& (*integer)(Request&) = nullptr;
  float& (*number)(Request&) = nullptr;
  double& (*wide_number)(Request&) = nullptr;
  bool& (*boolean)(Request&) = nullptr;
  uint8_t& (*flag)(Request&) = nullptr;  // Boolean in the C struct
  std::string& (*text)(Request&) = nullptr;
  void (*read)(const Json& value, Request& request) = nullptr;  // Custom
  std::string_view schema = "";                                 // Custom: JSON Schema. Unsupported: the neutral value
};

// In the order of the documentation.
[[nodiscard]] std::span<const RequestField> request_fields();

// Reads every key of `body`; null counts as absent.
// ERRORS: ApiError 400 naming the field: unknown, unsupported, wrong type, out of range.
void read_fields(const Json& body, unsigned endpoint, GenerationRequest& request);

// What the loaded model allows.
struct SchemaLimits {
  int32_t vocabulary_size = 0;
  int32_t max_model_len = 0;  // tokens of prompt and answer
  int32_t embedding_length = 0;
  bool infill = false;   // whether the model was trained to insert
  bool reranks = false;  // whether it has a classifier
};

// JSON Schema of an endpoint's request body.
[[nodiscard]] Json request_schema(unsigned endpoint, const SchemaLimits& limits);

// A schema's text with the model's numbers for $PROMPT_TOKENS, $LAST_TOKEN, $TOKEN_PATTERN (of ids as text),
// $EMBEDDING_LENGTH, $SUFFIX_TYPE and $PROMPT_BYTES (the least of a completion's prompt).
[[nodiscard]] std::string with_limits(std::string_view schema, const SchemaLimits& limits);

}  // namespace inflight::server
