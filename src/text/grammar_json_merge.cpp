// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_merge.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/limits.h"
#include "base/utf8.h"
#include "text/grammar_json_number.h"
#include "text/grammar_json_string.h"

namespace inflight::grammar {
namespace {

constexpr std::array<std::string_view, 22> kAnnotations{
    "$schema",     "$id",           "$comment",         "$defs",         "definitions", "title",
    "description", "default",       "deprecated",       "examples",      "readOnly",    "writeOnly",
    "example",     "discriminator", "contentEncoding",  "nullable",      "strict",      "$anchor",
    "$vocabulary", "contentSchema", "contentMediaType", "$dynamicAnchor"};
constexpr std::array<std::string_view, 29> kAssertions{"type",
                                                       "enum",
                                                       "const",
                                                       "properties",
                                                       "required",
                                                       "additionalProperties",
                                                       "minProperties",
                                                       "maxProperties",
                                                       "items",
                                                       "prefixItems",
                                                       "minItems",
                                                       "maxItems",
                                                       "additionalItems",
                                                       "minLength",
                                                       "maxLength",
                                                       "pattern",
                                                       "format",
                                                       "minimum",
                                                       "maximum",
                                                       "exclusiveMinimum",
                                                       "exclusiveMaximum",
                                                       "$ref",
                                                       "anyOf",
                                                       "oneOf",
                                                       "allOf",
                                                       "multipleOf",
                                                       "uniqueItems",
                                                       "propertyNames",
                                                       "patternProperties"};
constexpr size_t kComparedPerStep = 8;  // names, or small values
constexpr std::array<std::string_view, 7> kTypeNames{"string", "number",  "integer", "object",
                                                     "array",  "boolean", "null"};

// The types that both allow, none perhaps; an integer is a number.
Json common_types(const Json& left, const Json& right, const std::string& path) {
  const auto mine = types_of(Json{{"type", left}}, path);
  const auto theirs = types_of(Json{{"type", right}}, path);
  const auto has = [](const std::vector<std::string>& list, std::string_view type) {
    return std::ranges::find(list, type) != list.end();
  };
  Json common = Json::array();
  for (const std::string_view type : kTypeNames) {
    const bool in_left = has(mine, type) || (type == "integer" && has(mine, "number"));
    const bool in_right = has(theirs, type) || (type == "integer" && has(theirs, "number"));
    if (in_left && in_right && !(type == "integer" && has(mine, "number") && has(theirs, "number")))
      common.push_back(type);
  }
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

// Whole numbers as such: doubles above 2^53 do not tell neighbours apart.
bool is_smaller(const Json& left, const Json& right) {
  const bool whole = left.is_number_integer() && right.is_number_integer();
  return whole ? left < right : left.get<double>() < right.get<double>();
}

bool matches_a_pattern(const Json& schema, const std::string& name, const std::string& path, const SchemaRoot& root) {
  if (!schema.contains("patternProperties")) return false;
  for (const auto& [expression, unused] : schema["patternProperties"].items()) {
    const auto names =
        kept(root, path + "/patternProperties/" + expression, [&] { return pattern_texts(expression, root.budget); });
    if (names && names->accepts(name)) return true;
  }
  return false;
}

// What `schema` says about property `name`, but for its patterns.   COST: O(its properties).
Json said_of(const Json& schema, const std::string& name, const std::string& path, const SchemaRoot& root) {
  if (schema.contains("properties") && schema["properties"].contains(name)) return schema["properties"][name];
  if (!schema.contains("additionalProperties")) return true;
  return matches_a_pattern(schema, name, path, root) ? Json(true) : schema["additionalProperties"];
}

// What `schema` says about item `index`.
Json said_of(const Json& schema, size_t index) {
  if (schema.contains("prefixItems") && index < schema["prefixItems"].size()) return schema["prefixItems"][index];
  return schema.contains("items") ? schema["items"] : Json(true);
}

// The parts of two schemas that say which schema a document's parts must satisfy.
class PartMerger {
 public:
  PartMerger(const Json& left, const Json& right, const std::string& path, const SchemaRoot& root, int depth)
      : left_(left), right_(right), path_(path), root_(root), depth_(depth) {}

  // "properties": those that one side declares must also be what the other says about undeclared ones.
  [[nodiscard]] Json properties() const {
    Json merged = Json::object();
    for (const Json* const side : {&left_, &right_}) {
      if (!side->contains("properties")) continue;
      for (const auto& [name, schema] : (*side)["properties"].items()) {
        charge_look_ups(left_, right_, root_.budget);
        if (merged.contains(name)) continue;
        merged[name] =
            merge(said_of(left_, name, path_, root_), said_of(right_, name, path_, root_), "/properties/" + name);
      }
    }
    return merged;
  }

  [[nodiscard]] Json prefix_items() const {
    size_t count = 0;
    for (const Json* const side : {&left_, &right_}) {
      if (side->contains("prefixItems")) count = std::max(count, (*side)["prefixItems"].size());
    }
    Json merged = Json::array();
    for (size_t i = 0; i < count; ++i)
      merged.push_back(merge(said_of(left_, i), said_of(right_, i), fmt::format("/prefixItems/{}", i)));
    return merged;
  }

 private:
  [[nodiscard]] Json merge(const Json& left, const Json& right, const std::string& place) const {
    return merge_schemas(left, right, path_ + place, root_, depth_ + 1);
  }
  const Json &left_, &right_;
  const std::string& path_;
  const SchemaRoot& root_;
  int depth_;
};

// Before draft 2020-12 "items" might be a list, and "additionalItems" what comes behind it.
Json with_prefix_items(Json schema) {
  if (!schema.contains("items") || !schema["items"].is_array()) {
    schema.erase("additionalItems");  // says nothing without a list
    return schema;
  }
  schema["prefixItems"] = std::move(schema["items"]);
  schema.erase("items");
  if (schema.contains("additionalItems")) schema["items"] = std::move(schema["additionalItems"]);
  schema.erase("additionalItems");
  return schema;
}

constexpr std::array<std::string_view, 10> kNarrowing{
    "type",       "minimum",   "maximum",   "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "pattern",          "format"};

// What a schema says of numbers and strings beside a list of values.
class ListedFilter {
 public:
  ListedFilter(const Json& schema, const std::string& path, const SchemaRoot& root)
      : root_(root),
        range_(number_range(schema, path)),
        min_length_(count_of(schema, "minLength", path)),
        max_length_(count_of(schema, "maxLength", path)) {
    if (range_.step) multiples_ = kept(root, path, [&] { return multiples_of(*range_.step, false); });
    for (const std::string& pattern : patterns_of(schema)) {
      if (auto texts = kept(root, path, [&] { return pattern_texts(pattern, root.budget); }))
        patterns_.push_back(std::move(*texts));
    }
  }

  [[nodiscard]] bool keeps(const Json& value) const {
    root_.budget.charge(steps_of(value) * (1 + patterns_.size()));
    if (value.is_number()) {
      const DecimalBound number = decimal_bound(value.dump(), false);
      return is_within(range_, number) && (!multiples_ || multiples_->accepts(number.text()));
    }
    if (!value.is_string()) return true;
    const auto& text = value.get_ref<const std::string&>();
    const auto length = static_cast<int64_t>(count_utf8_characters(text));
    return length >= min_length_.value_or(0) && length <= max_length_.value_or(length) &&
           std::ranges::all_of(patterns_, [&](const Dfa& pattern) { return pattern.accepts(text); });
  }

 private:
  const SchemaRoot& root_;
  const NumberRange range_;
  std::optional<Dfa> multiples_;
  std::vector<Dfa> patterns_;
  const std::optional<int64_t> min_length_, max_length_;
};

// '%22' as '"'.
std::string percent_decoded(const std::string& text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const bool encoded = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(&text[i + 1], &text[i + 3], byte, 16).ptr == &text[i + 3];
    decoded += encoded ? static_cast<char>(byte) : text[i];
    if (encoded) i += 2;
  }
  return decoded;
}

// Keywords whose value is of one kind: what reads them need not look again.
void check_kinds(const Json& schema, const std::string& path) {
  const auto check = [&](const char* keyword, bool (Json::*is_right)() const noexcept, std::string_view allowed) {
    if (schema.contains(keyword) && !(schema[keyword].*is_right)()) malformed(path, keyword, schema[keyword], allowed);
  };
  for (const char* const keyword : {"$ref", "pattern", "format"}) check(keyword, &Json::is_string, "a string");
  for (const char* const keyword : {"properties", "patternProperties"}) check(keyword, &Json::is_object, "an object");
  for (const char* const keyword : {"prefixItems", "allOf"}) check(keyword, &Json::is_array, "a list of schemas");
  check("uniqueItems", &Json::is_boolean, "true or false");
  if (const auto types = types_of(schema, path); std::ranges::find(types, "object") == types.end()) return;
  check("required", &Json::is_array, "a list of strings");  // of other types it says nothing: draft 3 has true there
  const Json names = schema.value("required", Json::array());
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].is_string()) malformed(path, fmt::format("required/{}", i), names[i], "a string");
  }
}

}  // namespace

