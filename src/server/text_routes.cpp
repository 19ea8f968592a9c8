// SPDX-License-Identifier: Apache-2.0
#include "server/text_routes.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "server/api_error.h"
#include "server/chat_messages.h"

namespace inflight::server {
namespace {

void check_keys(const Json& body, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : body.items()) {
    bool found = false;
    for (const std::string_view each : known) found = found || each == name;
    if (!found) throw ApiError(400, fmt::format("unknown field '{}', allowed: {}", name, fmt::join(known, ", ")), name);
  }
}

// The one model answers, whatever its name.
void check_model_field(const Json& body) {
  const auto model = body.find("model");
  if (model != body.end() && !model->is_string()) {
    throw ApiError(400, fmt::format("'model' is {}, a string is expected", describe(*model)), "model");
  }
}

// Whole numbers may be written as 7.0.
bool is_id(const Json& value) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  return number >= 0 && number <= INT32_MAX && number == std::floor(number);
}

ApiError bad_request(const Failure& failure) {
  const bool mine =
      failure.status() != INFLIGHT_ERROR_INVALID_ARGUMENT && failure.status() != INFLIGHT_ERROR_UNSUPPORTED;
  return {mine ? 500 : 400, failure.what()};
}

std::string text_of(Engine& engine, const Json& body) {
  if (const auto messages = body.find("messages"); messages != body.end()) {
    Json request;
    request["messages"] = read_messages(*messages);
    request["add_generation_prompt"] = true;
    return engine.chat_render(to_text(request));
  }
  const char* const key = body.contains("content") ? "content" : "prompt";
  const auto text = body.find(key);
  if (text == body.end() || !text->is_string()) {
    throw ApiError(400, fmt::format("'{}' must be a string (or give 'messages')", key), key);
  }
  return text->get<std::string>();
}

}  // namespace

std::string tokenize_answer(Engine& engine, const std::string& text, const Json& engine_info) {
  const Json body = parse_json_object(text);
  check_keys(body, {"model", "prompt", "content", "messages", "add_special_tokens"});
  check_model_field(body);
  const auto given = body.find("add_special_tokens");
  if (given != body.end() && !given->is_boolean()) {
    throw ApiError(400, "'add_special_tokens' must be true or false", "add_special_tokens");
  }
  const bool special = given == body.end() ? !body.contains("messages") : given->get<bool>();
  try {
    const std::string prompt = text_of(engine, body);
    const std::vector<int32_t> ids = engine.tokenize(prompt, special);
    Json answer;
    answer["count"] = ids.size();
    answer["max_model_len"] = engine_info["limits"]["max_model_len"];
    answer["tokens"] = ids;
    return to_text(answer);
  } catch (const Failure& failure) {
    throw bad_request(failure);
  }
}

std::string detokenize_answer(Engine& engine, const std::string& text) {
  const Json body = parse_json_object(text);
  check_keys(body, {"model", "tokens"});
  check_model_field(body);
  const auto tokens = body.find("tokens");
  if (tokens == body.end() || !tokens->is_array()) throw ApiError(400, "'tokens' must be an array of ids", "tokens");
  std::vector<int32_t> ids;
  ids.reserve(tokens->size());
  for (const Json& id : *tokens) {
    if (!is_id(id)) {
      throw ApiError(400, fmt::format("'tokens' holds {}, ids are expected", describe(id)), "tokens");
    }
    ids.push_back(static_cast<int32_t>(id.get<double>()));
  }
  try {
    return to_text(Json{{"prompt", engine.detokenize(ids)}});
  } catch (const Failure& failure) {
    throw bad_request(failure);
  }
}

}  // namespace inflight::server
