// SPDX-License-Identifier: Apache-2.0
#include "server/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/api_error.h"

namespace inflight::server {
namespace {

constexpr size_t kShownMax = 60;  // bytes of a value in an error message

// Brackets nested at most; what is inside strings does not count.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_string) {
      if (letter == '\\') ++i;
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Json parse_json_object(std::string_view text) {
  if (text.empty()) throw ApiError(400, "the request's body is empty, a JSON object is expected");
  if (depth_of(text) > kJsonDepthMax) {
    throw ApiError(400, fmt::format("the request's body is nested deeper than {} levels", kJsonDepthMax));
  }
  Json value;
  try {
    value = Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ...: ..."
    if (const size_t end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    throw ApiError(400, fmt::format("the request's body is not valid JSON: {}", reason));
  }
  if (!value.is_object()) {
    throw ApiError(400, fmt::format("the request's body is {}, a JSON object is expected", describe(value)));
  }
  return value;
}

std::string to_text(const Json& value) { return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

bool is_whole(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

std::string describe(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  const std::string text = to_text(value);
  return text.size() <= kShownMax ? text : value.is_string() ? "a string" : "a number";
}

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const std::string& text_at(const Json& object, const char* key, const std::string& path) {
  const Json* const value = find(object, key);
  if (value == nullptr || !value->is_string()) {
    const std::string place = path + "." + key;
    const std::string what = value == nullptr ? "missing" : describe(*value);
    throw ApiError(400, fmt::format("'{}' is {}, a string is expected", place, what), place);
  }
  return value->get_ref<const std::string&>();
}

}  // namespace inflight::server
