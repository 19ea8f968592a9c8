// SPDX-License-Identifier: Apache-2.0
// Masks against the definition (a token is allowed when its bytes can follow), the parsers against small texts, errors.
// What JSON schemas mean is tests/python_text/schema_test.py's to say, with python's jsonschema.
//
// Covers: text/grammar.cpp, text/grammar_automaton.cpp, text/grammar_program.cpp, text/grammar_regex.cpp
//
// Covers: text/grammar_gbnf.cpp, text/grammar_numbers.cpp, text/grammar_json.cpp, text/grammar_json_text.cpp
//
// Covers: text/grammar_json_merge.cpp, text/grammar_json_object.cpp, text/grammar_json_number.cpp, text/token_trie.cpp
#include "text/grammar.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/test_data.h"
#include "text/tokenizer.h"

namespace inflight {
namespace {

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150},)"
    R"( "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}}, "next": {"$ref": "#"}}, "required": ["name"]})";

class GrammarTest : public testing::Test {
 protected:
  [[nodiscard]] bool gives(GrammarKind kind, const std::string& grammar, const std::string& text) {
    const auto matcher = store_.matcher(kind, grammar);
    return matcher->try_accept_text(text) && matcher->is_complete();
  }
  std::vector<uint32_t> mask_of(TokenFilter& matcher) const {
    std::vector<uint32_t> mask(static_cast<size_t>(vocabulary_.size() + 31) / 32);
    matcher.allow(mask);
    return mask;
  }
  static bool has(const std::vector<uint32_t>& mask, TokenId id) {
    return (mask[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32U) & 1U) != 0;
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(load_vocabulary(test::kDemoModel));
  const Vocabulary& vocabulary_ = tokenizer_->vocabulary();
  const TokenId end_ = *vocabulary_.eos();
  GrammarStore store_{vocabulary_, {end_}};
};

TEST_F(GrammarTest, MasksAreWhatCanFollow) {
  const std::vector<std::pair<GrammarKind, std::string>> grammars{
      {GrammarKind::JsonObject, ""},
      {GrammarKind::JsonSchema, kPerson},
      {GrammarKind::Regex, "(ab|the|[^a-f]{1,3})*\\.( [A-Z][a-z]+)?"},
      {GrammarKind::Gbnf, "root ::= \"(\" root* \")\" tail?\ntail ::= [a-zé字] | tail2 \"the\"\ntail2 ::= \"x\"?"},
  };
  std::mt19937 random(5);
  for (const auto& [kind, text] : grammars) {
    for (int round = 0; round < 6; ++round) {
      const auto matcher = store_.matcher(kind, text);
      for (int step = 0; step < 30 && !matcher->is_ended(); ++step) {
        const auto mask = mask_of(*matcher);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < vocabulary_.size(); ++id) {
          GrammarMatcher copy(*matcher);
          const bool can = copy.try_accept(id);
          ASSERT_EQ(has(mask, id), can) << text << ": token '" << vocabulary_.bytes(id) << "' at step " << step;
          if (can) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty());
        matcher->accept(allowed[random() % allowed.size()]);
      }
    }
  }
}

TEST_F(GrammarTest, ACopyStaysWhereItWasMade) {
  const auto matcher = store_.matcher(GrammarKind::JsonSchema, kPerson);
  std::vector<std::unique_ptr<TokenFilter>> copies;
  std::vector<std::vector<uint32_t>> masks;
  const auto ids = tokenizer_->encode(R"({"name": "Ann", "age": 30, "tags": ["a", "bc"]})", {.add_special = false});
  for (const TokenId id : ids) {
    copies.push_back(matcher->clone());
    masks.push_back(mask_of(*matcher));
    matcher->accept(id);
  }
  EXPECT_TRUE(matcher->is_complete());
  matcher->accept(end_);
  EXPECT_FALSE(matcher->try_accept(end_));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "is not allowed by the grammar here",
                        [&] { matcher->accept(ids[3]); });
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(mask_of(*copies[i]), masks[i]) << i;
    copies[i]->accept(ids[i]);
    if (i + 1 == ids.size()) break;
    EXPECT_EQ(mask_of(*copies[i]), masks[i + 1]) << i;
  }
}

