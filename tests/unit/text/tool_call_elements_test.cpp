// SPDX-License-Identifier: Apache-2.0
// Goal: calls whose arguments are elements are found in templates that write them so, also behind a prompt that begins
// the reasoning, and the grammar gives what the functions' schemas allow: strings as they stand, all else as JSON.
//
// Covers: text/grammar_tools.cpp, text/grammar_json.cpp, text/grammar_json_string.cpp
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

const ChatSettings kElementSettings{"<s>", "</s>", 0};

struct Tags {
  std::string begin = "<tool>\n<fn=", middle = ">\n", open = "<arg=", value = ">\n", close = "\n</arg>\n",
              end = "</fn>\n</tool>", written = "{{ value if value is string else value | tojson }}",
              between = "{{ '\n' }}";
};

// A template that writes calls so.   answer: before an answer's calls; prompt: behind a prompt.
std::string element_template(const Tags& tags, const std::string& answer = "", const std::string& prompt = "") {
  return "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}" + answer +
         "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{% if not loop.first %}" + tags.between +
         "{% endif %}" + tags.begin + "{{ c.function.name }}" + tags.middle +
         "{% for key, value in c.function.arguments | items %}" + tags.open + "{{ key }}" + tags.value + tags.written +
         tags.close + "{% endfor %}" + tags.end +
         "{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]" + prompt + "{% endif %}";
}

ToolCallFormat element_format(const std::string& source) {
  return find_tool_call_format(ChatTemplate(source), kElementSettings);
}

TEST(ToolCallElements, AreFoundInTheTemplate) {
  const ToolCallFormat format = element_format(element_template({}));
  ASSERT_TRUE(format.from_template && format.plain_name && format.elements);
  EXPECT_EQ(format.begin, "<tool>\n<fn=");
  EXPECT_EQ(format.middle, ">\n");
  EXPECT_EQ(format.elements->open, "<arg=");
  EXPECT_EQ(format.elements->middle, ">\n");
  EXPECT_EQ(format.elements->string_middle, ">\n");
  EXPECT_EQ(format.elements->close, "\n</arg>\n");
  EXPECT_FALSE(format.elements->python_words);
  EXPECT_TRUE(element_format(element_template({.written = "{{ value | string }}"})).elements->python_words);
  EXPECT_EQ(format.end, "</fn>\n</tool>");
  EXPECT_EQ(format.separator, "</fn>\n</tool>\n<tool>\n<fn=");
  EXPECT_EQ(format.begin_mark(), "<tool>");
  EXPECT_EQ(format.call_end(), "</fn>");
  EXPECT_EQ(format.end_mark(), "\n</tool>");
  EXPECT_EQ(tool_call_trigger(format), "<tool>");
  EXPECT_EQ(behind_trigger(format), "\n<fn=");
  // Names as attributes, a mark around all calls, no newlines around values.
  const ToolCallFormat listed = element_format(element_template({.begin = "<call name=\"",
                                                                 .middle = "\">",
                                                                 .open = "<p name=\"",
                                                                 .value = "\">",
                                                                 .close = "</p>",
                                                                 .end = "</call>",
                                                                 .between = ""}));
  ASSERT_TRUE(listed.elements);
  EXPECT_EQ(listed.begin_mark(), "<call name=\"");
  EXPECT_EQ(listed.elements->close, "</p>");
  EXPECT_EQ(listed.call_end(), "</call>");
  EXPECT_EQ(listed.end_mark(), "");
}

// A call without arguments may have other blanks.
TEST(ToolCallElements, MayBeMissing) {
  const ToolCallFormat format =
      element_format(element_template({.end = "{{ '\n' if not c.function.arguments }}</fn>"}));
  ASSERT_TRUE(format.elements);
  EXPECT_EQ(format.middle + "|" + format.end, ">\n|</fn>");
  EXPECT_FALSE(element_format(element_template({.end = "{{ 'none' if not c.function.arguments }}</fn>"})).elements);
}

TEST(ToolCallElements, AreFoundBehindReasoningThatThePromptBegins) {
  for (const std::string open : {"<think>", "[THINK]"}) {
    const std::string close = open.substr(0, 1) + "/" + open.substr(1);
    const ToolCallFormat format = element_format(element_template({}, open + "\n\n" + close + "\n\n", open + "\n"));
    ASSERT_TRUE(format.elements) << open;
    EXPECT_EQ(format.begin, "<tool>\n<fn=");
  }
}

