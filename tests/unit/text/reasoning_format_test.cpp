// SPDX-License-Identifier: Apache-2.0
// Goal: the marks of reasoning are those that the template writes, and where there are none nothing is taken for one.
// Truth: templates of our own, written around known marks; published ones where they are there.
#include "text/reasoning_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/test_data.h"

namespace inflight {
namespace {

using Kind = ReasoningFormat::Kind;

const ChatSettings kProbeSettings{"<s>", "</s>", 0};

Vocabulary vocabulary_of(std::vector<std::string> tokens, TokenType type = TokenType::UserDefined) {
  VocabularyData data{.model = "gpt2", .tokens = std::move(tokens)};
  data.types.assign(data.tokens.size(), type);
  return Vocabulary(data);
}

ReasoningFormat reasoning_of(const std::string& source, std::vector<std::string> tokens = {"a"}) {
  return find_reasoning_format(ChatTemplate(source), kProbeSettings, vocabulary_of(std::move(tokens)));
}

// Answers are `begin` REASONING `end` CONTENT, where the field is there.
std::string reasoning_template(const std::string& field, const std::string& begin, const std::string& end) {
  return "{% for m in messages %}<{{ m.role }}>{% if m." + field + " %}" + begin + "{{ m." + field + " }}" + end +
         "{% endif %}{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
}

TEST(ReasoningFormat, IsWhatTheTemplateWrites) {
  const ReasoningFormat think = reasoning_of(reasoning_template("reasoning_content", "<think>\n", "\n</think>\n\n"));
  EXPECT_EQ(think.kind, Kind::Marks);
  EXPECT_EQ(think.begin + think.end + think.behind + think.field, "<think></think>\n\nreasoning_content");
  const ReasoningFormat open = reasoning_of(reasoning_template("reasoning", "<|channel>thought\n", "\n<channel|>"));
  EXPECT_EQ(open.begin + open.end + open.behind + open.field, "<|channel>thought<channel|>reasoning");
  EXPECT_EQ(reasoning_of(reasoning_template("reasoning", "<two words>", "</two words>")).kind, Kind::None);
  const ReasoningFormat other = reasoning_of(reasoning_template("thinking", "[THINK]", "[/THINK]"));
  EXPECT_EQ(other.begin + other.end + other.behind + other.field, "[THINK][/THINK]thinking");
  EXPECT_EQ(reasoning_of(reasoning_template("reasoning_content", "<user>", "<end>")).kind,
            Kind::None);  // of other messages
  EXPECT_EQ(reasoning_of(reasoning_template("reasoning_content", "", "")).kind, Kind::None);
  EXPECT_EQ(reasoning_of("{{ raise_exception('never') }}").kind, Kind::None);
}

TEST(ReasoningFormat, WhereTheTemplateLeavesItOutThePromptOrTheVocabularyTells) {
  const std::string plain = "{{ messages[-1].content }}<assistant>";
  EXPECT_EQ(reasoning_of(plain).kind, Kind::None);
  EXPECT_EQ(reasoning_of(plain + "<think>\n").end, "</think>");
  EXPECT_EQ(reasoning_of(plain, {"<think>", "</think>"}).begin, "<think>");
  EXPECT_EQ(reasoning_of(plain, {"<think>"}).kind, Kind::None);
}

TEST(ReasoningFormat, ThePromptTellsWhereTheAnswerBegins) {
  const ReasoningFormat think = reasoning_of(reasoning_template("reasoning_content", "<think>\n", "\n</think>\n\n"));
  EXPECT_EQ(answer_begin(think, "<assistant>\n"), AnswerBegin::Undecided);
  EXPECT_EQ(answer_begin(think, "<assistant>\n<think>\n"), AnswerBegin::Reasoning);
  EXPECT_EQ(answer_begin(think, "<assistant>\n<think>\n\n</think>\n\n"), AnswerBegin::Text);
  const ReasoningFormat harmony{.kind = Kind::Harmony};
  EXPECT_EQ(answer_begin(harmony, "<|start|>user<|message|>Hi<|end|><|start|>assistant"), AnswerBegin::Undecided);
  EXPECT_EQ(answer_begin(harmony, "<|start|>assistant<|channel|>final<|message|>Y"), AnswerBegin::Text);
  EXPECT_EQ(answer_begin(harmony, "<|start|>assistant<|channel|>analysis<|message|>"), AnswerBegin::Reasoning);
}

TEST(ReasoningFormat, MessagesGetTheNameThatTheTemplateReads) {
  const std::string request =
      R"({"messages":[{"role":"assistant","content":"c","reasoning_content":"r","tool_calls":[1]}]})";
  EXPECT_EQ(adapt_reasoning({.kind = Kind::Marks, .field = "reasoning_content"}, request), request);
  EXPECT_EQ(adapt_reasoning({.kind = Kind::Marks, .field = "reasoning"}, request),
            R"({"messages":[{"role":"assistant","content":"c","tool_calls":[1],"reasoning":"r"}]})");
  EXPECT_EQ(adapt_reasoning({.kind = Kind::Harmony, .field = "thinking"}, request),
            R"({"messages":[{"role":"assistant","content":"","tool_calls":[1],"thinking":"r\nc"}]})");
}

TEST(ReasoningFormat, ControlTokensOfTheMarksAreShown) {
  const ReasoningFormat think{.kind = Kind::Marks, .begin = "<think>", .end = "</think>"};
  const std::vector<std::string> tokens = {"x", "<think>", "</think>", "<|end|>"};
  EXPECT_EQ(reasoning_tokens(think, vocabulary_of(tokens, TokenType::Control)), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(reasoning_tokens(think, vocabulary_of(tokens)).empty());
  EXPECT_EQ(reasoning_tokens({.kind = Kind::Harmony}, vocabulary_of(tokens, TokenType::Control)),
            std::vector<TokenId>{3});
}

TEST(ReasoningWatch, FollowsTheMarks) {
  ReasoningWatch watch("<think>", "</think>", AnswerBegin::Undecided);
  EXPECT_FALSE(watch.see("\n<thi"));
  EXPECT_TRUE(watch.see("nk>a"));
  EXPECT_TRUE(watch.see("</thin</th"));
  EXPECT_EQ(watch.held(), "</th");
  EXPECT_TRUE(watch.see("ink>b"));
  EXPECT_FALSE(watch.is_within());
  EXPECT_FALSE(watch.see("<think>"));
  ReasoningWatch none("<think>", "</think>", AnswerBegin::Undecided);
  EXPECT_FALSE(none.see("<that>"));
  EXPECT_FALSE(none.see("<think>"));
}

TEST(ReasoningFormat, PublishedTemplatesAreUnderstood) {
  const std::filesystem::path folder = test::shared_path("chat_templates");
  INFLIGHT_REQUIRE_FILE(folder);
  const auto of_file = [&](const std::string& name, std::vector<std::string> tokens = {"a"}) {
    std::ifstream file(folder / (name + ".jinja"));
    std::stringstream text;
    text << file.rdbuf();
    return reasoning_of(text.str(), std::move(tokens));
  };
  const ReasoningFormat qwen = of_file("Qwen-Qwen3-0.6B");
  EXPECT_EQ(qwen.begin + qwen.end + qwen.behind + qwen.field, "<think></think>\n\nreasoning_content");
  EXPECT_EQ(of_file("HuggingFaceTB-SmolLM3-3B", {"<think>", "</think>"}).end, "</think>");
  EXPECT_EQ(of_file("HuggingFaceTB-SmolLM3-3B").kind, Kind::None);
  for (const char* const name : {"Qwen-Qwen2.5-7B-Instruct", "google-gemma-2-2b-it", "meta-llama-Llama-3.1-8B-Instruct",
                                 "microsoft-Phi-3.5-mini-instruct", "mistralai-Mistral-Nemo-Instruct-2407"}) {
    EXPECT_EQ(of_file(name).kind, Kind::None) << name;
  }
}

}  // namespace
}  // namespace inflight
