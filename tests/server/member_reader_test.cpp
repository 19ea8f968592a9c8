// SPDX-License-Identifier: Apache-2.0
// Arguments that are members in a spelling of their own: what becomes of each value, and calls in answers cut at every
// place. The wanted JSON is written by hand: Python's values as its language reference has them, those between long
// quotes as they stand.
#include "server/member_reader.h"

#include <gtest/gtest.h>

#include "call_cases.h"

namespace inflight::server {
namespace {

// As LFM2.5 writes calls.
const CallMarks kPythonCalls{.begin = "<|tool_call_start|>",
                             .end = "]<|tool_call_end|>",
                             .open = {"["},
                             .middle = {"("},
                             .separator = {", "},
                             .members = MemberMarks{.middle = "=", .quote = "'", .end = ")"}};

// As Gemma 4 does.
const CallMarks kGemmaCalls{.begin = "<|tool_call>call:",
                            .end = "<tool_call|>",
                            .open = {""},
                            .middle = {"{"},
                            .separator = {"<tool_call|><|tool_call>call:"},
                            .members = MemberMarks{.middle = ":", .quote = "<|\"|>", .end = "}"}};

const Json kMemberTools = Json::parse(R"([{"function": {"name": "f"}}, {"function": {"name": "ff"}}])");

// The object that `members` are, without "{"; nothing: they are none, or have not ended.
std::optional<std::string> members_read(const MemberMarks& marks, const std::string& members) {
  MemberReader reader(marks);
  std::string json;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto status = reader.read(members[i], json);
    if (status == MemberReader::Status::NoElement) return std::nullopt;
    if (status == MemberReader::Status::Ended) return i + 1 == members.size() ? std::optional(json) : std::nullopt;
  }
  return std::nullopt;
}

struct ValueCase {
  std::string value, json;
};

void expect_values(const MemberMarks& marks, const std::vector<ValueCase>& cases) {
  for (const auto& [value, json] : cases) {
    const std::string found = members_read(marks, "a" + marks.middle + value + marks.end).value_or("none");
    EXPECT_EQ(found, "\"a\": " + json + "}") << value;
    EXPECT_FALSE(Json::parse("{" + found, nullptr, false).is_discarded()) << found;
  }
}

TEST(MemberReader, MakesJsonOfPythonsValues) {
  expect_values(*kPythonCalls.members, {
                                           {"'Paris'", R"("Paris")"},
                                           {"\"Paris\"", R"("Paris")"},
                                           {"''", R"("")"},
                                           {"'say \"x\"'", R"("say \"x\"")"},
                                           {R"("it's")", R"("it's")"},
                                           {R"('it\'s')", R"("it's")"},
                                           {R"("\"")", R"("\"")"},
                                           {R"('\\')", R"("\\")"},
                                           {R"('a\nb\tc\/d')", R"("a\nb\tc\/d")"},
                                           {R"('\u00e9\x41ä')", R"("\u00e9\u0041ä")"},
                                           {R"('\q\u12x\xg')", R"("\\q\\u12x\\xg")"},
                                           {"'two\nlines\\\n'", R"("two\nlines")"},
                                           {"5", "5"},
                                           {"-2.5e3", "-2.5e3"},
                                           {" True ", "true"},
                                           {"true", "true"},
                                           {"None", "null"},
                                           {"null", "null"},
                                           {"Paris", R"("Paris")"},
                                           {" no Paris\n", R"("no Paris")"},
                                           {"[]", "[]"},
                                           {"[1, 'x', None, [True]]", R"([1, "x", null, [true]])"},
                                           {"['a',]", R"(["a"])"},
                                           {"{}", "{}"},
                                           {R"({"k": "v", 'n' : {"m": [1]}})", R"({"k": "v", "n": {"m": [1]}})"},
                                           {"{k: 1, }", R"({"k": 1})"},
                                           {"'a)b]c'", R"("a)b]c")"},
                                       });
}

TEST(MemberReader, LeavesStringsBetweenLongQuotesAsTheyStand) {
  const auto quoted = [](const std::string& text) { return "<|\"|>" + text + "<|\"|>"; };
  expect_values(*kGemmaCalls.members, {
                                          {quoted("Paris"), R"("Paris")"},
                                          {quoted(""), R"("")"},
                                          {quoted(R"(\n "x" 'y' <|"| } <)"), R"("\\n \"x\" 'y' <|\"| } <")"},
                                          {quoted("a\nb"), R"("a\nb")"},
                                          {"5", "5"},
                                          {"false", "false"},
                                          {"None", "null"},
                                          {"<b>", R"("<b>")"},
                                          {"\"x\"", R"("x")"},
                                          {"[" + quoted("x,]") + ",1]", R"(["x,]", 1])"},
                                          {"{k:" + quoted("v") + ",n:{m:[]}}", R"({"k": "v", "n": {"m": []}})"},
                                          {"{" + quoted("k") + ":1}", R"({"<|\"|>k<|\"|>": 1})"},
                                      });
}