// As GLM writes calls: keys and values in tags of their own, turns that end with the next one's mark.   line: behind
// marks, nothing in its later versions.
std::string keyed_template(const std::string& line, const std::string& answer, const std::string& prompt) {
  return "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}" + answer +
         "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}" + line + "<tool_call>{{ c.function.name }}" +
         line + "{% for key, value in c.function.arguments | items %}<arg_key>{{ key }}</arg_key>" + line +
         "<arg_value>{{ value if value is string else value | tojson }}</arg_value>" + line +
         "{% endfor %}</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>" + prompt +
         "{% endif %}";
}

TEST(ToolCallElements, MayHaveKeysAndValuesInTagsOfTheirOwn) {
  const struct {
    std::string line, answer, prompt;
  } cases[] = {{"{{ '\n' }}", "{{ '\n' }}<think></think>", ""},  // answers may think, and did not
               {"", "</think>", "<think>"},
               {"", "</think>", "<think></think>"},
               {"", "", ""}};
  for (const auto& [line, answer, prompt] : cases) {
    const ToolCallFormat format = element_format(keyed_template(line, answer, prompt));
    const std::string newline = line.empty() ? "" : "\n";
    ASSERT_TRUE(format.elements) << answer << prompt;
    EXPECT_EQ(format.begin, "<tool_call>") << answer << prompt;
    EXPECT_EQ(format.middle, newline);
    EXPECT_EQ(format.elements->open, "<arg_key>");
    EXPECT_EQ(format.elements->middle, "</arg_key>" + newline + "<arg_value>");
    EXPECT_EQ(format.elements->close, "</arg_value>" + newline);
    EXPECT_EQ(format.separator, "</tool_call>" + newline + "<tool_call>");
    EXPECT_EQ(format.end, "</tool_call>");
    EXPECT_EQ(format.call_end() + "|" + format.end_mark(), "</tool_call>|");
    EXPECT_EQ(tool_call_trigger(format) + "|" + behind_trigger(format), "<tool_call>|");
  }
}

// As DeepSeek V3.2 writes calls: beside each name stands whether the value is a string.
const Tags kTellingTags{.begin = "<fn name=\"",
                        .middle = "\">\n",
                        .open = "<arg name=\"",
                        .value = "\" string=\"{{ 'true' if value is string else 'false' }}\">",
                        .close = "</arg>\n",
                        .end = "</fn>"};

TEST(ToolCallElements, MaySayWhatIsAString) {
  const ToolCallFormat format = element_format(element_template(kTellingTags));
  ASSERT_TRUE(format.elements);
  EXPECT_EQ(format.elements->open, "<arg name=\"");
  EXPECT_EQ(format.elements->string_middle, "\" string=\"true\">");
  EXPECT_EQ(format.elements->middle, "\" string=\"false\">");
  EXPECT_EQ(format.elements->close, "</arg>\n");
  EXPECT_EQ(format.separator, "</fn>\n<fn name=\"");
  // Behind reasoning that the prompt has ended, and answers, too.
  EXPECT_EQ(element_format(element_template(kTellingTags, "</think>\n\n", "<think></think>")).begin, "<fn name=\"");
}

// What cannot be told apart again is not taken for the form.
TEST(ToolCallElements, ThatCannotBeReadAreNone) {
  const Tags unreadable[] = {
      {.close = "\n"},                                 // a value's line may be followed by anything
      {.open = "arg="},                                // no tag
      {.end = ""},                                     // a call without an end
      {.value = "{{ ' text' if value is string }}>"},  // the one mark ends the other
      {.value = " {{ 'text' if value is string else 'flag' if value is boolean }}>"},  // the value's type stands there
      {.middle = ">{{ c.function.name }}\n"},                                          // the name stands there twice
      {.close = "{{ loop.index }}</arg>"},                                             // elements are counted
      {.open = "<", .close = "</>"},      // a call's end begins as an element
      {.middle = "", .end = "end</fn>"},  // a name without an end
  };
  for (const Tags& tags : unreadable) {
    EXPECT_FALSE(element_format(element_template(tags)).from_template)
        << tags.open << tags.value << tags.close << tags.end;
  }
}

