// SPDX-License-Identifier: Apache-2.0
// What a schema says about an object's properties, by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/grammar_dfa.h"
#include "text/grammar_json_merge.h"

namespace inflight::grammar {

// A property that has a place of its own in the text.
struct Property {
  std::string name;
  Json value;  // a schema
  std::string path;
  bool required = false;
};

// Further properties, whose values one schema says.
struct OtherProperties {
  std::optional<Dfa> names;  // nothing: all that are not taken
  Json value;
  std::string path;
};

struct ObjectParts {
  std::vector<Property> properties;     // in the text's order
  std::vector<std::string> taken;       // names that others do not have: of these, and of what is not allowed
  std::vector<OtherProperties> others;  // with different names
  std::optional<int64_t> max;           // how many may be written of both; nothing: all
  bool is_never_empty = false;
};

// "properties", "required", "additionalProperties", "patternProperties", "propertyNames" (names that it lists have a
// place each), "minProperties" and "maxProperties".   ERRORS: those of SchemaRoot::leave_out() and merge_schemas();
// InvalidArgument for what is no schema.
[[nodiscard]] ObjectParts read_object(const Json& given, const std::string& path, const SchemaRoot& root);

}  // namespace inflight::grammar
