// SPDX-License-Identifier: Apache-2.0
// Goal: "oneOf" is compiled only where its alternatives exclude each other, for each of the reasons there are, and is
// refused in one line where they may not. What exclusion means is written down by hand, a document for each overlap.
#include "text/grammar_json_exclusive.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "text/grammar.h"

namespace inflight {
namespace {

bool exclude(const char* left, const char* right) {
  const auto a = grammar::Json::parse(left);
  const auto b = grammar::Json::parse(right);
  const auto defined = grammar::Json::parse(R"({"$defs": {"text": {"type": "string"}}})");
  grammar::Budget budget;
  const grammar::SchemaRoot root{defined, budget};
  return grammar::never_both(a, b, "#", root) && grammar::never_both(b, a, "#", root);
}

TEST(GrammarJsonExclusive, ReasonsToExcludeEachOther) {
  EXPECT_TRUE(exclude(R"({"type": "string"})", R"({"type": ["null", "array"]})"));
  EXPECT_TRUE(exclude(R"({"$ref": "#/$defs/text"})", R"({"type": "null"})"));
  EXPECT_TRUE(exclude("false", "true"));
  EXPECT_TRUE(exclude(R"({"const": 1})", R"({"enum": [2, "1"]})"));
  EXPECT_TRUE(exclude(R"({"enum": ["a", 1], "type": "string"})", R"({"type": "integer"})"));
  EXPECT_TRUE(exclude(R"({"type": "number", "maximum": 2})", R"({"type": "integer", "minimum": 3})"));
  EXPECT_TRUE(exclude(R"({"type": "number", "exclusiveMaximum": 2})", R"({"type": "number", "minimum": 2})"));
  EXPECT_TRUE(exclude(R"({"type": "string", "maxLength": 2})", R"({"type": "string", "minLength": 3})"));
  EXPECT_TRUE(exclude(R"({"type": "array", "maxItems": 0})", R"({"type": "array", "minItems": 1})"));
  EXPECT_TRUE(exclude(R"({"properties": {"k": {"const": "a"}}, "required": ["k"], "type": "object"})",
                      R"({"properties": {"k": {"const": "b"}}, "required": ["k"], "type": "object"})"));
  EXPECT_TRUE(exclude(R"({"type": "object", "properties": {"a": {}}, "required": ["a"]})",
                      R"({"type": "object", "properties": {"b": {}}, "required": ["b"]})"));
  EXPECT_TRUE(exclude(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", R"({"oneOf": [{"type": "boolean"}]})"));
}

TEST(GrammarJsonExclusive, OverlapsAreSeen) {
  EXPECT_FALSE(exclude(R"({"type": "integer"})", R"({"type": "number"})"));                             // 1
  EXPECT_FALSE(exclude(R"({"type": "integer"})", R"({"minimum": 2})"));                                 // 2
  EXPECT_FALSE(exclude(R"({"const": 1})", R"({"enum": [1.0]})"));                                       // 1
  EXPECT_FALSE(exclude(R"({"const": "a"})", "true"));                                                   // "a"
  EXPECT_FALSE(exclude(R"({"type": "number", "maximum": 2})", R"({"type": "number", "minimum": 2})"));  // 2
  EXPECT_FALSE(exclude(R"({"type": "integer", "exclusiveMaximum": 9223372036854775807})",
                       R"({"type": "integer", "minimum": 9223372036854775806})"));  // 9223372036854775806
  EXPECT_FALSE(exclude(R"({"type": "string", "minLength": 2})", R"({"type": "string", "maxLength": 4})"));  // "abc"
  EXPECT_FALSE(exclude(R"({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]})",
                       R"({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]})"));  // both
  EXPECT_FALSE(
      exclude(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]})",
              R"({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["a", "b"]})"));  // 1, 2
  EXPECT_FALSE(exclude(R"({"type": "object", "properties": {"k": {"const": "a"}}})",
                       R"({"type": "object", "properties": {"k": {"const": "b"}}})"));  // {}
  EXPECT_FALSE(
      exclude(R"({"type": "object", "required": ["a"]})", R"({"type": "object", "required": ["b"]})"));    // both
  EXPECT_FALSE(exclude(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", R"({"type": "string"})"));  // ""
  EXPECT_FALSE(exclude(R"({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": false})",
                       R"({"type": "object", "required": ["x1"]})"));              // {"x1": 0}
  EXPECT_FALSE(exclude(R"({"type": "string"})", R"({"properties": {"a": {}}})"));  // no type: "" satisfies it
}

TEST(GrammarJsonExclusive, RefusesWhatMayOverlap) {
  const auto refusal = [](const std::string& schema) {
    return test::error_of(ErrorCode::Unsupported, [&] { (void)compile_grammar(GrammarKind::JsonSchema, schema); });
  };
  EXPECT_EQ(refusal(R"({"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "integer"}, {"type": "number"}]}}})"),
            "JSON schema, #/properties/a: keyword 'oneOf' is not supported where a document may satisfy two "
            "alternatives, here 1 and 2; say 'anyOf' where that is meant");
  EXPECT_EQ(refusal(R"({"properties": {"a": {"$id": "http://x/y"}}})"),
            "JSON schema, #/properties/a: keyword '$id' is not supported");
}

}  // namespace
}  // namespace inflight
