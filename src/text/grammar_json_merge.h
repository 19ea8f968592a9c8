// SPDX-License-Identifier: Apache-2.0
// Schemas as data: which keywords there are, where references point, and two schemas that must hold at once as one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "text/grammar_json_text.h"

namespace inflight::grammar {

// What references point into, and what work is charged to.   LIFETIME: both are borrowed.
struct SchemaRoot {
  const Json& schema;
  Budget& budget;
  bool strict = true;  // nothing is left out

  // What at `path` cannot be kept, said in `message`: strict, an error; else the caller goes on without it.
  // ERRORS: Unsupported "JSON schema, PATH: MESSAGE".
  void leave_out(const std::string& path, std::string_view message) const;
};

// What `keyword` at `path` says is none of what is allowed.   ERRORS: InvalidArgument "JSON schema, #/properties/a:
// 'minItems' is -1, allowed: a whole number from 0 on".
[[noreturn]] void malformed(const std::string& path, std::string_view keyword, const Json& found,
                            std::string_view allowed);

// What copying a value, or comparing it with another one, costs in the budget's steps.
[[nodiscard]] size_t steps_of(const Json& value);
// For comparing each of `left` with each of `right`; for looking a property up in two schemas, which goes by one after
// the other.
void charge_comparisons(const Json& left, const Json& right, Budget& budget);
void charge_look_ups(const Json& left, const Json& right, Budget& budget);

// What `make` gives; nothing where that is Unsupported and left out.   ERRORS: others than this, with `path`.
template <typename Make>
[[nodiscard]] std::optional<std::invoke_result_t<Make>> kept(const SchemaRoot& root, const std::string& path,
                                                             Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported) fail(error.code(), "JSON schema, {}: {}", path, error.what());
    root.leave_out(path, error.what());
    return {};
  }
}

[[nodiscard]] bool is_annotation(std::string_view keyword);  // says nothing about documents
[[nodiscard]] bool is_assertion(std::string_view keyword);   // understood

// The types that `schema` allows, each once, or all.  ERRORS: InvalidArgument for names that are none.
[[nodiscard]] std::vector<std::string> types_of(const Json& schema, const std::string& path);
[[nodiscard]] bool has_type(const Json& value, std::string_view type);

// The whole number >= 0 that `keyword` says, if it is there.   ERRORS: InvalidArgument for what is none.
[[nodiscard]] std::optional<int64_t> count_of(const Json& schema, const char* keyword, const std::string& path);

// Whether listed_values() keeps to `keyword`.
[[nodiscard]] bool narrows_listed_values(std::string_view keyword);
// The values that `schema` lists in "const" or "enum", those that satisfy its type and what it says of numbers and
// strings, or that are all of its type; nothing where it says none of this.   ERRORS: those of kept().
[[nodiscard]] std::optional<Json> listed_values(const Json& schema, const std::string& path, const SchemaRoot& root);

// What "#/a/b" points to; what allows everything where other documents and anchors are left out.
// ERRORS: those of leave_out(); InvalidArgument where nothing is; those of Budget::charge().
[[nodiscard]] const Json& resolve_reference(const SchemaRoot& root, const std::string& reference,
                                            const std::string& path);

// `schema` without "$ref" and "allOf", which are merged in, and with lists of items in their present form,
// "prefixItems". What it says of strings, lists and objects is of the right kind.
// ERRORS: as merge_schemas(); InvalidArgument for what is not.
[[nodiscard]] Json flat_schema(const Json& schema, const std::string& path, const SchemaRoot& root, int depth = 0);

// A schema that holds where both do; false where none can.  ERRORS: those of leave_out() for a keyword that cannot be
// merged; those of Budget::charge().
[[nodiscard]] Json merge_schemas(const Json& left, const Json& right, const std::string& path, const SchemaRoot& root,
                                 int depth = 0);

}  // namespace inflight::grammar