size_t steps_of(const Json& value) {
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size() / Budget::kBytesPerStep;
  size_t steps = 1;
  if (value.is_array()) {
    for (const Json& item : value) steps += steps_of(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.get_ref<const Json::object_t&>())
      steps += key.size() / Budget::kBytesPerStep + steps_of(item);
  }
  return steps;
}

void charge_comparisons(const Json& left, const Json& right, Budget& budget) {
  budget.charge(left.size() * steps_of(right) / kComparedPerStep);
}

void charge_look_ups(const Json& left, const Json& right, Budget& budget) {
  for (const Json* const schema : {&left, &right}) {
    if (schema->contains("properties")) budget.charge(1 + (*schema)["properties"].size() / kComparedPerStep);
  }
}

bool is_annotation(std::string_view keyword) {
  return keyword.starts_with("x-") || std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}
bool is_assertion(std::string_view keyword) { return std::ranges::find(kAssertions, keyword) != kAssertions.end(); }

std::vector<std::string> types_of(const Json& schema, const std::string& path) {
  if (!schema.contains("type")) {
    // Keywords of one type say that it is meant, as everyone who leaves the type out means it.
    const auto has_one_of = [&](std::initializer_list<const char*> keywords) {
      return std::ranges::any_of(keywords, [&](const char* keyword) { return schema.contains(keyword); });
    };
    if (has_one_of({"properties", "required", "additionalProperties", "propertyNames", "patternProperties"}))
      return {"object"};
    if (has_one_of({"items", "prefixItems", "uniqueItems"})) return {"array"};
    if (has_one_of({"pattern", "minLength", "maxLength"})) return {"string"};
    if (has_one_of({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) return {"number"};
    return {"string", "number", "object", "array", "boolean", "null"};
  }
  const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  std::vector<std::string> types;
  for (const Json& name : list) {
    if (!name.is_string() || std::ranges::find(kTypeNames, name.get<std::string>()) == kTypeNames.end()) {
      malformed(path, "type", name, fmt::format("{}", fmt::join(kTypeNames, ", ")));
    }
    const auto& type = name.get_ref<const std::string&>();
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
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
  return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
}

void malformed(const std::string& path, std::string_view keyword, const Json& found, std::string_view allowed) {
  constexpr size_t kShownMax = 60;
  std::string text = found.is_array() ? "a list" : found.is_object() ? "an object" : found.dump();
  if ((found.is_array() || found.is_object()) && found.empty()) text = found.dump();
  if (text.size() > kShownMax) text = found.is_string() ? "a long string" : "a long number";
  fail(ErrorCode::InvalidArgument, "JSON schema, {}: '{}' is {}, allowed: {}", path, keyword, text, allowed);
}

void SchemaRoot::leave_out(const std::string& path, std::string_view message) const {
  if (strict) fail(ErrorCode::Unsupported, "JSON schema, {}: {}", path, message);
}

std::optional<int64_t> count_of(const Json& schema, const char* keyword, const std::string& path) {
  if (!schema.contains(keyword)) return {};
  const Json& value = schema[keyword];
  const double count = value.is_number() ? value.get<double>() : -1;
  if (count < 0 || std::trunc(count) != count) malformed(path, keyword, value, "a whole number from 0 on");
  constexpr double kCountMax = 1e15;  // more than any text has
  return static_cast<int64_t>(std::min(count, kCountMax));
}

bool narrows_listed_values(std::string_view keyword) {
  return std::ranges::find(kNarrowing, keyword) != kNarrowing.end();
}

std::optional<Json> listed_values(const Json& schema, const std::string& path, const SchemaRoot& root) {
  Json listed = Json::array();
  if (schema.contains("const")) {
    listed.push_back(schema["const"]);
  } else if (schema.contains("enum")) {
    listed = schema["enum"];
  } else if (schema.contains("type") && schema["type"] == "boolean") {
    return Json::array({true, false});
  } else if (schema.contains("type") && schema["type"] == "null") {
    return Json::array({nullptr});
  } else {
    return {};
  }
  // Without "type" what is said of strings says nothing of numbers.
  const auto types = types_of(schema.contains("type") ? Json{{"type", schema["type"]}} : Json::object(), path);
  const ListedFilter filter(schema, path, root);
  Json values = Json::array();
  for (Json& value : listed) {
    if (std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); }) &&
        filter.keeps(value))
      values.push_back(std::move(value));
  }
  return values;
}

