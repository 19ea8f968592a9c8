// SPDX-License-Identifier: Apache-2.0
// Goal: the form of calls is what the template writes, control tokens among it are tokens and not text, and what is no
// request is refused by name. That published templates are understood is tests/python_text/tool_calls_test.py's to
// show.
//
// Covers: text/grammar_tools.cpp
#include "text/tool_call_format.h"

#include <gtest/gtest.h>

#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/test_data.h"
#include "text/grammar.h"
#include "text/grammar_tools.h"

namespace inflight {
namespace {

const ChatSettings kSettings{"<s>", "</s>", 0};
const std::string kTools = R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}}}])";

// A template that writes `begin` NAME `middle` ARGUMENTS `end` for each call.
std::string template_of(const std::string& begin, const std::string& middle, const std::string& end) {
  return "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}" + begin +
         "{{ c.function.name }}" + middle + "{{ c.function.arguments | tojson }}" + end +
         "{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
}

ToolCallFormat format_of(const std::string& source) { return find_tool_call_format(ChatTemplate(source), kSettings); }

TEST(ToolCallFormat, IsWhatTheTemplateWrites) {
  const ToolCallFormat format = format_of(template_of("<call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</call>"));
  EXPECT_TRUE(format.from_template);
  EXPECT_EQ(format.begin, "<call>\n{\"name\": \"");
  EXPECT_EQ(format.middle, "\", \"arguments\": ");
  EXPECT_EQ(format.separator, "}\n</call><call>\n{\"name\": \"");
  EXPECT_EQ(format.end, "}\n</call>");
  EXPECT_EQ(format.begin_mark(), "<call>");
  EXPECT_EQ(format.end_mark(), "</call>");
  EXPECT_FALSE(format.has_ids());
  EXPECT_EQ(format_of(template_of("[", "](", ")")).begin, ToolCallFormat{}.begin);  // no JSON: the form of our own
  EXPECT_FALSE(format_of(template_of("{\"fn\": \"", "\", \"with\": ", "}")).from_template);  // unreadable
  EXPECT_FALSE(format_of("{{ messages[0].content }}").from_template);
  EXPECT_FALSE(format_of("{{ raise_exception('never') }}").system_message);
  EXPECT_EQ(ToolCallFormat{}.begin_mark(), "");
}

// Names that are no JSON: between marks, which ids and a number of the call may be among.
TEST(ToolCallFormat, NamesMayBePlainText) {
  const ToolCallFormat fenced = format_of(template_of("<tool>\n", "\n```json\n", "\n```</tool>"));
  EXPECT_TRUE(fenced.from_template && fenced.plain_name);
  EXPECT_EQ(fenced.begin_mark(), "<tool>");
  EXPECT_EQ(fenced.middle, "\n```json\n");
  EXPECT_EQ(fenced.separator, "\n```</tool><tool>\n");
  EXPECT_EQ(fenced.end_mark(), "\n```</tool>");
  const ToolCallFormat counted = format_of(template_of("<call>f.", ":{{ loop.index0 }}<with>", "</call>"));
  EXPECT_EQ(counted.middle, ":CallIndex<with>");
  EXPECT_EQ(counted.separator, "</call><call>f.");
  EXPECT_FALSE(counted.has_ids());
  const ToolCallFormat identified = format_of(template_of("[CALL]{{ c.id }}[NAME]", "[ARGS]", ""));
  EXPECT_EQ(identified.begin_mark(), "[CALL]");
  EXPECT_TRUE(identified.has_ids());
  EXPECT_TRUE(format_of(template_of("[CALL]", "[ID]{{ c.id }}[ARGS]", "")).has_ids());
  EXPECT_TRUE(format_of(template_of("<call>[{\"", "\": ", "}]</call>")).plain_name);  // the name is a key
  // Calls may end their turn with another mark than answers do.
  std::string source = template_of("<fn=", ">", "</fn>");
  source.replace(source.find("[end]"), 5, "{{ '[stop]' if m.tool_calls else '[end]' }}");
  EXPECT_EQ(format_of(source).end, "</fn>");
  // Or with the last of theirs.
  std::string texts = template_of("<fn=", ">", "</fn>");
  texts.replace(texts.find("[end]"), 5, "{{ '</text>' if not m.tool_calls }}[end]");
  EXPECT_EQ(format_of(texts).end, "</fn>");
  EXPECT_EQ(format_of(texts).separator, "</fn><fn=");
  const std::string list =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ '</text>' if not m.tool_calls }}{% if m.tool_calls "
      "%}<calls>"
      "{% for c in m.tool_calls %}<fn={{ c.function.name }}>{{ c.function.arguments | tojson }}</fn>{% endfor "
      "%}</calls>"
      "{% endif %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  EXPECT_EQ(format_of(list).end, "</fn></calls>");
  const ToolCallFormat before = format_of(template_of("<call>{{ loop.index }}<name>", "<with>", "</call>"));
  EXPECT_EQ(before.begin + "|" + before.separator, "<call>CallIndex<name>|</call><call>CallIndex<name>");
  EXPECT_EQ(before.begin_mark() + "|" + behind_trigger(before), "<call>|CallIndex<name>");
  // What does not count one by one: one call an answer.
  const struct {
    const char *begin, *middle, *end;
  } uncounted[] = {{"<call>{{ loop.index * 2 }}<name>", "<with>", "</call>"},
                   {"<call>{{ 'x' if loop.first else loop.index }}<name>", "<with>", "</call>"},
                   {"<call>", ":{{ loop.index if loop.index < 3 else 'x' }}<with>", "</call>"},
                   {"<call>{{ loop.index0 }}<name>", "<with>", "{{ loop.index0 }}</call>"}};
  for (const auto& each : uncounted) {
    EXPECT_EQ(format_of(template_of(each.begin, each.middle, each.end)).separator, "") << each.begin << each.middle;
  }
  const struct {
    const char *begin, *middle, *end;
  } unreadable[] = {{"", " ", ";"}, {"call ", ":", ""}, {"<<", ">", ""}, {"<f>", "", ""}, {"<f>{{ c.id }}", ">", ""}};
  for (const auto& each : unreadable) {
    EXPECT_FALSE(format_of(template_of(each.begin, each.middle, each.end)).from_template) << each.begin;
  }
}