TEST(MemberReader, MembersFollowEachOther) {
  const MemberMarks& python = *kPythonCalls.members;
  EXPECT_EQ(members_read(python, ")"), "}");
  EXPECT_EQ(members_read(python, "a=1, b = 'x',c=[])"), R"("a": 1, "b": "x", "c": []})");
  EXPECT_EQ(members_read(*kGemmaCalls.members, "a:1,b:<|\"|>x<|\"|>}"), R"("a": 1, "b": "x"})");
  for (const std::string bad : {"a", "a=", "a=)", "a=,", "=1)", "a='x' b=1)", "a=[1})", "a={1})", "'a')", "a=1, b)",
                                "a={'k' 1})", "a=[,])", "a='x", "a=1"}) {
    EXPECT_EQ(members_read(python, bad), std::nullopt) << bad;
  }
  EXPECT_EQ(members_read(python, std::string(300, 'x') + "=1)"), std::nullopt);
  const std::string deep(100'000, '[');
  EXPECT_EQ(members_read(python, "a=" + deep), std::nullopt);  // nothing but memory for it
}

TEST(MemberReader, StringsAreToldAsTheyCome) {
  const auto told = [](const MemberMarks& marks, const std::string& members) {
    MemberReader reader(marks);
    std::string json;
    for (const char byte : members) static_cast<void>(reader.read(byte, json));
    return json;
  };
  EXPECT_EQ(told(*kPythonCalls.members, "a='A \"long\" sto"), R"("a": "A \"long\" sto)");
  EXPECT_EQ(told(*kPythonCalls.members, "a='x\\u00"), R"("a": "x)");  // half of an escape is held back
  EXPECT_EQ(told(*kGemmaCalls.members, "a:<|\"|>story<|\""), R"("a": "story)");
}

TEST(ToolCallParser, FindsCallsWhoseArgumentsAreMembers) {
  const std::string f = R"(f(city='Paris', days=[1, 2]))", called = R"(f{"city": "Paris", "days": [1, 2]})";
  const AnswerCase cases[] = {
      {"Let me see.<|tool_call_start|>[" + f + "]<|tool_call_end|>", "Let me see.", {called}},
      {"<|tool_call_start|>[" + f + ", ff(), " + f + "]<|tool_call_end|> text", "text", {called, "ff{}", called}},
      {"<|tool_call_start|>[ff(x=True)", "", {R"(ff{"x": true})"}},  // the end is missing
      {"<|tool_call_start|>[f(city='Par", "", {R"(f{"city": "Par)"}},
      {"<|tool_call_start|>[f(days=1", "", {R"(f{"days": )"}},
      {"<|tool_call_start|>[g(a=1)]<|tool_call_end|>", "<|tool_call_start|>[g(a=1)]<|tool_call_end|>", {}},
      {"<|tool_call_start|>[f", "<|tool_call_start|>[f", {}},
      {"<|tool_call_start|>[]<|tool_call_end|>", "<|tool_call_start|>[]<|tool_call_end|>", {}},
  };
  for (const AnswerCase& each : cases) expect_calls_of(each, kMemberTools, kPythonCalls);
  const std::string g = R"(<|tool_call>call:f{city:<|"|>a}b<|"|>,days:1}<tool_call|>)";
  const AnswerCase gemma_cases[] = {
      {g, "", {R"(f{"city": "a}b", "days": 1})"}},
      {"See." + g + "<|tool_call>call:ff{}<tool_call|>", "See.", {R"(f{"city": "a}b", "days": 1})", "ff{}"}},
      {"<|tool_call>call:f{city:<|\"|>half", "", {R"(f{"city": "half)"}},
      {"<|tool_call>call:h{}<tool_call|>", "<|tool_call>call:h{}<tool_call|>", {}},
      {"<|tool_call>call:f<tool_call|>", "<|tool_call>call:f<tool_call|>", {}},
  };
  for (const AnswerCase& each : gemma_cases) expect_calls_of(each, kMemberTools, kGemmaCalls);
}

}  // namespace
}  // namespace inflight::server
