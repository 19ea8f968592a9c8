// SPDX-License-Identifier: Apache-2.0
#include "server/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/api_error.h"

namespace inflight::server {
namespace {

using Field = RequestField;
using Kind = Field::Kind;
using Request = GenerationRequest;

// What no field's own schema can say. Not said: that a prompt leaves a token to answer, sums and orders of numbers
// (best_of and n, min_tokens and max_tokens, prompts times answers), what 'suffix' asks of 'prompt', that tool_choice
// names one of the tools, and what the help texts say of 'stream' and of the structured outputs: with more rules than
// these, programs that make requests from the document give up.
struct Rule {
  unsigned endpoints;
  std::string_view schema;
};
constexpr Rule kRules[] = {
    {kEndpoints & ~kMessages,
     R"({"if": {"required": ["stream_options"], "properties": {"stream_options": {"type": "object"}}},
                     "then": {"required": ["stream"], "properties": {"stream": {"const": true}}}})"},
    {kChat, R"({"if": {"required": ["top_logprobs"], "properties": {"top_logprobs": {"type": "integer", "minimum": 1}}},
                "then": {"required": ["logprobs"], "properties": {"logprobs": {"const": true}}}})"},
    {kCompletions, R"({"if": {"required": ["stream"], "properties": {"stream": {"const": true}}},
                       "then": {"properties": {"prompt_logprobs": {"type": "null"}}}})"},
    {kCompletions, R"({"if": {"required": ["max_tokens"], "properties": {"max_tokens": {"const": 0}}},
         "then": {"properties": {"n": {"enum": [1, null]}, "best_of": {"enum": [1, null]}}}})"},
    {kChat, R"({"if": {"required": ["continue_final_message"],
                       "properties": {"continue_final_message": {"const": true}}},
                "then": {"required": ["add_generation_prompt"],
                         "properties": {"add_generation_prompt": {"const": false}}}})"},
    {kChat | kResponses, R"({"if": {"required": ["tool_choice"],
         "properties": {"tool_choice": {"anyOf": [{"type": "object"}, {"const": "required"}]}}},
         "then": {"required": ["tools"], "properties": {"tools": {"type": "array", "minItems": 1}}}})"},
};

std::string range_of(const Field& field) {
  return field.above_min ? fmt::format("above {} and at most {}", field.min, field.max)
                         : fmt::format("between {} and {}", field.min, field.max);
}

void read_integer(const Field& field, const Json& value, Request& request) {
  const bool fits = is_whole(value) && value.get<double>() >= field.min && value.get<double>() <= field.max;
  if (!fits) refuse(field.name, value, "an integer " + range_of(field));
  field.integer(request) = value.get<int32_t>();
}

void read_number(const Field& field, const Json& value, Request& request) {
  const bool fits = value.is_number() && value.get<double>() <= field.max &&
                    (field.above_min ? value.get<double>() > field.min : value.get<double>() >= field.min);
  if (!fits) refuse(field.name, value, "a number " + range_of(field));
  if (field.number != nullptr) {
    field.number(request) = value.get<float>();
  } else {
    field.wide_number(request) = value.get<double>();
  }
}

void read_boolean(const Field& field, const Json& value, Request& request) {
  if (!value.is_boolean()) refuse(field.name, value, "true or false");
  if (field.boolean != nullptr) {
    field.boolean(request) = value.get<bool>();
  } else {
    field.flag(request) = value.get<bool>() ? 1 : 0;
  }
}

void read_string(const Field& field, const Json& value, Request& request) {
  if (!value.is_string() || static_cast<double>(character_count(value.get_ref<const std::string&>())) > field.max) {
    refuse(field.name, value, fmt::format("a string of at most {} characters", field.max));
  }
  refuse_nul(std::string(field.name), value.get_ref<const std::string&>());
  field.text(request) = value.get<std::string>();
}

void read_field(const Field& field, const Json& value, Request& request) {
  switch (field.kind) {
    case Kind::Integer:
      return read_integer(field, value, request);
    case Kind::Number:
      return read_number(field, value, request);
    case Kind::Boolean:
      return read_boolean(field, value, request);
    case Kind::Text:
      return read_string(field, value, request);
    case Kind::Custom:
      return field.read(value, request);
    case Kind::Ignored:
      return;
    case Kind::Unsupported:
      if (value != Json::parse(field.schema)) {
        throw ApiError(400, fmt::format("'{}' is not supported: {}", field.name, field.help), std::string(field.name));
      }
      return;
  }
}