// Templates that end a turn where the next one begins, or only with that one's mark.
TEST(ToolCallFormat, TurnsMayEndWithWhatFollows) {
  const std::string hermes = template_of("<call>{\"name\": \"", "\", \"arguments\": ", "}</call>");
  for (const std::string end : {"{{ '[end]' if m.role == 'assistant' and not loop.last }}", ""}) {
    std::string source = hermes;
    source.replace(source.find("[end]"), 5, end);
    const ToolCallFormat format = format_of(source);
    EXPECT_TRUE(format.from_template) << end;
    EXPECT_EQ(format.separator + "|" + format.end, "}</call><call>{\"name\": \"|}</call>") << end;
  }
  // Where calls do not end alike, those tell that nothing follows.
  const std::string list =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}<calls>[{% for c in m.tool_calls %}"
      "{{ '' if loop.first else ', ' }}{\"{{ c.function.name }}\": {{ c.function.arguments | tojson }}}{% endfor %}]"
      "<done>{% endif %}{{ '[end]' if not m.tool_calls }}{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  for (const std::string condition :
       {" if not m.tool_calls", " if false", "", " if m.role == 'assistant' and not loop.last"}) {
    std::string ended = list;
    ended.replace(list.find(" if not m.tool"), std::string(" if not m.tool_calls").size(), condition);
    EXPECT_EQ(format_of(ended).end, "}]<done>") << condition;
  }
  // Prompts may always have begun the answer, so that a last answer ends with more than its turn does (Cohere).
  const std::string begun =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}<calls>[{% for c in m.tool_calls %}"
      "{{ '' if loop.first else ', ' }}{\"id\": {{ loop.index0 }}, \"f\": \"{{ c.function.name }}\", \"with\": "
      "{{ c.function.arguments | tojson }}}{% endfor %}]</calls>{% else %}</text>{% endif %}[end]"
      "{{ '[assistant]' if loop.last }}{% endfor %}";
  EXPECT_EQ(format_of(begun).begin_mark() + "|" + format_of(begun).end, "<calls>|}]</calls>");
  EXPECT_EQ(format_of(begun).separator, "}, {\"id\": CallIndex, \"f\": \"");
}

