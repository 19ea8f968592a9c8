// SPDX-License-Identifier: Apache-2.0
// JSON schemas (draft 2020-12's usual part, and draft 7's tuples) as grammars of the documents that satisfy them.
//
// Documents are written with properties in the schema's order; between tokens stands nothing, one space, or a newline
// with up to 40 blanks. Every text that a grammar gives satisfies the schema; of the satisfying documents those are not
// given that have properties in another order, undeclared properties where "properties" or "patternProperties" is there
// and "additionalProperties" is not, numbers in unusual spellings (1.0 for an integer or a constant 1, exponents within
// bounds), long ones where a length stands beside a pattern (of_length()); and where keywords of one type stand without
// "type", that type is meant.
//
// Known: type, enum, const, properties, required, additionalProperties, patternProperties, propertyNames (a list, or
// what strings may have), minProperties (where it follows from the rest, or 1), maxProperties (beside up to 128
// properties), items, prefixItems, minItems, maxItems, uniqueItems (of up to 8 listed values), minLength,
// maxLength, pattern, format (format_pattern(); others are annotations), minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, multipleOf, $ref within the document, $defs, anyOf, oneOf (where its alternatives are seen to
// exclude each other), allOf (merged).
#pragma once

#include <string_view>

#include "text/element_form.h"
#include "text/grammar_json_text.h"
#include "text/grammar_program.h"
#include "text/member_form.h"

namespace inflight::grammar {

// strict: documents satisfy the whole schema; else what is not supported is left out of it.
// ERRORS: InvalidArgument for what is no JSON or no schema; Unsupported, if strict, naming the keyword and its place,
// such as
//         "JSON schema, #/properties/a: keyword 'not' is not supported"; those of Budget::charge().
[[nodiscard]] Program compile_json_schema(std::string_view schema, bool strict, Budget& budget);

// The same as a part of a larger grammar. References within the schema are to its own root.
// REQUIRES: the schema is nested at most kJsonDepthMax deep.
[[nodiscard]] NodeId json_document(Builder& builder, JsonText& text, const Json& schema, bool strict);

// The same for an object's members as elements, in the schema's order. Strings do not hold `close` without the blanks
// around it; a string of any text may also end with it without those before it.
// Python's words stand only where no string is allowed. Undeclared members have names of letters, digits, "_", "-" and
// ".".   REQUIRES: as above; the schema has "type".
[[nodiscard]] NodeId json_elements(Builder& builder, JsonText& text, const Json& schema, bool strict,
                                   const ElementForm& form);

// The same as members. Undeclared ones have such names, too. Between long quotes strings do not hold the quote.
// REQUIRES: as above; `text` has the spelling of `form`.
[[nodiscard]] NodeId json_members(Builder& builder, JsonText& text, const Json& schema, bool strict,
                                  const MemberForm& form);

}  // namespace inflight::grammar