TEST(ToolCallElements, AreToldWhereTheTemplateTellsNoFunctions) {
  const std::string request =
      R"({"tools": [{"function": {"name": "f"}}], "messages": [{"role": "user", "content": ""}]})";
  const std::string adapted = adapt_to_format(element_format(element_template({})), request);
  EXPECT_NE(adapted.find(R"(<tool>\n<fn=NAME>\n<arg=PARAMETER>\nVALUE\n</arg>\n...</fn>\n</tool>)"), std::string::npos)
      << adapted;
  const std::string telling = adapt_to_format(element_format(element_template(kTellingTags)), request);
  const std::string told = R"(<fn name=\"NAME\">\n<arg name=\"PARAMETER\" string=\"true\">STRING</arg>\n)"
                           R"(<arg name=\"PARAMETER\" string=\"false\">JSON</arg>\n...</fn>)";
  EXPECT_NE(telling.find(told), std::string::npos) << telling;
}

class ElementGrammar : public testing::Test {
 protected:
  [[nodiscard]] std::string text(const std::string& schema, const char* strict = "false") const {
    return test::call_grammar_text(schema, strict, format_, vocabulary_);
  }
  [[nodiscard]] bool takes(const std::string& schema, const std::string& elements) {
    const auto matcher = store_.matcher(GrammarKind::ToolCalls, text(schema));
    return matcher->try_accept_text("<tool>\n<fn=f>\n" + elements + "</fn>\n</tool>") && matcher->is_complete();
  }
  // Of one parameter, which is required.
  [[nodiscard]] bool takes_value(const std::string& schema, const std::string& value) {
    return takes(R"({"properties": {"a": )" + schema +
                     R"(}, "required": ["a"], "$defs": {"color": {"enum": ["red"]}, )" +
                     R"("tree": {"properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}}})",
                 "<arg=a>\n" + value + "\n</arg>\n");
  }

  const Vocabulary vocabulary_{load_vocabulary(test::kDemoModel)};
  GrammarStore store_{vocabulary_, {*vocabulary_.eos()}};
  ToolCallFormat format_ = element_format(element_template({}));
};

