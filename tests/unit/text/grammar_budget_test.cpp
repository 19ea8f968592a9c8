// SPDX-License-Identifier: Apache-2.0
// Goal: no text, however it is made, takes a compilation's stack, memory or time beyond what limits.h says; nor does
// one go on that nobody waits for. Method: each hostile text in a process of its own, with a limit on its processor
// time that is many times what it needs.
//
// Covers: base/bounded_json.cpp
#include "text/grammar_budget.h"

#include <gtest/gtest.h>

#include <iostream>
#include <stop_token>
#include <string>

#include "base/bounded_json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "model/model_loader.h"
#include "support/bounded_run.h"
#include "support/expect_error.h"
#include "support/test_data.h"
#include "text/grammar.h"
#include "text/grammar_tools.h"
#include "text/tokenizer.h"
#include "text/tool_call_format.h"

namespace inflight {
namespace {

const std::string kTooManySteps =
    fmt::format("the grammar needs more than {} steps to compile", grammar::Budget::kStepsMax);
const std::string kTooManyElements =
    fmt::format("the grammar has more than {} elements", limits::kGrammarInstructionsMax);
const std::string kTooManyInstructions =
    fmt::format("the grammar needs more than {} instructions", limits::kGrammarInstructionsMax);

// What comes of compiling: the error's text, or "compiled".
std::string outcome(GrammarKind kind, const std::string& text, const std::stop_token& stop = {}) {
  try {
    (void)compile_grammar(kind, text, stop);
  } catch (const Error& error) {
    return error.what();
  }
  return "compiled";
}

void expect_outcome(GrammarKind kind, const std::string& text, const std::string& expected) {
  SCOPED_TRACE(text.substr(0, 60));
  test::expect_bounded([&] {
    const std::string found = outcome(kind, text);
    std::cerr << found;
    return found == expected;
  });
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string nested_list(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// {"$ref": "#/$defs/d0", "$defs": {"d0": ..., "d1": ..., ...}}: `body` of each but the last one, where * is the next.
std::string definitions(size_t count, const std::string& body) {
  std::string schema = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (size_t i = 0; i < count; ++i) {
    const std::string next = fmt::format(R"({{"$ref": "#/$defs/d{}"}})", i + 1);
    schema += fmt::format(R"("d{}": )", i);
    for (const char letter : body) schema += letter == '*' ? next : std::string(1, letter);
    schema += ", ";
  }
  return schema + fmt::format(R"("d{}": {{"type": "object"}}}}}})", count);
}

TEST(GrammarBudget, JsonIsNestedAsDeepAsTheLimitSays) {
  const size_t most = kJsonDepthMax;
  EXPECT_EQ(parse_json(nested_list(most), "x").dump(), nested_list(most));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "x: nested deeper than 200 levels",
                        [&] { (void)parse_json(nested_list(most + 1), "x"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "x: ", [] { (void)parse_json("[1", "x"); });
}

TEST(GrammarBudget, ObjectsOfManyMembersAreRefused) {
  std::string members = R"("0": 0)";
  for (int i = 1; i < 200'000; ++i) members += fmt::format(R"(,"{}":0)", i);
  test::expect_bounded([&] {
    return test::error_of(ErrorCode::InvalidArgument, [&] { (void)parse_json("{" + members + "}", "x"); }) ==
           "x: objects of too many members";
  });
  std::string few = R"({"a": {"b": 1})";  // many in all
  for (int i = 0; i < 10'000; ++i) few += fmt::format(R"(, "{}": {{"a": {{}}, "b": 0}})", i);
  EXPECT_EQ(parse_json(few + "}", "x").size(), 10'001U);
}

TEST(GrammarBudget, DeepJsonIsRefused) {
  const std::string deep = nested_list(500'000);
  expect_outcome(GrammarKind::JsonSchema, R"({"const": )" + deep + "}", "JSON schema: nested deeper than 200 levels");
  test::expect_bounded([&] {
    const std::string tools = R"({"tools": [{"function": {"name": "f", "parameters": {"const": )" + deep + "}}}]}";
    return test::error_of(ErrorCode::InvalidArgument, [&] { (void)read_tool_request(tools); }) ==
           "structured_tools: nested deeper than 200 levels";
  });
  test::expect_bounded([&] {
    const std::string chat = R"({"messages": [{"role": "user", "content": )" + deep + "}]}";
    return test::error_of(ErrorCode::InvalidArgument, [&] { (void)adapt_to_format(ToolCallFormat{}, chat); }) ==
           "chat request: nested deeper than 200 levels";
  });
}

TEST(GrammarBudget, LongTextsAreNoRecursion) {
  const std::string letters(30'000, 'n');
  expect_outcome(GrammarKind::JsonSchema, R"({"properties": {")" + letters + R"(": {}}, "additionalProperties": true})",
                 kTooManyElements);
  std::string properties;
  for (int i = 0; i < 14'000; ++i) properties += fmt::format(R"({}"p{}": true)", i > 0 ? "," : "", i);
  expect_outcome(GrammarKind::JsonSchema, R"({"properties": {)" + properties + "}}", kTooManyInstructions);
  expect_outcome(GrammarKind::JsonSchema, R"({"prefixItems": [true)" + repeated(",true", 15'000) + "]}",
                 kTooManyInstructions);
  expect_outcome(GrammarKind::Gbnf, R"(root ::= "a")" + std::string(100'000, '?'), "compiled");
}

TEST(GrammarBudget, ReferencesAreNoRecursion) {
  expect_outcome(GrammarKind::JsonSchema, definitions(2'000, "*"), "compiled");
  expect_outcome(GrammarKind::JsonSchema, definitions(500, R"({"properties": {"a": *}})"), "compiled");
  expect_outcome(GrammarKind::JsonSchema, definitions(14'000, "*"), kTooManySteps);
}

TEST(GrammarBudget, ManyMergesAreTooMuch) {
  expect_outcome(GrammarKind::JsonSchema, definitions(30, R"({"allOf": [*, *]})"), kTooManySteps);
}

// A part that is repeated is compiled once, however large, however deep within others that are.
TEST(GrammarBudget, RepetitionsTakeTheRoomOfOnePart) {
  expect_outcome(GrammarKind::Regex, "(x" + repeated("()", 10'000) + "){10000}", "compiled");
  expect_outcome(GrammarKind::Regex, "(" + repeated("ab|", 10'000) + "){10000}", "compiled");
  expect_outcome(GrammarKind::Regex, "(((x{9999}){9999}){9999}){9999}", "compiled");
  const std::string text = R"({"type": "string", "maxLength": 65535})";
  const std::string object = R"({"properties": {"a": )" + text + R"(, "b": )" + text + R"(, "c": )" + text + "}}";
  expect_outcome(GrammarKind::JsonSchema,
                 R"({"type": "array", "minItems": 1, "maxItems": 1000000, "items": )" + object + "}", "compiled");
}

TEST(GrammarBudget, AutomataAreNotTooLarge) {
  const std::string too_large = "JSON schema, #: an automaton of more than 10000 states is not supported";
  expect_outcome(GrammarKind::JsonSchema, R"({"pattern": "(a|b)*a(a|b){500}", "minLength": 3})", too_large);
  expect_outcome(GrammarKind::LenientJsonSchema, R"({"pattern": "(a|b)*a(a|b){500}", "minLength": 3})", "compiled");
  expect_outcome(GrammarKind::JsonSchema, R"({"format": "uri", "minLength": 1, "maxLength": 2083})", "compiled");
  expect_outcome(
      GrammarKind::JsonSchema,
      R"({"type": "integer", "multipleOf": 997, "minimum": -123456789012345678, "maximum": 123456789012345678})",
      too_large);
  std::string patterns;
  for (int i = 0; i < 30; ++i) patterns += fmt::format(R"({}"[a-z]{{{}}}": true)", i > 0 ? "," : "", i % 5 + 1);
  for (int i = 0; i < 30; ++i) patterns += fmt::format(R"(,"x{}": true)", i);  // in any of 2^30 combinations
  expect_outcome(GrammarKind::JsonSchema, R"({"patternProperties": {)" + patterns + "}}", kTooManySteps);
}

TEST(GrammarBudget, LargeClassesAndListsAreQuick) {
  std::string letters;
  for (char32_t letter = 0x20000; letter < 0x40000; letter += 2) append_utf8(letters, letter);
  expect_outcome(GrammarKind::Regex, "[" + letters + "]", "compiled");
  expect_outcome(GrammarKind::Gbnf, "root ::= [" + letters + "]", "compiled");
  std::string numbers = "0";
  for (int i = 1; i < 9000; ++i) numbers += fmt::format(",{}", i);
  expect_outcome(GrammarKind::JsonSchema, R"({"enum": [)" + numbers + "]}", "compiled");
}

// 1,600 places of 240,000 alternatives that are the same one: what is learned ahead has an end, too.
TEST(GrammarBudget, EqualAlternativesAreQuick) {
  const std::string text = "root ::= r{0,1600}\nr ::= \"a\"" + repeated("|\"a\"", 240'000) + "\n";
  const auto tokenizer = Tokenizer::create(load_vocabulary(test::kDemoModel));
  test::expect_bounded([&] {
    GrammarStore store(tokenizer->vocabulary(), {0});
    return store.matcher(GrammarKind::Gbnf, text)->try_accept_text("aaa");
  });
}

// One letter after another is forced, and each opens 600,000 places to look at.
TEST(GrammarBudget, SlowTextsAreNotFollowedFar) {
  const std::string text = "(a(" + repeated("|", 400) + "){0,1500}){600}b";
  const auto tokenizer = Tokenizer::create(load_vocabulary(test::kDemoModel));
  test::expect_bounded([&] {
    GrammarStore store(tokenizer->vocabulary(), {0});
    return store.matcher(GrammarKind::Regex, text)->forced_text() == "a";
  });
  test::expect_bounded([&] {
    GrammarStore store(tokenizer->vocabulary(), {0});
    const auto matcher = store.matcher(GrammarKind::Regex, text);
    return matcher->try_accept_text("aaa") &&
           test::error_of(ErrorCode::InvalidArgument, [&] { (void)matcher->try_accept_text(std::string(500, 'a')); }) ==
               fmt::format("following the grammar through one token takes more than {} steps", limits::kGrammarWorkMax);
  });
}

TEST(GrammarBudget, AStopEndsACompilation) {
  std::stop_source stop;
  const std::string endless = definitions(30, R"({"allOf": [*, *]})");
  stop.request_stop();
  INFLIGHT_EXPECT_ERROR(ErrorCode::Rejected, "nobody waits for the grammar any more",
                        [&] { (void)compile_grammar(GrammarKind::JsonSchema, endless, stop.get_token()); });
  for (const char* const schema :
       {R"({"pattern": "^a+$", "minLength": 2})", R"({"multipleOf": 7})", R"({"patternProperties": {"a": {}}})"}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::Rejected, "nobody waits for the grammar any more",
                          [&] { (void)compile_grammar(GrammarKind::LenientJsonSchema, schema, stop.get_token()); });
  }
}

}  // namespace
}  // namespace inflight
