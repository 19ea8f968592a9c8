// SPDX-License-Identifier: Apache-2.0
// Goal: what a model thinks is told apart from what it says, wherever the text is cut, and nothing is held back but
// what may be a mark. Truth: the answers as their models' publishers describe them, taken apart by hand.
//
// Covers: server/answer_parts.cpp
#include "server/reasoning_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace inflight::server {
namespace {

const ReasoningMarks kThink{.kind = ReasoningMarks::Kind::Marks, .begin = "<think>", .end = "</think>"};
const ReasoningMarks kHarmony{.kind = ReasoningMarks::Kind::Harmony};

struct Told {
  std::string reasoning, text;
  std::vector<ToolCall> calls;
  int whole_calls = 0;

  void take(const AnswerParts& parts) {
    reasoning += parts.reasoning();
    text += parts.text();
    for (const AnswerPart& part : parts.parts) {
      if (!part.call) continue;
      append_delta(*part.call, calls);
      whole_calls += part.call->ends ? 1 : 0;
    }
  }
};

// Pieces of `size` bytes.
Told told_of(const ReasoningMarks& marks, const std::string& prompt, const std::string& answer, size_t size) {
  ReasoningParser parser(marks, {"f"}, prompt);
  Told told;
  for (size_t at = 0; at < answer.size(); at += size) told.take(parser.push(answer.substr(at, size)));
  told.take(parser.finish());
  return told;
}

void expect(const ReasoningMarks& marks, const std::string& prompt, const std::string& answer,
            const std::string& reasoning, const std::string& text) {
  for (size_t size = 1; size <= answer.size(); ++size) {
    const Told told = told_of(marks, prompt, answer, size);
    EXPECT_EQ(told.reasoning, reasoning) << answer << " in pieces of " << size;
    EXPECT_EQ(told.text, text) << answer << " in pieces of " << size;
    EXPECT_TRUE(told.calls.empty());
  }
}

TEST(ReasoningParser, TellsWhatStandsBetweenMarks) {
  expect(kThink, "u\n", "<think>\nHm, 1 < 2.\n\n</think>\n\nYes. </think>", "Hm, 1 < 2.", "Yes. </think>");
  expect(kThink, "u\n", "\n<think></think>Yes", "", "Yes");
  expect(kThink, "u\n", "<thin air> and <think>no</think>", "", "<thin air> and <think>no</think>");
  expect(kThink, "u\n", " Yes\n", "", " Yes\n");
  expect(kThink, "u\n", "<thi", "", "<thi");
  expect(kThink, "u\n", "<think>never ends </th", "never ends </th", "");
  expect(kThink, "u\n<think>\n", "Hm\n</think>\n\nYes", "Hm", "Yes");
  expect(kThink, "u\n<think>\n", "<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>", "");
  expect(kThink, "u\n<think>\n\n</think>\n\n", "\n<think>Yes", "", "\n<think>Yes");
  expect({}, "u<think>", " <think>Hm</think> Yes", "", " <think>Hm</think> Yes");
}

TEST(ReasoningParser, HoldsBackNothingButMarks) {
  ReasoningParser parser(kThink, {}, "<think>");
  EXPECT_EQ(parser.push("\n\nA").reasoning(), "A");
  EXPECT_EQ(parser.push(" b <").reasoning(), " b");
  EXPECT_EQ(parser.push("c").reasoning(), " <c");
  EXPECT_EQ(parser.push("\n</think").reasoning(), "");
  EXPECT_TRUE(parser.is_reasoning());
  EXPECT_EQ(parser.push(">\n").text(), "");
  EXPECT_FALSE(parser.is_reasoning());
  EXPECT_EQ(parser.push("\nYes ").text(), "Yes ");
}

TEST(ReasoningParser, TellsHarmonysChannelsApart) {
  const std::string prompt = "<|start|>user<|message|>Hi<|end|><|start|>assistant";
  const std::string analysis = "<|channel|>analysis<|message|>Hm < 1<|end|>", next = "<|start|>assistant";
  const std::string final = "<|channel|>final<|message|>Yes.";
  expect(kHarmony, prompt, analysis + next + final + "<|return|>", "Hm < 1", "Yes.");
  expect(kHarmony, prompt, analysis + next + final, "Hm < 1", "Yes.");
  expect(kHarmony, prompt, final, "", "Yes.");
  expect(kHarmony, prompt, analysis + next + analysis + next + final, "Hm < 1\nHm < 1", "Yes.");
  expect(kHarmony, prompt, analysis + next + "<|channel|>commentary<|message|>First<|end|>" + next + final, "Hm < 1",
         "First\nYes.");
  expect(kHarmony, prompt, "<|channel|>commentary to=assistant" + analysis + next + final, "Hm < 1", "Yes.");
  expect(kHarmony, prompt, "<|channel|>analysis<|message|>never en", "never en", "");
  expect(kHarmony, prompt, analysis + next + "<|channel|>fin", "Hm < 1", "");
  expect(kHarmony, prompt, "no channel <|en", "", "no channel <|en");
  // Where the prompt has begun a message; a function that was not offered.
  expect(kHarmony, prompt + "<|channel|>final<|message|>Y", "es.", "", "es.");
  expect(kHarmony, prompt + "<|channel|>analysis<|message|>", "Hm<|end|>" + next + final, "Hm", "Yes.");
  expect(kHarmony, prompt, "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}<|call|>", "", "{}");
  expect(kHarmony, prompt, "<|start|>" + std::string(600, 'x'), "", std::string(600, 'x'));
}

TEST(ReasoningParser, HarmonysMessagesToFunctionsAreCalls) {
  const std::string analysis = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant";
  for (const std::string header :
       {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        " to=functions.f<|channel|>commentary json<|message|>", "<|channel|>commentary to=functions.f<|message|>"}) {
    for (const std::string end : {"", "<|call|>"}) {
      const std::string answer = analysis + header + R"({"a": "<|"})" + end;
      for (size_t size = 1; size <= answer.size(); ++size) {
        const Told told = told_of(kHarmony, "<|start|>assistant", answer, size);
        EXPECT_EQ(told.reasoning, "Hm");
        EXPECT_EQ(told.text, "");
        ASSERT_EQ(told.calls.size(), 1U);
        EXPECT_EQ(told.calls[0].name, "f");
        EXPECT_EQ(told.calls[0].arguments, R"({"a": "<|"})");
        EXPECT_EQ(told.whole_calls, 1);
      }
    }
    const Told cut = told_of(kHarmony, "<|start|>assistant", header + R"({"a": )", 3);
    EXPECT_EQ(cut.calls.at(0).arguments, R"({"a": )");
    EXPECT_EQ(cut.whole_calls, 0);
  }
}

// Whatever models write: the cuts change nothing, and without marks or headers nothing is lost.
TEST(ReasoningParser, CutsChangeNothing) {
  const std::vector<std::string> words = {
      "<think>",  "</think>", "<|start|>",  "<|end|>",   "<|channel|>",     "<|message|>", "<|call|>", "<|return|>",
      "analysis", "final",    "commentary", "assistant", " to=functions.f", "<",           "|",        ">",
      "\n",       " ",        "a",          "{}"};
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string answer;
    for (size_t count = random() % 14; count > 0; --count) answer += words[random() % words.size()];
    for (const ReasoningMarks& marks : {kThink, kHarmony, ReasoningMarks{}}) {
      const std::string prompt = random() % 2 == 0 ? "<|start|>assistant" : "<|start|>assistant<think>";
      const Told whole = told_of(marks, prompt, answer, answer.size() + 1);
      const Told cut = told_of(marks, prompt, answer, 1 + random() % 7);
      ASSERT_EQ(cut.reasoning, whole.reasoning) << answer;
      ASSERT_EQ(cut.text, whole.text) << answer;
      ASSERT_EQ(cut.calls.size(), whole.calls.size()) << answer;
      for (size_t i = 0; i < cut.calls.size(); ++i) ASSERT_EQ(cut.calls[i].arguments, whole.calls[i].arguments);
      if (marks.kind == ReasoningMarks::Kind::None) {
        ASSERT_EQ(whole.text, answer);
      }
    }
  }
}

TEST(ReasoningCounter, CountsMarksAndWhatIsBetween) {
  const auto count = [](const ReasoningMarks& marks, const std::string& prompt,
                        const std::vector<std::string>& tokens) {
    ReasoningCounter counter(ReasoningParser(marks, {}, prompt));
    for (const std::string& token : tokens) counter.add(token);
    return counter.count();
  };
  EXPECT_EQ(count(kThink, "", {"<think>", "\n", "Hm", ".", "</think>", "\n\n", "Yes"}), 5);
  EXPECT_EQ(count(kThink, "", {"<", "think", ">", "Hm", "</", "think", ">", "Yes"}), 7);
  EXPECT_EQ(count(kThink, "<think>", {"Hm", "</think>", "Yes"}), 2);
  EXPECT_EQ(count(kThink, "", {"<", "b", ">"}), 0);
  EXPECT_EQ(count(kHarmony, "<|start|>assistant",
                  {"<|channel|>", "analysis", "<|message|>", "Hm", "<|end|>", "<|start|>", "assistant", "<|channel|>",
                   "final", "<|message|>", "Yes", "<|return|>"}),
            5);
}

}  // namespace
}  // namespace inflight::server
