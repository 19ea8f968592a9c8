// SPDX-License-Identifier: Apache-2.0
// Goal: calls whose arguments are members in a spelling of their own are found in templates that write them so, and the
// grammar gives what the functions' schemas allow in that spelling.
//
// Covers: text/grammar_tools.cpp, text/grammar_json.cpp, text/grammar_json_text.cpp
#include <gtest/gtest.h>

#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/test_data.h"
#include "text/grammar.h"
#include "text/grammar_tools.h"
#include "text/tool_call_format.h"
#include "unit/text/call_grammar.h"

namespace inflight {
namespace {

const ChatSettings kMemberSettings{"<s>", "</s>", 0};

struct Spelling {
  std::string begin = "<call>[", open = "(", middle = "=", between = ", ", close = ")", separator = ", ",
              end = "]</call>";
  std::string text = "{{ \"'\" + value + \"'\" }}", object = "{{ value | tojson }}", other = "{{ value | string }}";
  std::string items = "items";  // the filter by which members are gone through
};

// As Gemma 4 has it.
const std::string kLongText = R"({{ '<|"|>' + value + '<|"|>' }})";
const Spelling kLongSpelling{
    .begin = "<|call>call:",
    .open = "{{ '{' }}",
    .middle = ":",
    .between = ",",
    .close = "}",
    .separator = "<call|><|call>call:",
    .end = "<call|>",
    .text = kLongText,
    .object = R"({{ '{' }}{% for k, v in value | items %}{{ k }}:{{ '<|"|>' + v + '<|"|>' }}{% endfor %}{{ '}' }})",
    .other = "{{ value | tojson }}",
    .items = "dictsort"};

// A template that writes calls so.
std::string member_template(const Spelling& as) {
  return "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}" + as.begin +
         "{% for c in m.tool_calls %}{% if not loop.first %}" + as.separator + "{% endif %}{{ c.function.name }}" +
         as.open + "{% for key, value in c.function.arguments | " + as.items + " %}{% if not loop.first %}" +
         as.between + "{% endif %}{{ key }}" + as.middle + "{% if value is string %}" + as.text +
         "{% elif value is mapping %}" + as.object + "{% else %}" + as.other + "{% endif %}{% endfor %}" + as.close +
         "{% endfor %}" + as.end + "{% endif %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
}

ToolCallFormat member_format(const Spelling& as) {
  return find_tool_call_format(ChatTemplate(member_template(as)), kMemberSettings);
}

TEST(ToolCallMembers, AreFoundInTheTemplate) {
  const ToolCallFormat python = member_format({});
  ASSERT_TRUE(python.from_template && python.plain_name && python.members);
  EXPECT_EQ(python.begin + "|" + python.middle + "|" + python.separator + "|" + python.end, "<call>[|(|), |)]</call>");
  EXPECT_EQ(python.members->middle + "|" + python.members->separator + "|" + python.members->quote, "=|, |'");
  EXPECT_TRUE(python.members->python_words);
  EXPECT_EQ(python.begin_mark() + "|" + python.call_end() + "|" + python.end_mark(), "<call>|)|]</call>");
  EXPECT_EQ(behind_trigger(python), "[");
  const ToolCallFormat gemma = member_format(kLongSpelling);
  ASSERT_TRUE(gemma.members);
  EXPECT_EQ(gemma.begin + " " + gemma.middle + " " + gemma.separator + " " + gemma.end,
            "<|call>call: { }<call|><|call>call: }<call|>");
  EXPECT_EQ(gemma.members->middle + gemma.members->separator + gemma.members->quote, ":,<|\"|>");
  EXPECT_FALSE(gemma.members->python_words);
  EXPECT_EQ(gemma.begin_mark() + " " + gemma.call_end() + " " + gemma.end_mark(), "<|call>call: } <call|>");
  EXPECT_EQ(member_format({.text = "{{ value | tojson }}"}).members->quote, "\"");
}

// What cannot be told apart again is not taken for the form.
TEST(ToolCallMembers, ThatCannotBeReadAreNone) {
  const Spelling unreadable[] = {{.between = "; "},
                                 {.between = " "},
                                 {.middle = " is "},
                                 {.close = "."},
                                 {.open = "<", .close = ">"},
                                 {.text = "{{ value }}"},
                                 {.text = "`{{ value }}`"},
                                 {.text = "<<{{ value }}<<"},  // within objects strings are others
                                 {.text = "'{{ value }}\""},
                                 {.begin = "["},  // nothing that no other answer begins with
                                 {.close = "{{ ' none' if not c.function.arguments }})"}};
  for (const Spelling& as : unreadable) {
    EXPECT_FALSE(member_format(as).from_template) << as.text << as.between << as.middle << as.close << as.begin;
  }
  Spelling quoted_names = kLongSpelling;
  quoted_names.object.replace(quoted_names.object.find("{{ k }}"), 7, R"({{ '<|"|>' + k + '<|"|>' }})");
  EXPECT_FALSE(member_format(quoted_names).from_template);
  Spelling other_braces = kLongSpelling;
  other_braces.object.replace(other_braces.object.find("'{'"), 3, "'('");
  EXPECT_FALSE(member_format(other_braces).from_template);
}

TEST(ToolCallMembers, AreToldWhereTheTemplateTellsNoFunctions) {
  const std::string adapted =
      adapt_to_format(member_format({}), R"({"tools": [{"function": {"name": "f"}}], "messages": [{"role": "user"}]})");
  EXPECT_NE(adapted.find("<call>[NAME(PARAMETER='STRING', PARAMETER=VALUE, ...)]</call>"), std::string::npos)
      << adapted;
}

class MemberGrammar : public testing::Test {
 protected:
  [[nodiscard]] std::string text(const std::string& schema, const char* strict = "false") const {
    return test::call_grammar_text(schema, strict, format_, vocabulary_);
  }
  [[nodiscard]] bool takes(const std::string& schema, const std::string& members) {
    const auto matcher = store_.matcher(GrammarKind::ToolCalls, text(schema));
    return matcher->try_accept_text(format_.begin + "f" + format_.middle + members + format_.end) &&
           matcher->is_complete();
  }
  struct Case {
    std::string schema;
    std::vector<std::string> good, bad;  // values of one parameter, which is required
  };
  void expect(const std::vector<Case>& cases) {
    for (const Case& each : cases) {
      const std::string schema =
          R"({"properties": {"a": )" + each.schema + R"(}, "required": ["a"], "$defs": {"color": {"enum": ["red"]}}})";
      const std::string begin = "a" + format_.members->middle;
      for (const std::string& value : each.good) EXPECT_TRUE(takes(schema, begin + value)) << each.schema << value;
      for (const std::string& value : each.bad) EXPECT_FALSE(takes(schema, begin + value)) << each.schema << value;
    }
  }

