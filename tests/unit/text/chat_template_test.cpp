// SPDX-License-Identifier: Apache-2.0
// What a differential test cannot say: errors and their lines, limits, time, threads. That the text is jinja2's own is
// tests/python_text/jinja_test.py's to show; a few expected texts here are from its runs.
//
// Covers: text/chat_template.cpp, text/jinja_lexer.cpp, text/jinja_parser.cpp, text/jinja_expressions.cpp
//
// Covers: text/jinja_interpreter.cpp, text/jinja_statements.cpp, text/jinja_operators.cpp, text/jinja_value.cpp
//
// Covers: text/jinja_filters.cpp, text/jinja_list_filters.cpp, text/jinja_tests.cpp, text/jinja_methods.cpp
//
// Covers: text/jinja_call.cpp, text/jinja_strings.cpp
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "model/model_loader.h"
#include "support/bounded_run.h"
#include "support/expect_error.h"
#include "support/test_data.h"

namespace inflight {
namespace {

const std::string kRequest = R"({"messages": [{"role": "user", "content": "Hi"}], "x": 3, "deep": {"a": [1, 2]}})";

constexpr const char* kTooLarge = "chat template: its values and output take more than 268435456 bytes";
constexpr const char* kTooMuch = "chat template: looks at more than 1073741824 bytes";

std::string render(const std::string& source) { return render_chat(source, kRequest, {"<s>", "</s>", 0}); }

std::string error_of(const std::string& source) {
  return test::error_of(ErrorCode::InvalidArgument, [&] { (void)render(source); });
}

TEST(ChatTemplate, RendersTheDemoModelsTemplate) {
  const VocabularyData data = load_vocabulary(test::kDemoModel);
  const Vocabulary vocabulary(data);
  const ChatSettings settings = chat_settings(vocabulary, 0);
  EXPECT_EQ(settings.bos_token, "<|endoftext|>");
  EXPECT_EQ(settings.eos_token, "<|im_end|>");
  const std::string request =
      R"({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],)"
      R"( "add_generation_prompt": true})";
  EXPECT_EQ(render_chat(data.chat_template, request, settings),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\n{{ 'x' + 1 }}"), "chat template line 2: str + int is not possible");
  EXPECT_EQ(error_of("{% if x %}\n\n{{ missing.y }}{% endif %}"), "chat template line 3: 'missing' is undefined");
  EXPECT_EQ(
      error_of("{% frob %}"),
      "chat template line 1: tag 'frob' is not supported, only: if, for, set, macro, call, with, filter, block, raw, "
      "break, continue, generation");
  EXPECT_EQ(error_of("{% for a in [1] %}{% block b %}{{ a }}{% endblock %}{% endfor %}"),
            "chat template line 1: block 'b' within another one's body needs 'scoped'");
  EXPECT_EQ(error_of("\n\n{{ x | frob }}"), "chat template line 3: filter 'frob' is not supported");
  EXPECT_EQ(error_of("{{ x is frob }}"), "chat template line 1: test 'frob' is not supported");
  EXPECT_EQ(error_of("{{ raise_exception('No\nway') }}"), "chat template line 1: No way");
  EXPECT_EQ(error_of("{% if x %}"), "chat template line 1: the block is not closed with endif");
  EXPECT_EQ(error_of("a\n{{ x"), "chat template line 2: the tag is not closed with }}");
  EXPECT_EQ(error_of("{{ 'x }}"), "chat template line 1: the string is not closed");
  EXPECT_EQ(error_of("{{ x ! }}"), "chat template line 1: unexpected character '!'");
  EXPECT_EQ(error_of("{{ (x }}"), "chat template line 1: unexpected '}'");
  EXPECT_EQ(error_of("{{ x.y(1"), "chat template line 1: the tag is not closed with }}");
  EXPECT_EQ(error_of("{{ messages.append(1) }}"),
            "chat template line 1: append() changes its value, which templates may not");
  EXPECT_EQ(error_of("{{ 9999999999999999999 }}"), "chat template line 1: number 9999999999999999999 is too large");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"), "chat template line 1: an integer is too large");
}

TEST(ChatTemplate, TakesCharactersFromTexts) {
  const std::string text = "{% set s = 'aé字🙂z' * 9 %}";
  EXPECT_EQ(render(text + "{{ s[1] }}{{ s[-2] }}{{ s[43:] }}{{ s[2:4] }}{{ s[5:4] }}{{ s[99] }}{{ s[-1:-4:-2] }}"),
            "é🙂🙂z字🙂z字");
}

TEST(ChatTemplate, WritesIntegersOfSixtyFourBitsAsTheyAre) {
  const char* const request =
      R"({"messages": [], "a": 9223372036854775807, "b": 18446744073709551615, "c": 18446744073709551616})";
  EXPECT_EQ(render_chat("{{ a }} {{ b }} {{ c }}", request, {}),
            "9223372036854775807 18446744073709551615 1.8446744073709552e+19");
  for (const char* const expression : {"b + 1", "1 - b", "-b", "b * 2.5", "b | abs", "b | round"}) {
    EXPECT_EQ(test::error_of(ErrorCode::InvalidArgument,
                             [&] { (void)render_chat(fmt::format("{{{{ {} }}}}", expression), request, {}); }),
              "chat template line 1: an integer is too large")
        << expression;
  }
}

// Whatever stands behind the last message, and whether the template trims it or not.
TEST(ChatTemplate, GoesOnWithTheLastMessage) {
  const auto render_to_go_on = [](const std::string& content, const std::string& expression) {
    const std::string request =
        R"({"continue_final_message": true, "messages": [{"role": "assistant", "content": ")" + content + R"("}]})";
    return render_chat("<|im|>\n{{ " + expression + " }}<|end|>\n", request, {});
  };
  for (const std::string content : {"", "<", "end", "|", "e ", " e", "<|end|>", "some text. "}) {
    EXPECT_EQ(render_to_go_on(content, "messages[0].content"), "<|im|>\n" + content);
  }
  for (const std::string content : {"", "<", "end", "e ", "  e  ", "  "}) {
    const size_t first = content.find_first_not_of(' ');
    const std::string trimmed =
        first == std::string::npos ? "" : content.substr(first, content.find_last_not_of(' ') + 1 - first);
    EXPECT_EQ(render_to_go_on(content, "messages[0].content | trim"), "<|im|>\n" + trimmed) << '"' << content << '"';
  }
  EXPECT_EQ(test::error_of(ErrorCode::InvalidArgument, [&] { (void)render_to_go_on("a", "messages[0].role"); }),
            "continue_final_message: the chat template does not write the last message as it is");
}

TEST(ChatTemplate, RefusesRequestsThatAreNone) {
  const auto refuse = [](const std::string& request) {
    return test::error_of(ErrorCode::InvalidArgument, [&] { (void)render_chat("x", request, {}); });
  };
  EXPECT_NE(refuse("{").find("chat request: "), std::string::npos);
  EXPECT_EQ(refuse("[]"), "chat request: not a JSON object");
  EXPECT_EQ(refuse("{}"), "chat request: 'messages' must be a list");
  EXPECT_EQ(refuse(R"({"messages": "x"})"), "chat request: 'messages' must be a list");
  std::string deep(1000, '[');
  deep += std::string(1000, ']');
  EXPECT_EQ(refuse(R"({"messages": )" + deep + "}"), "chat request: nested deeper than 200 levels");
}

TEST(ChatTemplate, HostileTemplatesEndInAnError) {
  const std::string nested = "{{ " + std::string(200, '(') + "x" + std::string(200, ')') + " }}";
  EXPECT_EQ(error_of(nested), "chat template line 1: nested deeper than 64");
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  EXPECT_EQ(error_of(sum + " }}"), "chat template line 1: more than 500 operations in one statement");
  std::string blocks;
  for (int i = 0; i < 100; ++i) blocks += "{% if x %}";
  EXPECT_EQ(error_of(blocks), "chat template line 1: nested deeper than 64");
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            "chat template line 1: macros call one another deeper than 64");
  std::string equal = "1";
  for (int i = 0; i < 150; ++i) equal += " == 1";
  EXPECT_EQ(error_of("{% for a in range(90000) %}{% set c = " + equal + " %}{% endfor %}"),
            "chat template line 1: more than 10000000 steps");
  EXPECT_EQ(error_of("{{ 'x' * 9000000000 }}"), "chat template line 1: a repeated value is too long");
  EXPECT_EQ(
      error_of(
          "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
      "chat template: its values and output take more than 268435456 bytes");
  EXPECT_EQ(
      error_of("{% set ns = namespace(s=[]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"),
      "chat template: values nested deeper than 200");
  EXPECT_EQ(error_of("{{ ['a'] | map(*('map ' * 3000).split()) }}"),
            "chat template line 1: more than 1000 evaluations within one another");
  EXPECT_EQ(error_of("{{ ['a'] | map(*('map ' * 100000).split()) }}"),
            "chat template: its values and output take more than 268435456 bytes");
  EXPECT_EQ(error_of(std::string(limits::kTemplateBytesMax + 1, 'x')),
            "the chat template has 1048577 bytes, allowed: 1048576");
}

// Few steps and small values, but much to write or to look at: what a value holds several times counts each time.
TEST(ChatTemplate, HostileTemplatesTakeLittleMemoryAndTime) {
  const std::string text = "{% set s = 'x' * 30000000 %}";
  const std::string doubled =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (const char* const expression :
       {"s | replace('x', s)", "s.split('x')", "('a\\n' * 99) | indent(s)", "[s] * 99", "([s] * 99) | join",
        "'%(a)s' * 99 % {'a': s}", "('{0}' * 99).format(s)", "'a'.ljust(99, s)", "s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s"}) {
    EXPECT_EQ(error_of(text + "{{ " + expression + " }}"), kTooLarge) << expression;
  }
  EXPECT_EQ(error_of(doubled + "{{ ns.a | tojson }}"), kTooLarge);
  EXPECT_EQ(error_of(doubled + "{{ ns.a == ns.b }}"), kTooMuch);
  EXPECT_EQ(error_of(doubled + "{{ ns.a < ns.b }}"), kTooMuch);
  for (const char* const expression :
       {"'y' in s", "s == t", "f('y')", "[s] | map('int') | sum", "[t] | select('in', [s]) | list"}) {
    const std::string loop =
        "{% set t = 'x' * 30000000 %}{% set f = s.count %}{% for i in range(90000) %}{% if " + std::string(expression);
    EXPECT_EQ(error_of(text + loop + " %}{% endif %}{% endfor %}"), kTooMuch) << expression;
  }
  EXPECT_EQ(error_of("{{ range(100000) | unique | list | length }}"), kTooMuch);
}

// 1,000 entries, or names, 9,000 times, which take more than the limit as texts and lists of as many values do.
TEST(ChatTemplate, WhateverATemplateMakesCountsAsItsMemory) {
  std::string entries;
  std::string names;
  for (int i = 0; i < 1000; ++i) {
    entries += fmt::format("'k{}': 1, ", i);
    names += fmt::format("k{}, ", i);
  }
  const std::string name(50'000, 'n');
  for (const std::string& made : {
           std::string("{% set e = d.copy() %}"),
           std::string("{% set e = dict(d) %}"),
           std::string("{% set e = namespace(d) %}"),
           "{% if i < 4000 %}{% set e = {" + entries + "} %}{% endif %}",
           "{% macro " + name + "() %}{% endmacro %}",
           "{% macro m() %}{% endmacro %}{% set " + names + " = v %}",
       }) {
    EXPECT_EQ(error_of("{% set d = {" + entries + "} %}{% set v = [1] * 1000 %}{% for i in range(9000) %}" + made +
                       "{% endfor %}"),
              kTooLarge)
        << made.substr(0, 60);
  }
  std::string call = "{% set v = [1] * 6000000 %}{{ ";
  for (int i = 0; i < 12; ++i) call += "range(*v, ";
  EXPECT_EQ(error_of(call + "1" + std::string(12, ')') + " }}"), kTooLarge);
  // What is freed does not count: 40,000 variables of 10,000 bytes, one at a time.
  const std::string variable = "{% with " + name.substr(0, 10'000) + " = 1 %}{% endwith %}";
  EXPECT_EQ(render("{% for i in range(40000) %}" + variable + "{% endfor %}"), "");
}

// Searches of 2 MB in 6 MB that nearly match at every place, with 4 * 10^12 comparisons for those who begin anew at
// each.
TEST(ChatTemplate, SearchesTakeTheTimeOfTheirTexts) {
  const std::string texts =
      "{% set n = 'a' * 2000000 ~ 'b' %}{% set s = 'a' * 6000000 %}{% set set = 'b' * 2000000 ~ 'a' %}";
  const std::pair<const char*, const char*> cases[] = {
      {"s.find(n)", "-1"},
      {"(s ~ 'ba').find(n)", "4000000"},
      {"('ba' ~ s).rfind('b' ~ s)", "0"},
      {"n in s", "False"},
      {"n is in s", "False"},
      {"s.replace(n, '') == s", "True"},
      {"(s | replace(n, '')) == s", "True"},
      {"s.split(n) == [s]", "True"},
      {"s.rsplit(n) == [s]", "True"},
      {"s.count(n)", "0"},
      {"s.partition(n)[0] == s", "True"},
      {"s.rpartition(n)[2] == s", "True"},
      {"s.strip(set)", ""},
      {"s | trim(set)", ""},
      {"strftime_now('%f' * 2000000)", ""},
  };
  for (const auto& [expression, expected] : cases) {
    SCOPED_TRACE(expression);
    test::expect_bounded([&texts, expression = expression, expected = expected] {
      return render(texts + "{{ " + expression + " }}") == expected;
    });
  }
}

// Arguments that each of many calls reads anew, names and keys that are looked up again and again.
TEST(ChatTemplate, ReadingTheSameManyTimesIsCounted) {
  std::string entries;
  std::string parameters = "p";
  for (int i = 0; i < 40'000; ++i) parameters += fmt::format(", p{}", i);
  for (int i = 0; i < 200; ++i) entries += fmt::format("k ~ '{}': 1, ", i);
  const std::string name(200'000, 'n');
  const std::string texts = "{% set s = 'a' * 20000000 %}{% set many = [1] * 1000000 %}{% set k = 'k' * 300000 %}";
  const auto loop = [](const std::string& body) { return "{% for i in range(90000) %}" + body + "{% endfor %}"; };
  for (const std::string& source : {
           std::string("{{ many | map('replace', s, '') | list }}"),
           std::string("{{ many | map('default', **{'x': s}) | list }}"),
           std::string("{{ ([s] * 1000000) | map(attribute=0) | list }}"),
           std::string("{{ (['b'] * 1000000) | select('in', s) | list }}"),
           std::string("{{ many | map('default', *many) | list }}"),
           std::string("{{ s.startswith((s[1:] ~ 'b',) * 1000000) }}"),
           std::string("{{ ('%.1s' * 1000000) % ((s,) * 1000000) }}"),
           loop("{% set x = 'x' | replace(many, '') %}"),
           loop("{% if many | last %}{% endif %}") + loop("{% if many | select %}{% endif %}"),
           "{% set d = {" + entries + "} %}{% set e = {" + entries + "} %}" + loop("{% if d == e %}{% endif %}"),
           "{% set " + name + " = 1 %}" + loop("{% set x = " + name + " %}"),
           "{% set d = {} %}" + loop("{% set x = d." + name + " %}"),
           "{% set g = many | select %}" + loop("{% if 1 in g %}{% endif %}"),
           "{% macro m(" + name + ") %}{% endmacro %}" + loop("{{ m(" + name + "=1) }}"),
           "{% macro m(" + parameters + ") %}{% endmacro %}" + loop("{{ m() }}"),
       }) {
    SCOPED_TRACE(source.substr(0, 60));
    test::expect_bounded([&] { return error_of(texts + source) == kTooMuch; });
  }
  test::expect_bounded([&] {
    return error_of("{% set few = [0] * 1000 %}" + loop("{% if few | select('none') %}{% endif %}")) ==
           "chat template line 1: more than 10000000 steps";
  });
}

// Neither a list nor a mapping is a key, nor a tuple that has one in it.
TEST(ChatTemplate, KeysAreNoRecursion) {
  EXPECT_EQ(error_of("{{ {(1, ({},)): 1} }}"), "chat template: a value of type dict cannot be a key");
  EXPECT_EQ(error_of("{{ [] in {} }}"), "chat template: a value of type list cannot be a key");
  const auto key = [](const std::string& made, int times) {
    return "{% set ns = namespace(d=()) %}{% for i in range(" + std::to_string(times) + ") %}{% set ns.d = " + made +
           " %}{% endfor %}{{ {ns.d: 1} }}";
  };
  test::expect_bounded([&] {
    return error_of(key("(ns.d,)", 90'000)) == "chat template: values nested deeper than 200" &&
           error_of(key("(ns.d, ns.d)", 60)) == kTooMuch;
  });
}

TEST(ChatTemplate, ARecursiveLoopIsCalledWhenTheLoopsAroundItHaveEnded) {
  const std::string loops =
      "{% for i in [1] %}{% for j in [1] recursive %}{% set ns.l = loop %}{{ j }}{{ x }}{% endfor %}{% endfor %}";
  test::expect_bounded(
      [&] { return render("{% set ns = namespace(l=none) %}" + loops + " {{ ns.l([1, 2]) }}") == "13 1323"; });
}

TEST(ChatTemplate, PrintsTheGivenTime) {
  setenv("TZ", "UTC", 1);
  EXPECT_EQ(render_chat("{{ strftime_now('%d %b %Y %H:%M') }}", kRequest, {"", "", 1'700'000'000}),
            "14 Nov 2023 22:13");
}

TEST(ChatTemplate, OneTemplateServesManyThreads) {
  const ChatTemplate shared("{% for i in range(200) %}{{ messages[0].content | upper }}{{ i }},{% endfor %}");
  const std::string expected = shared.render(kRequest, {});
  std::vector<std::string> texts(4);
  std::vector<std::jthread> threads;
  for (std::string& text : texts) threads.emplace_back([&] { text = shared.render(kRequest, {}); });
  threads.clear();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

std::vector<std::string> split_at_signs(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char character : text) {
    if (character == '@') {
      parts.emplace_back();
    } else {
      parts.back() += character;
    }
  }
  return parts;
}

// Pieces of templates in random order: a text or one clear error, never a crash. Run under ASan too.
TEST(ChatTemplate, RandomTemplatesAreRenderedOrRefused) {
  std::vector<std::string> pieces =
      split_at_signs(R"({{@}}@{%@%}@{#@#}@-@+@ @x@messages@[0]@.role@'s'@if@else@endif@for@in@endfor@set@=@==@(@)"
                     R"()@[@]@{@}@:@|@upper@tojson@join@map@is@defined@not@and@1@0.5@macro@f@endmacro@call@)"
                     R"(endcall@,@*@**@%@~@loop@recursive@namespace(a=1)@range(3)@é@raw@endraw@{% for a in x %}@)"
                     R"({% endfor %}@{% if x %}@{% endif %}@{{ x }}@deep.a[::-1]@filter@endfilter@with@endwith@)"
                     R"(lipsum@)");
  pieces.insert(pieces.end(), {"\n", "\"", "\\", "\xFF"});
  std::mt19937 random(11);
  int rendered = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string source;
    for (auto count = random() % 30; count > 0; --count)
      source += pieces[random() % pieces.size()] + (random() % 3 == 0 ? " " : "");
    try {
      (void)render(source);
      ++rendered;
    } catch (const Error& error) {
      const std::string message = error.what();
      ASSERT_TRUE(message.starts_with("chat template")) << message << "\n" << source;
      ASSERT_EQ(message.find('\n'), std::string::npos) << message << "\n" << source;
    }
  }
  EXPECT_GT(rendered, 500);
}

// Published templates with a random byte changed or a piece cut out.
TEST(ChatTemplate, DamagedTemplatesAreRenderedOrRefused) {
  const std::string folder = test::shared_path("chat_templates");
  INFLIGHT_REQUIRE_FILE(folder);
  std::mt19937 random(12);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    for (int round = 0; round < 300; ++round) {
      std::string damaged = source;
      if (round % 2 == 0) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      } else {
        damaged.erase(random() % damaged.size(), random() % 40);
      }
      try {
        (void)render(damaged);
      } catch (const Error& error) {
        ASSERT_TRUE(std::string(error.what()).starts_with("chat template")) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace inflight
