// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_merge.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/limits.h"

namespace inflight::grammar {
namespace {

constexpr std::array<std::string_view, 16> kAnnotations{
    "$schema",    "$id",      "$comment", "$defs",     "definitions", "title",           "description", "default",
    "deprecated", "examples", "readOnly", "writeOnly", "example",     "contentEncoding", "nullable",    "strict"};
constexpr std::array<std::string_view, 25> kAssertions{
    "type",          "enum",    "const",       "properties", "required", "additionalProperties", "minProperties",
    "maxProperties", "items",   "prefixItems", "minItems",   "maxItems", "additionalItems",      "minLength",
    "maxLength",     "pattern", "format",      "minimum",    "maximum",  "exclusiveMinimum",     "exclusiveMaximum",
    "$ref",          "anyOf",   "oneOf",       "allOf"};
constexpr std::array<std::string_view, 7> kTypes{"string", "number", "integer", "object", "array", "boolean", "null"};

// The types that both allow; an integer is a number.
Json common_types(const Json& left, const Json& right, const std::string& path) {
  const auto mine = types_of(Json{{"type", left}}, path);
  const auto theirs = types_of(Json{{"type", right}}, path);
  const auto has = [](const std::vector<std::string>& list, std::string_view type) {
    return std::ranges::find(list, type) != list.end();
  };
  Json common = Json::array();
  for (const std::string_view type : kTypes) {
    const bool in_left = has(mine, type) || (type == "integer" && has(mine, "number"));
    const bool in_right = has(theirs, type) || (type == "integer" && has(theirs, "number"));
    if (in_left && in_right && !(type == "integer" && has(mine, "number") && has(theirs, "number")))
      common.push_back(type);
  }
  if (common.empty()) fail(ErrorCode::InvalidArgument, "JSON schema, {}: no type satisfies all of its schemas", path);
  return common;
}

Json united(const Json& left, const Json& right) {
  Json all = left;
  for (const Json& value : right) {
    if (std::ranges::find(all, value) == all.end()) all.push_back(value);
  }
  return all;
}

Json intersected(const Json& left, const Json& right) {
  Json both = Json::array();
  for (const Json& value : left) {
    if (std::ranges::find(right, value) != right.end()) both.push_back(value);
  }
  return both;
}

// One side forbids undeclared properties: those that only the other declares are forbidden then.
void close_properties(Json& merged, const Json& left, const Json& right) {
  const auto closes = [](const Json& schema) {
    return schema.contains("additionalProperties") && schema["additionalProperties"] == Json(false);
  };
  const auto declares = [](const Json& schema, const std::string& name) {
    return schema.contains("properties") && schema["properties"].contains(name);
  };
  if (!merged.contains("properties")) return;
  Json kept = Json::object();
  for (const auto& [name, schema] : merged["properties"].items()) {
    const bool forbidden = (closes(left) && !declares(left, name)) || (closes(right) && !declares(right, name));
    if (!forbidden) kept[name] = schema;
  }
  merged["properties"] = kept;
}

}  // namespace

bool is_annotation(std::string_view keyword) { return std::ranges::find(kAnnotations, keyword) != kAnnotations.end(); }
bool is_assertion(std::string_view keyword) { return std::ranges::find(kAssertions, keyword) != kAssertions.end(); }

std::vector<std::string> types_of(const Json& schema, const std::string& path) {
  if (!schema.contains("type")) {
    // Keywords of one type say that it is meant, as everyone who leaves the type out means it.
    if (schema.contains("properties") || schema.contains("required") || schema.contains("additionalProperties"))
      return {"object"};
    if (schema.contains("items") || schema.contains("prefixItems")) return {"array"};
    if (schema.contains("pattern") || schema.contains("minLength") || schema.contains("maxLength")) return {"string"};
    if (schema.contains("minimum") || schema.contains("maximum") || schema.contains("exclusiveMinimum") ||
        schema.contains("exclusiveMaximum"))
      return {"number"};
    return {"string", "number", "object", "array", "boolean", "null"};
  }
  const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  std::vector<std::string> types;
  for (const Json& name : list) {
    if (!name.is_string() || std::ranges::find(kTypes, name.get<std::string>()) == kTypes.end()) {
      fail(ErrorCode::InvalidArgument, "JSON schema, {}: type {} is none", path, name.dump());
    }
    types.push_back(name.get<std::string>());
  }
  return types;
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number() && value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>())));
}

