// SPDX-License-Identifier: Apache-2.0
#include "server/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/api_error.h"

namespace inflight::server {
namespace {

constexpr size_t kShownMax = 60;  // bytes of a value in an error message

// What makes a text costly to read, copy and write; what is inside strings does not count.
struct Shape {
  int depth = 0;           // brackets nested at most
  size_t comparisons = 0;  // each member of an object is looked for among those before it

  [[nodiscard]] bool is_allowed() const { return depth <= kJsonDepthMax && comparisons <= kJsonComparisonsMax; }
};

// As far as it is allowed.
Shape shape_of(std::string_view text) {
  Shape shape;
  std::vector<size_t> members(1);  // so far, of the objects around
  bool in_string = false;
  for (size_t i = 0; i < text.size() && shape.is_allowed(); ++i) {
    const char letter = text[i];
    if (in_string) {
      if (letter == '\\') ++i;
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      shape.depth = std::max(shape.depth, static_cast<int>(members.size()));
      members.push_back(0);
    } else if (letter == ']' || letter == '}') {
      if (members.size() > 1) members.pop_back();
    } else if (letter == ':') {
      shape.comparisons += members.back()++;
    }
  }
  return shape;
}

std::string member_of(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

}  // namespace

Json parse_json_object(std::string_view text) {
  if (text.empty()) throw ApiError(400, "the request's body is empty, a JSON object is expected");
  // To the library it is the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw ApiError(400, fmt::format("the request's body is not valid JSON: byte {} is NUL", nul + 1));
  }
  const Shape shape = shape_of(text);
  if (shape.depth > kJsonDepthMax) {
    throw ApiError(400, fmt::format("the request's body is nested deeper than {} levels", kJsonDepthMax));
  }
  if (!shape.is_allowed())
    throw ApiError(400, "the request's body has objects of too many members, allowed: one of 14000, or smaller ones");
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

Json parse_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos || !shape_of(text).is_allowed()) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

std::string to_text(const Json& value) { return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

bool is_whole(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

void refuse(std::string_view path, const Json& value, std::string_view expected) {
  throw ApiError(400, fmt::format("'{}' is {}, {} is expected", path, describe(value), expected), std::string(path));
}

void check_object(std::string_view path, const Json& value) {
  if (!value.is_object()) refuse(path, value, "an object");
}

void check_array(std::string_view path, const Json& value) {
  if (!value.is_array()) refuse(path, value, "an array");
}

void check_names(const Json& object, std::initializer_list<std::string_view> allowed, const std::string& path) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    const std::string place = member_of(path, name);
    throw ApiError(400, fmt::format("unknown field '{}', allowed: {}", place, fmt::join(allowed, ", ")), place);
  }
}

void refuse_nul(const std::string& field, std::string_view text) {
  if (text.find('\0') == std::string_view::npos) return;
  throw ApiError(400, fmt::format("'{}' holds a NUL character, which no text may", field), field);
}

std::string describe(const Json& value) {
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_object()) return "an object";
  const std::string text = to_text(value);
  return text.size() <= kShownMax ? text : value.is_string() ? "a string" : "a number";
}

void check_count(const std::string& field, size_t count, size_t most) {
  if (count <= most) return;
  throw ApiError(400, fmt::format("'{}' has {} entries, at most {} are allowed", field, count, most), field);
}

size_t character_count(std::string_view text) {
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
  return static_cast<size_t>(std::ranges::count_if(text, begins));
}

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool flag_at(const Json& object, const char* key, const std::string& path, bool otherwise) {
  const Json* const value = find(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(member_of(path, key), *value, "true or false");
  return value->get<bool>();
}

const std::string& text_at(const Json& object, const char* key, const std::string& path) {
  const Json* const value = find(object, key);
  if (value != nullptr && value->is_string()) return value->get_ref<const std::string&>();
  const std::string place = member_of(path, key);
  if (value != nullptr) refuse(place, *value, "a string");
  throw ApiError(400, fmt::format("'{}' is missing, a string is expected", place), place);
}

}  // namespace inflight::server
