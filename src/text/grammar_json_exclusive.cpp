// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_exclusive.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace inflight::grammar {
namespace {

constexpr int kDepthMax = 8;  // deeper, a difference is not looked for

// What satisfies the least of `mins` and the most of `maxs`, each keyword with whether it excludes the bound itself.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false, max_open = false;

  [[nodiscard]] bool ends_before(const Range& other) const {
    constexpr double kExactMax = 1LL << 53U;  // of larger integers several are one double
    return max < other.min || (max == other.min && std::abs(max) < kExactMax && (max_open || other.min_open));
  }
};

Range range_of(const Json& schema, std::initializer_list<std::pair<const char*, bool>> mins,
               std::initializer_list<std::pair<const char*, bool>> maxs) {
  Range range;
  const auto number = [&](const char* keyword) -> std::optional<double> {
    return schema.contains(keyword) && schema[keyword].is_number() ? std::optional(schema[keyword].get<double>())
                                                                   : std::nullopt;
  };
  for (const auto& [keyword, open] : mins) {
    if (const auto value = number(keyword); value && *value >= range.min) range.min = *value, range.min_open = open;
  }
  for (const auto& [keyword, open] : maxs) {
    if (const auto value = number(keyword); value && *value <= range.max) range.max = *value, range.max_open = open;
  }
  return range;
}

Range range_of(const Json& schema, const std::string& type) {
  if (type == "string") return range_of(schema, {{"minLength", false}}, {{"maxLength", false}});
  if (type == "array") return range_of(schema, {{"minItems", false}}, {{"maxItems", false}});
  if (type == "number" || type == "integer") {
    return range_of(schema, {{"minimum", false}, {"exclusiveMinimum", true}},
                    {{"maximum", false}, {"exclusiveMaximum", true}});
  }
  return {};
}

std::set<std::string> required_of(const Json& schema) {
  std::set<std::string> names;
  if (schema.contains("required")) {
    for (const Json& name : schema["required"]) names.insert(name.get<std::string>());
  }
  return names;
}

// What property `name` may be; undeclared: what stands for those that no schema declares.
Json property_of(const Json& schema, const std::string& name, bool undeclared) {
  if (schema.contains("properties") && schema["properties"].contains(name)) return schema["properties"][name];
  if (schema.contains("patternProperties")) return true;  // one of them may match
  return schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(undeclared);
}

bool objects_never_both(const Json& written, const Json& other, const std::string& path, const SchemaRoot& root,
                        int depth) {
  const bool written_undeclared = !written.contains("properties") || written["properties"].empty();
  const auto always = required_of(written);
  const auto wanted = required_of(other);
  std::set<std::string> names = always;
  names.insert(wanted.begin(), wanted.end());
  return std::ranges::any_of(names, [&](const std::string& name) {
    charge_look_ups(written, other, root.budget);
    // A required one that nothing declares is written with any value.
    const Json mine = property_of(written, name, written_undeclared || always.contains(name));
    return never_both(mine, property_of(other, name, true), path + "/properties/" + name, root, depth + 1);
  });
}

// Whether a document of `type` cannot satisfy both.
bool type_never_both(const Json& written, const Json& other, const std::string& type, const std::string& path,
                     const SchemaRoot& root, int depth) {
  if (type == "object") return objects_never_both(written, other, path, root, depth);
  const Range mine = range_of(written, type);
  const Range theirs = range_of(other, type);
  return mine.ends_before(theirs) || theirs.ends_before(mine);
}

// The schemas one of which a document of `schema` satisfies.
std::vector<Json> branches_of(const Json& schema, const std::string& path, const SchemaRoot& root) {
  for (const char* const keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword) || !schema[keyword].is_array()) continue;
    Json rest = schema;
    rest.erase(keyword);
    std::vector<Json> branches;
    for (const Json& branch : schema[keyword]) branches.push_back(merge_schemas(rest, branch, path, root));
    return branches;
  }
  return {};
}

}  // namespace

bool never_both(const Json& written, const Json& other, const std::string& path, const SchemaRoot& root, int depth) {
  root.budget.charge(steps_of(written) + steps_of(other) + path.size() / Budget::kBytesPerStep);
  if (written == Json(false) || other == Json(false)) return true;
  if (depth > kDepthMax) return false;
  const Json mine = written.is_boolean() ? Json::object() : flat_schema(written, path, root);
  const Json theirs = other.is_boolean() ? Json::object() : flat_schema(other, path, root);
  if (mine.is_boolean() || theirs.is_boolean()) return never_both(mine, theirs, path, root, depth + 1);
  if (const auto branches = branches_of(mine, path, root); !branches.empty()) {
    return std::ranges::all_of(branches,
                               [&](const Json& branch) { return never_both(branch, theirs, path, root, depth + 1); });
  }
  if (const auto branches = branches_of(theirs, path, root); !branches.empty()) {
    return std::ranges::all_of(branches,
                               [&](const Json& branch) { return never_both(mine, branch, path, root, depth + 1); });
  }
  const auto my_values = listed_values(mine, path, root);
  const auto their_values = listed_values(theirs, path, root);
  if (my_values && their_values) {
    charge_comparisons(*my_values, *their_values, root.budget);
    return std::ranges::none_of(
        *my_values, [&](const Json& value) { return std::ranges::find(*their_values, value) != their_values->end(); });
  }
  // A keyword says nothing about documents of other types, so `other` allows every type that it does not exclude.
  const Json all_types = theirs.contains("type") ? Json{{"type", theirs["type"]}} : Json::object();
  const auto their_types = types_of(all_types, path);
  const auto is_of = [](const std::string& type, const std::vector<std::string>& types) {
    return std::ranges::any_of(types, [&](const std::string& one) {
      return one == type || (one == "number" && type == "integer") || (one == "integer" && type == "number");
    });
  };
  if (my_values || their_values) {
    const auto types = my_values ? their_types : types_of(mine, path);
    return std::ranges::none_of(my_values ? *my_values : *their_values, [&](const Json& value) {
      return std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); });
    });
  }
  return std::ranges::all_of(types_of(mine, path), [&](const std::string& type) {
    return !is_of(type, their_types) || type_never_both(mine, theirs, type, path, root, depth);
  });
}

}  // namespace inflight::grammar