  const Vocabulary vocabulary_{load_vocabulary(test::kDemoModel)};
  GrammarStore store_{vocabulary_, {*vocabulary_.eos()}};
  ToolCallFormat format_ = member_format({});
};

TEST_F(MemberGrammar, ValuesArePythons) {
  expect({
      {R"({"type": "string"})",
       {"''", "\"\"", "'Zürich \"4\"'", "\"it's\"", R"('it\'s')", R"("\"\\\n\u00e9")"},
       {"x", "'it's'", "\"a\"b\"", "'a\nb'", R"('\q')", "'a\"", "1", "None"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})", {"\"ab\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "ab"}},
      {R"({"type": "string", "pattern": "^[a-z]+$"})", {"\"ab\""}, {"\"A\"", "ab"}},
      {R"({"enum": ["it's", "\"\\", 3, null, true]})",
       {R"("it's")", R"('it\'s')", R"("\"\\")", R"('"\\')", "3", "None", "True"},
       {"'it's'", R"('\"\\')", "null", "true", "'3'"}},
      {R"({"$ref": "#/$defs/color"})", {"'red'", "\"red\""}, {"red", "'blue'"}},
      {R"({"type": "integer", "minimum": 3})", {"3", "41"}, {"2", "'3'"}},
      {R"({"type": "boolean"})", {"True", "False"}, {"true", "None"}},
      {R"({"type": ["integer", "null"]})", {"1", "None"}, {"null", "''"}},
      {R"({"type": "array", "items": {"type": "string"}})", {"[]", "['a', \"b\"]"}, {"[1]", "('a')", "['a',]"}},
      {R"({"properties": {"k": {"type": "integer"}}, "required": ["k"], "additionalProperties": {"type": "boolean"}})",
       {R"({"k": 1})", "{'k': 1}", R"({"k": 1, "z": True})"},
       {"{k: 1}", "{}", R"({"k": 1, "k": True})"}},
      {"{}", {"'x'", "1", "[1, {'a': None}]", "True"}, {"x", "null", "'"}},
      {"true", {"'x'", "{}"}, {"x"}},
  });
}

TEST_F(MemberGrammar, ValuesStandBetweenLongQuotes) {
  format_ = member_format(kLongSpelling);
  const auto quoted = [](const std::string& value) { return "<|\"|>" + value + "<|\"|>"; };
  expect({
      {R"({"type": "string"})",
       {quoted(""), quoted("Zürich \"4\" \\n it's\n<|\"| }")},
       {"x", "\"x\"", quoted("a<|\"|>b"), "1"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})", {quoted("ab"), quoted("ü\nz")}, {quoted("a"), "ab"}},
      {R"({"type": "string", "maxLength": 17})", {quoted(std::string(2000, 'x'))}, {}},
      {R"({"type": "string", "pattern": "^[a-z]+$"})", {quoted("ab")}, {quoted("A"), "ab"}},
      {R"({"enum": ["it's \"", "<|\"|>", 3, null, true]})",
       {quoted("it's \""), "3", "null", "true"},
       {quoted("<|\"|>"), "None", quoted("3")}},
      {R"({"$ref": "#/$defs/color"})", {quoted("red")}, {"red", quoted("blue")}},
      {R"({"type": "boolean"})", {"true", "false"}, {"True"}},
      {R"({"type": "array", "items": {"type": "string"}})",
       {"[]", "[" + quoted("a") + "," + quoted("]") + "]"},
       {"[a]"}},
      {R"({"properties": {"k k": {"type": "integer"}}, "required": ["k k"]})",
       {"{k k:1}"},
       {"{}", "{k k: 1}", "{k:1}"}},
      {R"({"properties": {"k": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})",
       {"{k:1}", "{}", "{k:1,z.9:true}", "{z:true}"},
       {"{k:1,k:true}", "{a b:true}", "{z:1}"}},
      {R"({"type": "object"})", {"{}", "{k:{n:[" + quoted("") + ",1]}}"}, {"{" + quoted("k") + ":1}", "{\"k\":1}"}},
      {"{}", {quoted("x"), "1", "{a:null}"}, {"x", "None"}},
  });
}

TEST_F(MemberGrammar, NamesAreTheSchemas) {
  const std::string schema =
      R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]})";
  for (const std::string good : {"b=1", "a=1, b=2"}) EXPECT_TRUE(takes(schema, good)) << good;
  for (const std::string bad : {"", "a=1", "b=1, a=2", "a=1,b=2", "a =1, b=2", "b=1, c=1", "b=1, "}) {
    EXPECT_FALSE(takes(schema, bad)) << bad;
  }
  EXPECT_TRUE(takes("{}", ""));
  const std::string open = R"({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})";
  for (const std::string good : {"", "a=1", "c=True", "a=1, c=True, d=False"}) EXPECT_TRUE(takes(open, good)) << good;
  for (const std::string bad : {"a=True", "'c'=True", ", c=True"}) EXPECT_FALSE(takes(open, bad)) << bad;
}

TEST_F(MemberGrammar, WhatIsNotSupportedIsRefusedWhereItIsStrict) {
  format_ = member_format(kLongSpelling);
  const std::string grammar = text(R"({"properties": {"a": {"type": "string", "maxLength": 17}}})", "true");
  EXPECT_EQ(
      test::error_of(ErrorCode::Unsupported,
                     [&] { static_cast<void>(compile_grammar(GrammarKind::ToolCalls, grammar)); }),
      "tool \"f\": JSON schema, #/properties/a: keyword 'maxLength' above 16 is not supported here without a pattern");
}

TEST_F(MemberGrammar, SeveralCallsAndFreeOnes) {
  const std::string schema = R"({"properties": {"a": {"type": "integer"}}})";
  const auto matcher = store_.matcher(GrammarKind::ToolCalls, text(schema));
  EXPECT_TRUE(matcher->try_accept_text("<call>[f(a=1), f()]</call>") && matcher->is_complete());
  const ToolRequest wanted = read_tool_request(R"({"tools": [{"function": {"name": "f"}}]})");
  const auto free =
      store_.matcher(GrammarKind::ToolCalls, tool_grammar_text(wanted, format_, vocabulary_, wanted.calls_begin()));
  EXPECT_FALSE(free->try_accept_text("<call>"));
  EXPECT_TRUE(free->try_accept_text("[f()]</call>") && free->is_complete());
}

// A quote that is a token of its own stands as that token and is shown.
TEST_F(MemberGrammar, QuotesMayBeControlTokens) {
  const TokenId quote = *vocabulary_.find("<|im_start|>");
  ASSERT_TRUE(vocabulary_.is_control(quote));
  Spelling as = kLongSpelling;
  for (std::string* const part : {&as.text, &as.object}) {
    for (size_t at = part->find("<|\"|>"); at != part->npos; at = part->find("<|\"|>"))
      part->replace(at, 5, "<|im_start|>");
  }
  format_ = member_format(as);
  EXPECT_EQ(tool_call_tokens(format_, vocabulary_), std::vector{quote});
  const auto matcher =
      store_.matcher(GrammarKind::ToolCalls, text(R"({"properties": {"a": {"type": "string"}}, "required": ["a"]})"));
  EXPECT_TRUE(matcher->try_accept_text(format_.begin + "f{a:"));
  EXPECT_FALSE(matcher->try_accept_text("<"));
  EXPECT_TRUE(matcher->try_accept(quote) && matcher->try_accept_text("x"));
  EXPECT_FALSE(matcher->try_accept_text("<|im_start|>"));  // which a reader would take for the quote
  EXPECT_TRUE(matcher->try_accept(quote) && matcher->try_accept_text(format_.end) && matcher->is_complete());
}

}  // namespace
}  // namespace inflight
