// SPDX-License-Identifier: Apache-2.0
// JSON schemas (draft 2020-12's usual part, and draft 7's tuples) as grammars of the documents that satisfy them.
//
// Documents are written with properties in the schema's order; between tokens stands nothing, one space, or a newline
// with up to 40 blanks. Every text that a grammar gives satisfies the schema; of the satisfying documents those are not
// given that have properties in another order, undeclared properties where "properties" is there and
// "additionalProperties" is not, numbers in unusual spellings (1.0 for an integer or a constant 1, exponents within
// bounds); and where keywords of one type stand without "type", that type is meant.
//
// Known: type, enum, const, properties, required, additionalProperties, minProperties/maxProperties (where they follow
// from the rest), items, prefixItems, minItems, maxItems, minLength, maxLength, pattern, format (date, time, date-time,
// uuid, ipv4, email; others are annotations), minimum, maximum, exclusiveMinimum, exclusiveMaximum, $ref within the
// document, $defs, anyOf, oneOf (where its alternatives are seen to exclude each other), allOf (merged).
#pragma once

#include <string_view>

#include "text/grammar_json_text.h"
#include "text/grammar_program.h"

namespace inflight::grammar {

// ERRORS: InvalidArgument for what is no JSON or no schema; Unsupported naming the keyword and its place, such as
//         "JSON schema, #/properties/a: keyword 'not' is not supported"; those of Budget::charge().
[[nodiscard]] Program compile_json_schema(std::string_view schema, Budget& budget);

// The same as a part of a larger grammar. References within the schema are to its own root.
// REQUIRES: the schema is nested at most kJsonDepthMax deep.
[[nodiscard]] NodeId json_document(Builder& builder, JsonText& text, const Json& schema);

}  // namespace inflight::grammar