const Field* find_field(std::string_view name, unsigned endpoint) {
  for (const Field& field : request_fields()) {
    if (field.name == name && (field.endpoints & endpoint) != 0) return &field;
  }
  return nullptr;
}

// Numbers from 0 to `last`, as a regular expression over their digits.
std::string pattern_up_to(int32_t last) {
  const std::string digits = std::to_string(last);
  std::string pattern = digits.size() == 1 ? "" : fmt::format("[0-9]{{1,{}}}|", digits.size() - 1);
  for (size_t i = 0; i < digits.size(); ++i) {  // the first difference stands at i
    if (digits[i] == '0') continue;
    pattern += fmt::format("{}[0-{}][0-9]{{{}}}|", digits.substr(0, i), static_cast<char>(digits[i] - 1),
                           digits.size() - 1 - i);
  }
  return "^(" + pattern + digits + ")$";
}

Json schema_of(const Field& field, const SchemaLimits& limits) {
  Json schema = Json::object();
  switch (field.kind) {
    case Kind::Integer:
    case Kind::Number:
      schema["type"] = field.kind == Kind::Integer ? "integer" : "number";
      if (field.kind == Kind::Integer) {
        schema["minimum"] = static_cast<int64_t>(field.min);
        schema["maximum"] = static_cast<int64_t>(field.max);
      } else {
        schema[field.above_min ? "exclusiveMinimum" : "minimum"] = field.min;
        schema["maximum"] = field.max;
      }
      break;
    case Kind::Boolean:
      schema["type"] = "boolean";
      break;
    case Kind::Text:
      schema["type"] = "string";
      schema["maxLength"] = static_cast<int64_t>(field.max);
      break;
    case Kind::Custom:
      schema = Json::parse(with_limits(field.schema, limits));
      break;
    case Kind::Ignored:
      break;
    case Kind::Unsupported:
      schema["enum"] = Json::array({Json::parse(field.schema)});
      break;
  }
  schema["description"] = field.help;
  return schema;
}

// With null, which is the same as leaving a field out.
Json nullable(Json schema) {
  if (schema.contains("anyOf")) schema["anyOf"].push_back(Json{{"type", "null"}});
  if (schema.contains("type") && schema["type"].is_string()) schema["type"] = Json::array({schema["type"], "null"});
  if (schema.contains("enum") && std::ranges::find(schema["enum"], Json()) == schema["enum"].end())
    schema["enum"].push_back(Json());
  return schema;
}

}  // namespace

void read_fields(const Json& body, unsigned endpoint, GenerationRequest& request) {
  for (const auto& [name, value] : body.items()) {
    const Field* const field = find_field(name, endpoint);
    if (field == nullptr) {
      throw ApiError(400, fmt::format("unknown field '{}'; see /openapi.json for those there are", name), name);
    }
    if (!value.is_null()) read_field(*field, value, request);
  }
}

std::string with_limits(std::string_view schema, const SchemaLimits& limits) {
  std::string text(schema);
  const std::pair<std::string_view, std::string> values[] = {
      {"$PROMPT_TOKENS", std::to_string(limits.max_model_len)},
      {"$LAST_TOKEN", std::to_string(limits.vocabulary_size - 1)},
      {"$TOKEN_PATTERN", pattern_up_to(limits.vocabulary_size - 1)},
      {"$EMBEDDING_LENGTH", std::to_string(limits.embedding_length)},
      {"$SUFFIX_TYPE", limits.infill ? "string" : "null"},
      {"$PROMPT_BYTES", limits.infill ? "0" : "1"}};
  for (const auto& [name, value] : values) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

Json request_schema(unsigned endpoint, const SchemaLimits& limits) {
  Json schema = Json::object();
  schema["type"] = "object";
  std::vector<std::string_view> needed = {content_field(endpoint)};
  if (endpoint == kRerank) needed.emplace_back("query");
  for (const Field& field : request_fields()) {
    if ((field.endpoints & endpoint) == 0) continue;
    const bool may_lack = std::ranges::find(needed, field.name) == needed.end();
    schema["properties"][std::string(field.name)] =
        may_lack ? nullable(schema_of(field, limits)) : schema_of(field, limits);
  }
  schema["required"] = needed;
  for (const Rule& rule : kRules) {
    if ((rule.endpoints & endpoint) != 0) schema["allOf"].push_back(Json::parse(rule.schema));
  }
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace inflight::server