// One that looks ahead pushes frames of its own; those that the other pushes later are not mixed up with them.
TEST_F(GrammarTest, LookingAheadLeavesNoTrace) {
  for (const auto& [grammar, text] :
       {std::pair(R"g(root ::= "(" root ")" | "[" root "]" | "x")g", "([[(([x]))]])"),
        std::pair(R"g(root ::= a root b | "-"  a ::= "a" | "c"  b ::= "b" | "d")g", "acca-bbdb")}) {
    const auto matcher = store_.matcher(GrammarKind::Gbnf, grammar);
    const auto ids = tokenizer_->encode(text, {.add_special = false});
    std::vector<std::vector<uint32_t>> masks;
    {
      GrammarMatcher alone(*matcher);
      for (const TokenId id : ids) {
        masks.push_back(mask_of(alone));
        alone.accept(id);
      }
      masks.push_back(mask_of(alone));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      for (size_t end = i; end <= ids.size(); ++end) {
        const std::unique_ptr<TokenFilter> ahead = matcher->ahead();
        for (size_t k = i; k < end; ++k) {
          EXPECT_EQ(mask_of(*ahead), masks[k]);
          ahead->accept(ids[k]);
        }
        EXPECT_EQ(mask_of(*ahead), masks[end]);
      }
      EXPECT_EQ(mask_of(*matcher), masks[i]);
      matcher->accept(ids[i]);
    }
    EXPECT_EQ(mask_of(*matcher), masks.back());
  }
}

TEST_F(GrammarTest, ForcedTextIsWhatMustCome) {
  const auto matcher = store_.matcher(GrammarKind::Regex, "Zürich(ab|ac)");
  EXPECT_EQ(matcher->forced_text(), "Züricha");
  EXPECT_TRUE(matcher->try_accept_text("Züricha"));
  EXPECT_EQ(matcher->forced_text(), "");
  const auto schema = store_.matcher(GrammarKind::JsonSchema, R"({"enum": ["alpha", "alps"]})");
  EXPECT_EQ(schema->forced_text(), "\"alp");
  const auto split = store_.matcher(GrammarKind::Regex, "é|è");  // one byte in common, no character
  EXPECT_EQ(split->forced_text(), "");
}

TEST_F(GrammarTest, RegularExpressions) {
  const auto match = [&](const std::string& pattern, const std::string& text) {
    return gives(GrammarKind::Regex, pattern, text);
  };
  EXPECT_TRUE(match("^a|b$", "a"));
  EXPECT_FALSE(match("a|b", "ab"));
  EXPECT_TRUE(match("(?:x|y){2}(?<n>z)?", "xyz"));
  EXPECT_TRUE(match("[^\\d\\s]+", "é字🙂"));
  EXPECT_FALSE(match("[^\\d\\s]+", "a1"));
  EXPECT_TRUE(match(".{3}", "a字\t"));
  EXPECT_FALSE(match(".", "\n"));
  EXPECT_TRUE(match("[\\u0400-\\u04FF]+", "Жж"));
  EXPECT_TRUE(match("[\\u{1F600}-\\u{1F64F}]", "🙂"));
  EXPECT_FALSE(match("[\\u{1F600}-\\u{1F64F}]", "🚀"));
  EXPECT_TRUE(match("a{2,}b{0,1}c*?", "aaa"));
  EXPECT_TRUE(match("\\x41\\{x{,2}", "A{x{,2}"));
  EXPECT_TRUE(match("[a\\-z\\]]+", "a-]z"));
  for (const char* const text : {"a_", ".", "-", "b-"}) EXPECT_TRUE(match("[\\w-\\.]+", text)) << text;
  EXPECT_FALSE(match("[\\w-\\.]", ","));
  EXPECT_FALSE(match("[\\w-\\.]", "\\"));
  for (const char* const text : {"a", "-", "7"}) EXPECT_TRUE(match("[a-\\d]", text)) << text;
  EXPECT_FALSE(match("[a-\\d]", "b"));
  EXPECT_FALSE(match("[^\\s-z]", "-"));
  const auto error = [&](const std::string& pattern, ErrorCode code) {
    return test::error_of(code, [&] { (void)compile_grammar(GrammarKind::Regex, pattern); });
  };
  EXPECT_EQ(error("a(b", ErrorCode::InvalidArgument), "regular expression, position 3: the group is not closed");
  EXPECT_EQ(error("a(?=b)", ErrorCode::Unsupported),
            "regular expression, position 3: looking ahead or behind is not supported");
  EXPECT_EQ(error("(a)\\1", ErrorCode::Unsupported), "regular expression, position 5: escape \\1 is not supported");
  EXPECT_EQ(error("*a", ErrorCode::InvalidArgument), "regular expression, position 0: nothing to repeat");
  EXPECT_EQ(error("a{2}{3}", ErrorCode::InvalidArgument), "regular expression, position 7: nothing to repeat");
  EXPECT_TRUE(match("a{2}{", "aa{"));
  for (const char* const text : {"a{-3}", "a{3,-5}", "a{-99999999999999999999}"})
    EXPECT_TRUE(match(text, text)) << text;
  EXPECT_EQ(error("\\u{110000}", ErrorCode::InvalidArgument), "regular expression, position 9: bad \\u{}");
  EXPECT_EQ(error("[b-a]", ErrorCode::InvalidArgument), "regular expression, position 4: the range is out of order");
  EXPECT_EQ(error("a)", ErrorCode::InvalidArgument), "regular expression, position 1: ')' without '('");
  EXPECT_EQ(error("[]", ErrorCode::InvalidArgument), "no text satisfies the grammar");
  std::string many;
  for (int i = 0; i < 50; ++i) many += "x{9999}";
  EXPECT_EQ(error(many, ErrorCode::InvalidArgument), "the grammar needs more than 400000 instructions");
}

