// SPDX-License-Identifier: Apache-2.0
// Schemas as data: which keywords there are, where references point, and two schemas that must hold at once as one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_json_text.h"

namespace inflight::grammar {

// What references point into, and what work is charged to.   LIFETIME: both are borrowed.
struct SchemaRoot {
  const Json& schema;
  Budget& budget;
};

// What copying a value, or comparing it with another one, costs in the budget's steps.
[[nodiscard]] size_t steps_of(const Json& value);
// For comparing each of `left` with each of `right`; for looking a property up in two schemas, which goes by one after
// the other.
void charge_comparisons(const Json& left, const Json& right, Budget& budget);
void charge_look_ups(const Json& left, const Json& right, Budget& budget);

[[nodiscard]] bool is_annotation(std::string_view keyword);  // says nothing about documents
[[nodiscard]] bool is_assertion(std::string_view keyword);   // understood

// The types that `schema` allows, each once, or all.  ERRORS: InvalidArgument for names that are none.
[[nodiscard]] std::vector<std::string> types_of(const Json& schema, const std::string& path);
[[nodiscard]] bool has_type(const Json& value, std::string_view type);

// What "#/a/b" points to.  ERRORS: Unsupported for other documents and anchors, InvalidArgument where nothing
// is; those of Budget::charge().
[[nodiscard]] const Json& resolve_reference(const SchemaRoot& root, const std::string& reference,
                                            const std::string& path);

// `schema` without "$ref" and "allOf", which are merged in, and with lists of items in their present form,
// "prefixItems".  ERRORS: as merge_schemas().
[[nodiscard]] Json flat_schema(const Json& schema, const std::string& path, const SchemaRoot& root, int depth = 0);

// A schema that holds where both do; false where none can.  ERRORS: Unsupported naming the keyword that cannot be
// merged; those of Budget::charge().
[[nodiscard]] Json merge_schemas(const Json& left, const Json& right, const std::string& path, const SchemaRoot& root,
                                 int depth = 0);

}  // namespace inflight::grammar