TEST_F(ElementGrammar, StringsStandAsTheyAreAndAllElseIsJson) {
  const struct {
    std::string schema;
    std::vector<std::string> good, bad;
  } cases[] = {
      {R"({"type": "string"})", {"", "x", "\"x\"", "two\n\nlines\n", "<b>&\\ü</b> </ar", "1"}, {"a</arg>b"}},
      {"true", {"x", "{\"a\": 1}"}, {"</arg>"}},
      {"{}", {"x", "1"}, {}},
      {R"({"type": "integer", "minimum": 3})", {"3", "41"}, {"2", "x", "\"3\"", ""}},
      {R"({"type": "boolean"})", {"true", "false"}, {"True", "yes"}},
      {R"({"type": "array", "items": {"type": "string"}})", {"[]", R"(["x", "</arg>"])"}, {"x", "[1]"}},
      {R"({"enum": ["red", "deep blue", 3, null]})", {"red", "deep blue", "3", "null"}, {"\"red\"", "green", "4"}},
      {R"({"enum": ["</arg>", "x"]})", {"x"}, {"</arg>"}},
      {R"({"$ref": "#/$defs/color"})", {"red"}, {"\"red\"", "blue"}},
      {R"({"$ref": "#/$defs/tree"})", {R"({"next": {"next": {}}})"}, {"x", R"({"next": 1})"}},
      {R"({"anyOf": [{"$ref": "#/$defs/color"}, {"type": "null"}]})", {"red", "null"}, {"blue", "1"}},
      {R"({"type": ["string", "null"], "pattern": "^[a-z]+$"})", {"abc", "null"}, {"ABC", "\"abc\""}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})", {"ab", "ü\nz"}, {"a", "abcd"}},
      {R"({"type": "string", "maxLength": 17})", {std::string(2000, 'x')}, {}},
      {R"({"type": "string", "pattern": "x", "maxLength": 17})", {std::string(17, 'x')}, {std::string(18, 'x')}},
      {R"({"allOf": [{"type": "string"}, {"enum": ["x", "yy"]}]})", {"yy"}, {"y"}},
      {R"({"type": "string", "format": "date"})", {"2026-01-31"}, {"tomorrow"}},
  };
  for (const auto& each : cases) {
    for (const std::string& value : each.good) EXPECT_TRUE(takes_value(each.schema, value)) << each.schema << value;
    for (const std::string& value : each.bad) EXPECT_FALSE(takes_value(each.schema, value)) << each.schema << value;
  }
}

TEST_F(ElementGrammar, WhatIsAStringIsSaid) {
  format_ = element_format(element_template(kTellingTags));
  const struct {
    std::string schema;
    std::vector<std::string> good, bad;  // what stands behind `string="`
  } cases[] = {
      {R"({"type": "string"})", {"true\">x", "true\">1", "true\">"}, {"false\">\"x\"", "false\">1", "true\">a</arg>b"}},
      {R"({"type": "integer"})", {"false\">1"}, {"true\">1", "false\">x"}},
      {R"({"type": "array"})", {R"(false">["x", 1])"}, {R"(true">["x", 1])"}},
      {"{}",
       {"true\">x", "true\">1", "false\">1", "false\">null", R"(false">{"a": "x"})"},
       {"false\">x", "false\">\"x\""}},
      {"true", {"true\">x", "false\">[]"}, {"false\">x"}},
      {R"({"enum": ["red", "3", 3, null]})",
       {"true\">red", "true\">3", "false\">3", "false\">null"},
       {"true\">null", "false\">red"}},
      {R"({"anyOf": [{"$ref": "#/$defs/color"}, {"type": "null"}]})", {"true\">red", "false\">null"}, {"true\">null"}},
      {R"({"type": ["string", "null"], "pattern": "^[a-z]+$"})",
       {"true\">null", "false\">null"},
       {"true\">ABC", "false\">abc"}},
  };
  for (const auto& each : cases) {
    const auto takes_said = [&](const std::string& said) {
      const std::string parameters =
          R"({"properties": {"a": )" + each.schema + R"(}, "required": ["a"], "$defs": {"color": {"enum": ["red"]}}})";
      const auto matcher = store_.matcher(GrammarKind::ToolCalls, text(parameters));
      return matcher->try_accept_text("<fn name=\"f\">\n<arg name=\"a\" string=\"" + said + "</arg>\n</fn>") &&
             matcher->is_complete();
    };
    for (const std::string& said : each.good) EXPECT_TRUE(takes_said(said)) << each.schema << said;
    for (const std::string& said : each.bad) EXPECT_FALSE(takes_said(said)) << each.schema << said;
  }
}

// At the end of any text, which could go on for ever; all else is as it is written.
TEST_F(ElementGrammar, BlanksBeforeTheEndOfAStringMayBeMissing) {
  const std::string schema = R"({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})";
  EXPECT_TRUE(takes(schema, "<arg=a>\n1\n</arg>\n<arg=b>\nx</arg>\n"));
  EXPECT_FALSE(takes(schema, "<arg=b>\nx\n</arg>"));
  EXPECT_FALSE(takes(schema, "<arg=a>\n1</arg>\n"));
  EXPECT_FALSE(takes(schema, "<arg=a>1\n</arg>\n"));
}

TEST_F(ElementGrammar, NamesAreTheSchemas) {
  const auto element = [](const std::string& name) { return "<arg=" + name + ">\n1\n</arg>\n"; };
  const std::string a = element("a"), b = element("b"), c = element("c");
  const std::string integers = R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, )";
  EXPECT_TRUE(takes("{}", ""));
  EXPECT_FALSE(takes("{}", a));  // of which no parameter is declared
  const std::string one = integers + R"("required": ["b"]})";
  for (const std::string& good : {b, a + b}) EXPECT_TRUE(takes(one, good)) << good;
  for (const std::string& bad : {std::string(), a, b + a, b + b, b + c}) EXPECT_FALSE(takes(one, bad)) << bad;
  const std::string open = integers + R"("additionalProperties": {"type": "integer"}, "maxProperties": 2})";
  for (const std::string& good : {std::string(), a, a + b, c, a + c, c + element("d.e-F_9")}) {
    EXPECT_TRUE(takes(open, good)) << good;
  }
  for (const std::string& bad : {a + b + c, c + a, element("x y"), element("<")}) EXPECT_FALSE(takes(open, bad)) << bad;
  // Of two sets of parameters one.
  const std::string either = R"({"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                                           {"$ref": "#/$defs/b"}],
                                 "$defs": {"b": {"properties": {"b": {"type": "integer"}}, "required": ["b"]}}})";
  EXPECT_TRUE(takes(either, a) && takes(either, b));
  EXPECT_FALSE(takes(either, "") || takes(either, a + b));
}