const Json& resolve_reference(const Json& root, const std::string& reference, const std::string& path) {
  if (reference == "#") return root;
  if (!reference.starts_with("#/"))
    fail(ErrorCode::Unsupported, "JSON schema, {}: reference '{}' is not supported, only: #/...", path, reference);
  try {
    return root.at(Json::json_pointer(reference.substr(1)));
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: reference '{}' points to nothing", path, reference);
  }
}

Json merge_schemas(const Json& left, const Json& right, const std::string& path, const Json& root, int depth) {
  if (depth > limits::kGrammarDepthMax) fail(ErrorCode::InvalidArgument, "JSON schema, {}: nested too deep", path);
  if (left.is_boolean()) return left.get<bool>() ? right : left;
  if (right.is_boolean()) return right.get<bool>() ? left : right;
  const auto flat = [&](const Json& schema) {  // without $ref and allOf
    if (schema.contains("$ref")) {
      Json rest = schema;
      rest.erase("$ref");
      return merge_schemas(rest, resolve_reference(root, schema["$ref"].get<std::string>(), path), path, root,
                           depth + 1);
    }
    return schema.contains("allOf") ? merge_all_of(schema, path, root) : schema;
  };
  const Json mine = flat(left);
  const Json theirs = flat(right);
  if (mine.is_boolean() || theirs.is_boolean()) return merge_schemas(mine, theirs, path, root, depth + 1);
  Json merged = mine;
  for (const auto& [keyword, value] : theirs.items()) {
    if (!merged.contains(keyword)) {
      merged[keyword] = value;
    } else if (is_annotation(keyword) || merged[keyword] == value) {
      continue;
    } else if (keyword == "type") {
      merged[keyword] = common_types(merged[keyword], value, path);
    } else if (keyword == "required") {
      merged[keyword] = united(merged[keyword], value);
    } else if (keyword == "enum") {
      merged[keyword] = intersected(merged[keyword], value);
    } else if (keyword == "properties") {
      for (const auto& [name, schema] : value.items()) {
        Json& place = merged[keyword][name];
        place = place.is_null() ? schema : merge_schemas(place, schema, path + "/properties/" + name, root, depth + 1);
      }
    } else if (keyword == "items" || keyword == "additionalProperties") {
      merged[keyword] = merge_schemas(merged[keyword], value, path + "/" + keyword, root, depth + 1);
    } else if (keyword.starts_with("min") || keyword == "exclusiveMinimum") {
      merged[keyword] =
          std::max(merged[keyword].get<double>(), value.get<double>()) == value.get<double>() ? value : merged[keyword];
    } else if (keyword.starts_with("max") || keyword == "exclusiveMaximum") {
      merged[keyword] =
          std::min(merged[keyword].get<double>(), value.get<double>()) == value.get<double>() ? value : merged[keyword];
    } else {
      fail(ErrorCode::Unsupported,
           "JSON schema, {}: keyword '{}' twice, in schemas that must hold at once, is not supported", path, keyword);
    }
  }
  close_properties(merged, mine, theirs);
  return merged;
}

Json merge_all_of(const Json& schema, const std::string& path, const Json& root) {
  if (!schema["allOf"].is_array())
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: 'allOf' must be a list of schemas", path);
  Json merged = schema;
  merged.erase("allOf");
  for (size_t i = 0; i < schema["allOf"].size(); ++i) {
    merged = merge_schemas(merged, schema["allOf"][i], fmt::format("{}/allOf/{}", path, i), root);
  }
  return merged;
}

}  // namespace inflight::grammar