const Json& resolve_reference(const SchemaRoot& root, const std::string& reference, const std::string& path) {
  static const Json kAnything = true;
  if (reference == "#") return root.schema;
  if (!reference.starts_with("#/")) {
    root.leave_out(path, "reference '" + reference + "' is not supported, only: #/...");
    return kAnything;
  }
  try {
    Json::json_pointer place(percent_decoded(reference.substr(1)));
    const Json& found = root.schema.at(place);
    while (!place.empty()) {  // each part was looked up among its neighbours
      place.pop_back();
      root.budget.charge(1 + root.schema.at(place).size() / kComparedPerStep);
    }
    return found;
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: reference '{}' points to nothing", path, reference);
  }
}

Json flat_schema(const Json& schema, const std::string& path, const SchemaRoot& root, int depth) {
  root.budget.charge(steps_of(schema) + path.size() / Budget::kBytesPerStep);
  if (depth > limits::kGrammarDepthMax) {
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: nested deeper than {} levels", path, limits::kGrammarDepthMax);
  }
  if (schema.is_boolean()) return schema;
  if (!schema.is_object())
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: a schema is an object or a boolean", path);
  check_kinds(schema, path);
  Json rest = with_prefix_items(schema);
  if (schema.contains("$ref")) {
    rest.erase("$ref");
    const Json& referred = resolve_reference(root, schema["$ref"].get<std::string>(), path);
    return merge_schemas(rest, referred, path, root, depth + 1);
  }
  if (!schema.contains("allOf")) return rest;
  rest.erase("allOf");
  for (size_t i = 0; i < schema["allOf"].size(); ++i) {
    rest = merge_schemas(rest, schema["allOf"][i], fmt::format("{}/allOf/{}", path, i), root, depth + 1);
  }
  return rest;
}