TEST_F(GrammarTest, Gbnf) {
  const std::string list =
      "# items\nroot ::= item (\",\" item)* # more\nitem ::= [0-9]+\n  | \"\\\"\" [^\"\\\\]{1,3} \"\\\"\"\n";
  EXPECT_TRUE(gives(GrammarKind::Gbnf, list, "1,22,\"abc\""));
  EXPECT_FALSE(gives(GrammarKind::Gbnf, list, "1,22,\"abcd\""));
  EXPECT_TRUE(gives(GrammarKind::Gbnf, "root ::= .? \"\\u00e9\"", "字é"));
  EXPECT_TRUE(gives(GrammarKind::Gbnf, "root ::= \"a\" root | \"\"", std::string(5000, 'a')));  // no deep stack
  const auto error = [&](const std::string& text) {
    return test::error_of(ErrorCode::InvalidArgument, [&] { (void)compile_grammar(GrammarKind::Gbnf, text); });
  };
  EXPECT_EQ(error("root ::= a"), "rule 'a' is used but not defined");
  EXPECT_EQ(error("a ::= \"x\""), "grammar: there is no rule 'root'");
  EXPECT_EQ(error("root ::= \"x\"\nroot ::= \"y\""), "grammar line 2: rule 'root' is defined twice");
  EXPECT_EQ(error("root ::= root \"x\" | \"y\""), "rule 'root' begins with itself");
  EXPECT_EQ(error("root ::= \"a\"? b \nb ::= root"), "rule 'root' begins with itself");
  EXPECT_EQ(error("root ::= \"a\" root"), "no text satisfies the grammar");
  EXPECT_EQ(error("root ::= \"a"), "grammar line 1: a text or class is not closed");
  EXPECT_EQ(error("root = \"a\""), "grammar line 1: wanted '::='");
}

// However many digits they have.
TEST_F(GrammarTest, CountsBeyondTheLimitAreRefused) {
  for (const char* const count : {"10001", "0,10001", "10001,", "3,9223372036854775808", "99999999999999999999",
                                  "99999999999999999999,", "99999999999999999999,99999999999999999999"}) {
    for (const auto& [kind, text] : {std::pair(GrammarKind::Regex, fmt::format("a{{{}}}", count)),
                                     std::pair(GrammarKind::Gbnf, fmt::format("root ::= \"a\"{{{}}}", count))}) {
      const std::string message =
          test::error_of(ErrorCode::InvalidArgument, [&] { (void)compile_grammar(kind, text); });
      EXPECT_TRUE(message.starts_with("a grammar repeats a part ") && message.ends_with(" times, allowed: 10000"))
          << text << ": " << message;
    }
  }
}