TEST(ToolCallFormat, PlainNamesUnderTheGrammar) {
  const Vocabulary vocabulary(load_vocabulary(test::kDemoModel));
  GrammarStore store(vocabulary, {*vocabulary.eos()});
  const ToolCallFormat format = format_of(template_of("<call>", "[ID]{{ c.id }}:{{ loop.index0 }}[ARGS]", "</call>"));
  const std::string one = R"(f[ID]abcDEF123:0[ARGS]{"a": 2}</call>)";
  for (const std::string choice : {"\"required\"", "\"auto\"", R"({"function": {"name": "f"}})"}) {
    const ToolRequest request = read_tool_request("{" + kTools + ", \"tool_choice\": " + choice + "}");
    const std::string text = tool_grammar_text(request, format, vocabulary, request.calls_begin());
    const std::string begin = request.forced ? "<call>" : "";
    const auto takes = [&](const std::string& answer) {
      const auto matcher = store.matcher(GrammarKind::ToolCalls, text);
      return matcher->try_accept_text(begin + answer) && matcher->is_complete();
    };
    EXPECT_TRUE(takes(one)) << choice;
    EXPECT_EQ(takes(one + R"(<call>f[ID]000000000:12[ARGS]{"a": 1}</call>)"), request.parallel) << choice;
    for (const std::string wrong : {R"(g[ID]abcDEF123:0[ARGS]{"a": 2}</call>)", R"(f[ID]abc:0[ARGS]{"a": 2}</call>)",
                                    R"(f[ID]abcDEF123:[ARGS]{"a": 2}</call>)", R"("f"[ID]abcDEF123:0[ARGS]{}</call>)",
                                    R"(f[ID]abcDEF123:0[ARGS]{"a": 3}</call>)", R"(f[ID]abcDEF123:0[ARGS]{"a": 2})"}) {
      EXPECT_FALSE(takes(wrong)) << choice << wrong;
    }
  }
}

// Where a template writes calls but not the functions, the model is told both.
TEST(ToolCallFormat, FunctionsThatTheTemplateLeavesOutAreTold) {
  const std::string source = template_of("<call>", "[ARGS]", "</call>");
  const std::string request = "{" + kTools + R"(, "messages": [{"role": "user", "content": "Hi"}]})";
  const std::string adapted = adapt_to_format(format_of(source), request);
  EXPECT_NE(adapted.find("<call>NAME[ARGS]{...}</call>"), std::string::npos) << adapted;
  EXPECT_NE(adapted.find("\\\"name\\\": \\\"f\\\""), std::string::npos) << adapted;
  EXPECT_EQ(adapt_to_format(format_of("{{ tools }}" + source), request), request);
}

// Prompts that end with what earlier answers do not have, as those of models that think.
TEST(ToolCallFormat, IsFoundBehindAPromptThatBeginsTheAnswer) {
  std::string source = template_of("<tool>{\"name\": \"", "\", \"arguments\": ", "}</tool>");
  for (const std::string begun : {"<think>\n", "<think></think>", "<to>", "Here is what I think:", "<tool"}) {
    const ToolCallFormat format = format_of(source + "{% if add_generation_prompt %}" + begun + "{% endif %}");
    EXPECT_TRUE(format.from_template) << begun;
    EXPECT_EQ(format.begin, begun == "<tool" ? ">{\"name\": \"" : "<tool>{\"name\": \"") << begun;
  }
  // Nor is what begins it with other blanks, of which the beginning would be the answer's.
  std::string blanks = source;
  blanks.replace(blanks.find("{% if add"), std::string::npos, "{% if add_generation_prompt %} [assistant]{% endif %}");
  EXPECT_FALSE(format_of(blanks).from_template);
  // Another conversation than the prompt's is no answer to it.
  EXPECT_FALSE(format_of("{% if add_generation_prompt %}Answer this.{% endif %}" + source).from_template);
}

TEST(ToolCallFormat, ControlTokensAreNoText) {
  const Vocabulary vocabulary(load_vocabulary(test::kDemoModel));
  const TokenId mark = *vocabulary.find("<|im_start|>");
  ASSERT_TRUE(vocabulary.is_control(mark));
  GrammarStore store(vocabulary, {*vocabulary.eos()});
  const ToolCallFormat format = format_of(template_of("<|im_start|>{\"name\": \"", "\", \"arguments\": ", "}"));
  EXPECT_EQ(tool_call_tokens(format, vocabulary).front(), mark);
  const ToolCallFormat plain = format_of(template_of("<call>", "<|im_start|>", ""));
  EXPECT_EQ(tool_call_tokens(plain, vocabulary), std::vector{mark});
  const std::string text = tool_grammar_text(read_tool_request("{" + kTools + R"(, "tool_choice": "required"})"),
                                             format, vocabulary, CallsBegin::WithAnswer);
  const auto matcher = store.matcher(GrammarKind::ToolCalls, text);
  std::vector<uint32_t> mask(static_cast<size_t>(vocabulary.size() + 31) / 32);
  matcher->allow(mask);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const bool allowed = (mask[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32U) & 1U) != 0;
    EXPECT_EQ(allowed, id == mark) << id;
  }
  EXPECT_FALSE(matcher->try_accept_text("<|im_start|>"));
  EXPECT_TRUE(matcher->try_accept(mark));
  EXPECT_TRUE(matcher->try_accept_text(R"({"name": "f", "arguments": {"a": 2}})"));
  EXPECT_TRUE(matcher->is_complete());
  EXPECT_TRUE(matcher->try_accept(mark));  // one more call
  // Free calls begin behind their mark.
  const auto free = store.matcher(
      GrammarKind::ToolCalls,
      tool_grammar_text(read_tool_request("{" + kTools + "}"), format, vocabulary, CallsBegin::BehindTrigger));
  EXPECT_TRUE(free->try_accept_text(R"({"name": "f", "arguments": {"a": 1}})"));
  EXPECT_TRUE(free->is_complete());
}