Json merge_schemas(const Json& left, const Json& right, const std::string& path, const SchemaRoot& root, int depth) {
  if (left.is_boolean() || right.is_boolean()) {
    const bool is_left = left.is_boolean() ? !left.get<bool>() : right.get<bool>();
    const Json& stays = is_left ? left : right;
    root.budget.charge(steps_of(stays));
    return stays;
  }
  const Json mine = flat_schema(left, path, root, depth);
  const Json theirs = flat_schema(right, path, root, depth);
  if (mine.is_boolean() || theirs.is_boolean()) return merge_schemas(mine, theirs, path, root, depth + 1);
  Json merged = mine;
  for (const auto& [keyword, value] : theirs.items()) {
    root.budget.charge(1 + merged.size() / kComparedPerStep);
    if (!merged.contains(keyword)) {
      merged[keyword] = value;
    } else if (is_annotation(keyword) || keyword == "properties" || keyword == "prefixItems" ||
               merged[keyword] == value) {
      continue;
    } else if (keyword == "type") {
      merged[keyword] = common_types(merged[keyword], value, path);
      if (merged[keyword].empty()) return false;
    } else if (keyword == "const") {
      return false;
    } else if (keyword == "required") {
      charge_comparisons(value, merged[keyword], root.budget);
      charge_comparisons(value, value, root.budget);
      merged[keyword] = united(merged[keyword], value);
    } else if (keyword == "enum") {
      charge_comparisons(merged[keyword], value, root.budget);
      merged[keyword] = intersected(merged[keyword], value);
      if (merged[keyword].empty()) return false;
    } else if (keyword == "uniqueItems") {
      merged[keyword] = true;  // one says so
    } else if (keyword == "items" || keyword == "additionalProperties" || keyword == "propertyNames") {
      merged[keyword] = merge_schemas(merged[keyword], value, path + "/" + keyword, root, depth + 1);
    } else if (keyword.starts_with("min") || keyword == "exclusiveMinimum") {
      if (is_smaller(merged[keyword], value)) merged[keyword] = value;
    } else if (keyword.starts_with("max") || keyword == "exclusiveMaximum") {
      if (is_smaller(value, merged[keyword])) merged[keyword] = value;
    } else {
      root.leave_out(path, "keyword '" + keyword + "' twice, in schemas that must hold at once, is not supported");
    }
  }
  // Names that only one side's patterns match would have to be what the other says about additional ones.
  const auto clash = [](const Json& left_side, const Json& right_side) {
    return left_side.contains("patternProperties") &&
           right_side.value("additionalProperties", Json(true)) != Json(true);
  };
  if (clash(mine, theirs) || clash(theirs, mine)) {
    root.leave_out(path,
                   "keyword 'patternProperties' beside 'additionalProperties', in schemas that must hold at once, "
                   "is not supported");
  }
  const PartMerger parts(mine, theirs, path, root, depth);
  if (merged.contains("properties")) merged["properties"] = parts.properties();
  if (merged.contains("prefixItems")) merged["prefixItems"] = parts.prefix_items();
  return merged;
}

}  // namespace inflight::grammar