TEST_F(GrammarTest, IntegersWithinBounds) {
  std::mt19937 random(9);
  for (int round = 0; round < 150; ++round) {
    const int64_t scale = round % 3 == 0 ? 15 : round % 3 == 1 ? 1200 : 30000;
    const int64_t min = static_cast<int64_t>(random() % static_cast<uint32_t>(2 * scale)) - scale;
    const int64_t max = min + static_cast<int64_t>(random() % static_cast<uint32_t>(scale));
    const bool no_min = round % 10 == 3;
    const bool no_max = round % 10 == 7;
    std::string schema = R"({"type": "integer")";
    if (!no_min) schema += fmt::format(R"(, "minimum": {})", min);
    if (!no_max) schema += fmt::format(R"(, "maximum": {})", max);
    schema += "}";
    std::vector<int64_t> values{min - 1, min, min + 1, max - 1, max, max + 1, 0, -min, -max, 10 * min, 10 * max};
    for (int i = 0; i < 30; ++i)
      values.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(4 * scale)) - 2 * scale);
    for (const int64_t value : values) {
      const bool inside = (no_min || value >= min) && (no_max || value <= max);
      EXPECT_EQ(gives(GrammarKind::JsonSchema, schema, fmt::format("{}", value)), inside) << schema << ": " << value;
    }
    EXPECT_FALSE(gives(GrammarKind::JsonSchema, schema, "007"));
  }
}

TEST_F(GrammarTest, NumbersWithinBounds) {
  std::mt19937 random(10);
  for (int round = 0; round < 150; ++round) {
    const auto draw = [&] { return (static_cast<int>(random() % 4001) - 2000) / (round % 2 == 0 ? 100.0 : 10.0); };
    double min = draw();
    double max = round % 4 == 0 ? min + static_cast<double>(random() % 200) / 100.0 : draw();
    if (min > max) std::swap(min, max);
    const bool open = round % 3 == 0;
    const std::string schema =
        fmt::format(R"({{"type": "number", "{}": {:.2f}, "{}": {:.2f}}})", open ? "exclusiveMinimum" : "minimum", min,
                    open ? "exclusiveMaximum" : "maximum", max);
    std::vector<double> values{min,        max,        0,          -min,        -max,       min - 0.01,
                               min + 0.01, max - 0.01, max + 0.01, min + 0.001, max - 0.001};
    for (int i = 0; i < 20; ++i) values.push_back(draw());
    const int64_t low = std::llround(min * 1000);
    const int64_t high = std::llround(max * 1000);
    if (open && low >= high) continue;
    for (const double value : values) {
      const int64_t thousandths = std::llround(value * 1000);
      const bool inside = open ? low < thousandths && thousandths < high : low <= thousandths && thousandths <= high;
      if (thousandths == 0) continue;  // "-0.000" is refused, "0.000" is not
      EXPECT_EQ(gives(GrammarKind::JsonSchema, schema, fmt::format("{:.3f}", value)), inside)
          << schema << ": " << value;
      if (thousandths % 1000 == 0) {
        EXPECT_EQ(gives(GrammarKind::JsonSchema, schema, fmt::format("{}", thousandths / 1000)), inside)
            << schema << ": " << value;
      }
    }
  }
}

