// SPDX-License-Identifier: Apache-2.0
// Schemas as data: which keywords there are, where references point, and two schemas that must hold at once as one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_json_text.h"

namespace inflight::grammar {

[[nodiscard]] bool is_annotation(std::string_view keyword);  // says nothing about documents
[[nodiscard]] bool is_assertion(std::string_view keyword);   // understood

// The types that `schema` allows, or all.  ERRORS: InvalidArgument for names that are none.
[[nodiscard]] std::vector<std::string> types_of(const Json& schema, const std::string& path);
[[nodiscard]] bool has_type(const Json& value, std::string_view type);

// What "#/a/b" points to.  ERRORS: Unsupported for other documents and anchors, InvalidArgument where nothing is.
[[nodiscard]] const Json& resolve_reference(const Json& root, const std::string& reference, const std::string& path);

// `schema` without "$ref" and "allOf", which are merged in, and with lists of items in their present form,
// "prefixItems".
[[nodiscard]] Json flat_schema(const Json& schema, const std::string& path, const Json& root, int depth = 0);

// A schema that holds where both do; false where none can.  ERRORS: Unsupported naming the keyword that cannot be
// merged.
[[nodiscard]] Json merge_schemas(const Json& left, const Json& right, const std::string& path, const Json& root,
                                 int depth = 0);

}  // namespace inflight::grammar