TEST(ToolCallFormat, BadRequestsAreNamed) {
  const auto error = [](const std::string& text) {
    return test::error_of(ErrorCode::InvalidArgument, [&] { static_cast<void>(read_tool_request(text)); });
  };
  EXPECT_EQ(error("[]"), "structured_tools: not a JSON object");
  EXPECT_EQ(error("{}"), "structured_tools: tools must be a list of functions");
  EXPECT_EQ(error(R"({"tools": [{}]})"), "structured_tools: tools[0].function has no name");
  EXPECT_EQ(error("{" + kTools + R"(, "tool_choice": {"function": {"name": "g"}}})"),
            "structured_tools: tool_choice names 'g', which is none of the tools");
  EXPECT_NE(error("{" + kTools + R"(, "tool_choice": "maybe"})").find("tool_choice must be"), std::string::npos);
  EXPECT_EQ(error("{" + kTools + R"(, "parallel_tool_calls": 1})"),
            "structured_tools: parallel_tool_calls must be true or false");
}

// What is not supported of a schema is left out, but refused where it is strict; what no text can satisfy is an error
// where the call is forced, else the call is free of it.
TEST(ToolCallFormat, SchemasThatCannotBeFollowed) {
  const Vocabulary vocabulary(load_vocabulary(test::kDemoModel));
  GrammarStore store(vocabulary, {*vocabulary.eos()});
  const ToolCallFormat format = format_of(template_of("<call>{\"name\": \"", "\", \"arguments\": ", "}</call>"));
  const auto text = [&](const std::string& parameters, const std::string& strict, const char* choice) {
    const std::string request = R"({"tools": [{"function": {"name": "f", "parameters": )" + parameters + strict +
                                R"(}}], "tool_choice": )" + choice + "}";
    const ToolRequest wanted = read_tool_request(request);
    return tool_grammar_text(wanted, format, vocabulary, wanted.calls_begin());
  };
  const std::string sets =
      R"({"properties": {"a": {"items": {"type": "integer"}, "uniqueItems": true}}, "required": ["a"]})";
  const std::string refusal =
      "tool \"f\": JSON schema, #/properties/a: keyword 'uniqueItems' is not supported but for items of up to 8 listed "
      "values";
  for (const char* const choice : {"\"required\"", "\"auto\"", R"({"function": {"name": "f"}})"}) {
    const std::string begin = choice == std::string("\"auto\"") ? "" : "<call>";
    for (const char* const strict : {"", R"(, "strict": false)"}) {
      const auto matcher = store.matcher(GrammarKind::ToolCalls, text(sets, strict, choice));
      EXPECT_TRUE(matcher->try_accept_text(begin + R"({"name": "f", "arguments": {"a": [)")) << choice << strict;
      EXPECT_FALSE(matcher->try_accept_text("\"x")) << choice << strict;
      EXPECT_TRUE(matcher->try_accept_text("1, 1]}}</call>")) << choice << strict;
    }
    EXPECT_EQ(test::error_of(ErrorCode::Unsupported,
                             [&] {
                               const std::string strict = text(sets, R"(, "strict": true)", choice);
                               static_cast<void>(compile_grammar(GrammarKind::ToolCalls, strict));
                             }),
              refusal);
  }
  const std::string none = R"({"properties": {"a": false}, "required": ["a"]})";
  static_cast<void>(compile_grammar(GrammarKind::ToolCalls, text(none, "", "\"auto\"")));
  EXPECT_EQ(test::error_of(ErrorCode::InvalidArgument,
                           [&] {
                             const std::string forced = text(none, "", "\"required\"");
                             static_cast<void>(compile_grammar(GrammarKind::ToolCalls, forced));
                           }),
            "tool \"f\": no text satisfies the grammar");
  EXPECT_EQ(test::error_of(ErrorCode::InvalidArgument,
                           [&] { static_cast<void>(text("{}", R"(, "strict": 1)", "\"auto\"")); }),
            "structured_tools: tools[0].function.strict must be true or false");
}

}  // namespace
}  // namespace inflight