TEST_F(GrammarTest, SchemaErrorsNameKeywordAndPlace) {
  const auto error = [&](const std::string& text, ErrorCode code = ErrorCode::Unsupported) {
    return test::error_of(code, [&] { (void)compile_grammar(GrammarKind::JsonSchema, text); });
  };
  EXPECT_EQ(error(R"({"properties": {"a": {"not": {}}}})"),
            "JSON schema, #/properties/a: keyword 'not' is not supported");
  EXPECT_EQ(error(R"({"type": "array", "uniqueItems": true})"),
            "JSON schema, #: keyword 'uniqueItems' is not supported but for items of up to 8 listed values");
  EXPECT_EQ(error(R"({"items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "uniqueItems": true})"),
            "JSON schema, #: keyword 'uniqueItems' is not supported but for items of up to 8 listed values");
  EXPECT_EQ(error(R"({"type": "integer", "multipleOf": 123456})"),
            "JSON schema, #: keyword 'multipleOf' is not supported with so many digits");
  EXPECT_EQ(error(R"({"type": "number", "multipleOf": 1e10})"),
            "JSON schema, #: keyword 'multipleOf' is not supported with so many digits");
  EXPECT_EQ(error(R"({"type": "integer", "multipleOf": 0})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'multipleOf' is 0, allowed: above 0");
  EXPECT_EQ(error(R"({"pattern": "a[ab]{16}$", "maxLength": 30})"),
            "JSON schema, #: an automaton of more than 10000 states is not supported");
  EXPECT_EQ(error(R"x({"patternProperties": {"^(?=a)": {}}})x"),
            "JSON schema, #/patternProperties/^(?=a): regular expression, position 3: looking ahead or behind is not "
            "supported");
  EXPECT_EQ(
      error(R"({"allOf": [{"patternProperties": {"a": {}}}, {"additionalProperties": false}]})"),
      "JSON schema, #/allOf/1: keyword 'patternProperties' beside 'additionalProperties', in schemas that must hold at "
      "once, is not supported");
  EXPECT_EQ(error(R"({"anyOf": [{}, {"if": {}}]})"), "JSON schema, #/anyOf/1: keyword 'if' is not supported");
  EXPECT_EQ(error(R"({"$ref": "http://x"})"), "JSON schema, #: reference 'http://x' is not supported, only: #/...");
  EXPECT_EQ(error(R"({"$ref": "#/$defs/x"})", ErrorCode::InvalidArgument),
            "JSON schema, #: reference '#/$defs/x' points to nothing");
  EXPECT_EQ(error(R"({"type": "text"})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'type' is \"text\", allowed: string, number, integer, object, array, boolean, null");
  EXPECT_EQ(error(R"({"type": "array", "minItems": 1000000000})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'minItems' is 1000000000, allowed: 0 to 10000");
  EXPECT_EQ(error(R"({"properties": {"a": {"type": "string", "minLength": 10001}}})", ErrorCode::InvalidArgument),
            "JSON schema, #/properties/a: 'minLength' is 10001, allowed: 0 to 10000");
  EXPECT_EQ(error(R"({"type": "array", "minItems": -1})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'minItems' is -1, allowed: a whole number from 0 on");
  EXPECT_EQ(error(R"({"enum": []})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'enum' is [], allowed: a list of values");
  grammar::Json many = grammar::Json::array();
  for (int i = 0; i <= 9000; ++i) many.push_back(fmt::format("{}", i));
  const grammar::Json listed{{"properties", {{"a", {{"enum", many}}}}}};
  EXPECT_EQ(error(listed.dump(), ErrorCode::InvalidArgument),
            "JSON schema, #/properties/a: 'enum' lists 9001 values, allowed: 9000");
  EXPECT_EQ(error(R"({"properties": 5})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'properties' is 5, allowed: an object");
  EXPECT_EQ(error(R"({"properties": {"a": {"required": "b"}}})", ErrorCode::InvalidArgument),
            "JSON schema, #/properties/a: 'required' is \"b\", allowed: a list of strings");
  EXPECT_EQ(error(R"({"required": ["a", 1]})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'required/1' is 1, allowed: a string");
  EXPECT_EQ(error(R"({"allOf": [{"required": ["a"]}, {"required": 7}]})", ErrorCode::InvalidArgument),
            "JSON schema, #/allOf/1: 'required' is 7, allowed: a list of strings");
  EXPECT_EQ(error(R"({"type": "string", "pattern": 5})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'pattern' is 5, allowed: a string");
  EXPECT_EQ(error(R"({"items": {"format": 5}})", ErrorCode::InvalidArgument),
            "JSON schema, #/items: 'format' is 5, allowed: a string");
  EXPECT_EQ(error(R"({"type": "array", "uniqueItems": "yes"})", ErrorCode::InvalidArgument),
            "JSON schema, #: 'uniqueItems' is \"yes\", allowed: true or false");
  EXPECT_EQ(error(R"({"allOf": [{"properties": [1]}, {"properties": {}}]})", ErrorCode::InvalidArgument),
            "JSON schema, #/allOf/0: 'properties' is a list, allowed: an object");
  EXPECT_EQ(error(R"({"maxProperties": 10001, "type": "object"})"),
            "JSON schema, #: keyword 'maxProperties' is 10001 beside 0 properties, not supported above 10000 or beside "
            "more than 128");
  EXPECT_EQ(error("false", ErrorCode::InvalidArgument), "no text satisfies the grammar");
  EXPECT_EQ(error("7", ErrorCode::InvalidArgument), "JSON schema, #: a schema is an object or a boolean");
  EXPECT_EQ(error(R"({"$ref": "#"})", ErrorCode::InvalidArgument), "rule '#' begins with itself");
  EXPECT_EQ(error(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", ErrorCode::InvalidArgument),
            "no text satisfies the grammar");
  EXPECT_NE(error("{", ErrorCode::InvalidArgument).find("JSON schema: "), std::string::npos);
  const auto nested = [](size_t depth) {
    std::string deep;
    for (size_t i = 0; i < depth; ++i) deep += R"({"items": )";
    return deep + "{}" + std::string(depth, '}');
  };
  EXPECT_NE(error(nested(100), ErrorCode::InvalidArgument).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_EQ(error(nested(200), ErrorCode::InvalidArgument), "JSON schema: nested deeper than 200 levels");
}

TEST_F(GrammarTest, ManyThreadsShareAGrammar) {
  const auto ids = tokenizer_->encode(R"({"name": "Ann", "age": 30})", {.add_special = false});
  std::vector<std::vector<uint32_t>> last(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mask : last) {
      threads.emplace_back([&] {
        const auto matcher = store_.matcher(GrammarKind::JsonSchema, kPerson);
        for (const TokenId id : ids) {
          mask = mask_of(*matcher);
          matcher->accept(id);
        }
      });
    }
  }
  for (const auto& mask : last) EXPECT_EQ(mask, last[0]);
}

// Random bytes and damaged schemas: a grammar or one clear error.
TEST_F(GrammarTest, DamagedGrammarsAreCompiledOrRefused) {
  const std::vector<std::pair<GrammarKind, std::string>> sources{
      {GrammarKind::JsonSchema, kPerson},
      {GrammarKind::Regex, "^(ab|[^c-f\\d]{2,3})*\\u00e9?(?:x|y)+$"},
      {GrammarKind::Gbnf, "root ::= \"(\" root* \")\" [a-z\\n]{2,3} | item\nitem ::= \"x\"? \"\\u00e9\" # c\n"}};
  std::mt19937 random(13);
  for (const auto& [kind, source] : sources) {
    int compiled = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = source;
      for (auto count = 1 + random() % 3; count > 0; --count) {
        const size_t at = random() % damaged.size();
        if (random() % 2 == 0) {
          damaged[at] = source[random() % source.size()];
        } else {
          damaged.erase(at, random() % 6);
        }
        if (damaged.empty()) damaged = "x";
      }
      try {
        (void)compile_grammar(kind, damaged);
        ++compiled;
      } catch (const Error& error) {
        ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << damaged;
      }
    }
    EXPECT_GT(compiled, 50);
  }
}

// In a large vocabulary whole subtrees are taken at once; token by token says the same.
TEST(GrammarOfALargeVocabulary, MasksAreWhatCanFollow) {
  const std::string path = test::shared_path("vocab/gpt-2.gguf");
  INFLIGHT_REQUIRE_FILE(path);
  const auto tokenizer = Tokenizer::create(load_vocabulary(path));
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  const TokenId end = *vocabulary.eos();
  GrammarStore store(vocabulary, {end});
  const struct {
    GrammarKind kind;
    const char *grammar, *text;
  } cases[] = {
      {GrammarKind::JsonSchema, R"({"type": "string"})", "\"ab \xC3"},
      {GrammarKind::JsonSchema, R"({"type": "string", "maxLength": 7})", "\"abc"},
      {GrammarKind::JsonSchema, R"({"type": "array", "items": {"type": "string", "minLength": 4, "maxLength": 90}})",
       "[\"a"},
      {GrammarKind::JsonObject, "", "{\"k"},
      {GrammarKind::Regex, "[a-z ]*|[^a]{3}", "a"},
      {GrammarKind::Regex, ".{0,5}x", "b"},
      {GrammarKind::Regex, "([^\\x00-\\x7f]|[a-z])*!", "é"},
      {GrammarKind::Gbnf, "root ::= [^\"]+ tail\ntail ::= \"\\\"\" [a-z]*", "q"},
  };
  for (const auto& each : cases) {
    const auto matcher = store.matcher(each.kind, each.grammar);
    ASSERT_TRUE(matcher->try_accept_text(each.text)) << each.grammar;
    std::vector<uint32_t> mask(static_cast<size_t>(vocabulary.size() + 31) / 32);
    matcher->allow(mask);
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      const bool allowed = (mask[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32U) & 1U) != 0;
      const bool can = GrammarMatcher(*matcher).try_accept(id);
      ASSERT_EQ(allowed, can) << each.grammar << ": token '" << vocabulary.bytes(id) << "'";
    }
  }
}

}  // namespace
}  // namespace inflight