TEST_F(ElementGrammar, WhatIsNotSupportedIsRefusedWhereItIsStrict) {
  const auto error = [&](const std::string& schema) {
    return test::error_of(ErrorCode::Unsupported, [&] {
      const std::string grammar = text(R"({"properties": {"a": )" + schema + "}}", "true");
      static_cast<void>(compile_grammar(GrammarKind::ToolCalls, grammar));
    });
  };
  EXPECT_EQ(error(R"({"not": {}})"), "tool \"f\": JSON schema, #/properties/a: keyword 'not' is not supported");
  EXPECT_EQ(
      error(R"({"type": "string", "maxLength": 17})"),
      "tool \"f\": JSON schema, #/properties/a: keyword 'maxLength' above 16 is not supported here without a pattern");
}

TEST_F(ElementGrammar, WordsArePythonsWhereTheTemplateWritesThem) {
  for (const bool python : {true, false}) {
    format_.elements->python_words = python;
    for (const std::string word : {"True", "False"}) EXPECT_EQ(takes_value(R"({"type": "boolean"})", word), python);
    EXPECT_EQ(takes_value(R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})", "None"), python);
    EXPECT_TRUE(takes_value(R"({"type": "boolean"})", "true"));
    EXPECT_FALSE(takes_value(R"({"type": "boolean"})", "None") || takes_value(R"({"type": "null"})", "True"));
  }
}

TEST_F(ElementGrammar, FreeCallsBeginBehindTheFirstTag) {
  const ToolRequest wanted = read_tool_request(R"({"tools": [{"function": {"name": "f"}}]})");
  const auto matcher =
      store_.matcher(GrammarKind::ToolCalls, tool_grammar_text(wanted, format_, vocabulary_, wanted.calls_begin()));
  EXPECT_FALSE(matcher->try_accept_text("<tool>"));
  EXPECT_FALSE(matcher->try_accept_text("\n{"));
  EXPECT_TRUE(matcher->try_accept_text("\n<fn=f>\n</fn>\n</tool>") && matcher->is_complete());
}

// Names with no mark behind them, of which one begins another.
TEST_F(ElementGrammar, NamesMayEndWhereElementsBegin) {
  format_ = element_format(keyed_template("", "", ""));
  const std::string numbers = R"("parameters": {"properties": {"a": {"type": "integer"}}, "required": ["a"]})";
  const ToolRequest wanted = read_tool_request(R"({"tools": [{"function": {"name": "f", )" + numbers +
                                               R"(}}, {"function": {"name": "ff"}}], "tool_choice": "required"})");
  const auto takes_all = [&](const std::string& answer) {
    const auto matcher =
        store_.matcher(GrammarKind::ToolCalls, tool_grammar_text(wanted, format_, vocabulary_, CallsBegin::WithAnswer));
    return matcher->try_accept_text(answer) && matcher->is_complete();
  };
  const std::string f = "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>";
  const std::string ff = "<tool_call>ff</tool_call>";
  for (const std::string& good : {f, ff, ff + f + ff}) EXPECT_TRUE(takes_all(good)) << good;
  for (const std::string bad : {"<tool_call>f</tool_call>", "<tool_call>fff</tool_call>", "<tool_call></tool_call>",
                                "<tool_call>ff<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
                                "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"}) {
    EXPECT_FALSE(takes_all(bad)) << bad;
  }
  // Free calls begin with the name.
  const auto matcher = store_.matcher(GrammarKind::ToolCalls,
                                      tool_grammar_text(wanted, format_, vocabulary_, CallsBegin::BehindTrigger));
  EXPECT_FALSE(matcher->try_accept_text("<"));
  EXPECT_TRUE(matcher->try_accept_text("ff</tool_call>" + f) && matcher->is_complete());
}

TEST_F(ElementGrammar, SeveralCalls) {
  const std::string call = "<tool>\n<fn=f>\n<arg=a>\n1\n</arg>\n</fn>\n</tool>";
  const auto matcher = store_.matcher(GrammarKind::ToolCalls, text(R"({"properties": {"a": {"type": "integer"}}})"));
  EXPECT_TRUE(matcher->try_accept_text(call) && matcher->is_complete());
  EXPECT_TRUE(matcher->try_accept_text("\n" + call) && matcher->is_complete());
  EXPECT_FALSE(matcher->try_accept_text("\n<tool>\n<fn=g>"));
}

}  // namespace
}  // namespace inflight
