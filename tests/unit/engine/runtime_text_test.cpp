// SPDX-License-Identifier: Apache-2.0
// Goal: what an answer may be behind reasoning, and in the channels of Harmony, is what its request asks for, in the
// form that the chat template has. Truth: answers written by hand, token by token of the demo model.
//
// Covers: engine/describe_text.cpp
#include <gtest/gtest.h>

#include "engine/runtime.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr const char* kMarked =
    "{% for m in messages %}[{{ m.role }}]{% if m.reasoning %}<think>\n{{ m.reasoning }}\n</think>\n\n{% endif %}"
    "{{ m.content }}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
constexpr const char* kChannels =
    "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>{% if m.thinking %}analysis"
    "<|message|>{{ m.thinking }}<|end|><|start|>assistant<|channel|>{% endif %}final{% endif %}<|message|>"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
constexpr const char* kAnswerSchema =
    R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false})";

std::unique_ptr<Runtime> runtime_with(const char* chat_template) {
  RuntimeOptions options;
  options.model = kDemoModel;
  options.scheduler.max_num_seqs = 2;
  options.chat_template = chat_template;
  return std::make_unique<Runtime>(options);
}

std::string tools(const char* choice) {
  return R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": )" + std::string(kAnswerSchema) +
         R"(}}], "tool_choice": ")" + choice + "\"}";
}

// Whether an answer of these pieces may come, each as the tokenizer cuts it, and may end then.
bool is_answer(const Runtime& runtime, const FilterSource& source, const std::vector<std::string>& pieces) {
  const std::unique_ptr<TokenFilter> filter = source({});
  const Tokenizer& tokenizer = runtime.require_tokenizer();
  std::vector<uint32_t> allowed(static_cast<size_t>(tokenizer.vocabulary().size() + 31) / 32);
  const auto allows = [&](TokenId token) {
    filter->allow(allowed);
    return (allowed[static_cast<size_t>(token) / 32] >> static_cast<size_t>(token) % 32 & 1U) != 0;
  };
  for (const std::string& piece : pieces) {
    for (const TokenId token : tokenizer.encode(piece, {.add_special = false})) {
      if (!allows(token)) return false;
      filter->accept(token);
    }
  }
  return allows(*tokenizer.vocabulary().eos());
}

TEST(RuntimeText, GrammarsHoldBehindMarks) {
  const auto runtime = runtime_with(kMarked);
  EXPECT_EQ(runtime->render_chat(R"({"messages": [{"role": "assistant", "content": "c", "reasoning_content": "r"}]})"),
            "[assistant]<think>\nr\n</think>\n\nc[end]");
  EXPECT_EQ(runtime->answer_begin("[user]x[end][assistant]", {}), AnswerBegin::Undecided);
  const std::vector<TokenId> opened = runtime->require_tokenizer().encode("[user]x[end][assistant]<think>\n");
  EXPECT_EQ(runtime->answer_begin("", opened), AnswerBegin::Reasoning);

  const FilterSource json = runtime->grammar_filter(GrammarKind::JsonSchema, kAnswerSchema, AnswerBegin::Undecided);
  EXPECT_TRUE(is_answer(*runtime, json, {R"({"a": 1})"}));
  EXPECT_TRUE(is_answer(*runtime, json, {"<think>", R"(Hm, {"a": 2}.)", "</think>", "\n\n", R"({"a": 1})"}));
  EXPECT_FALSE(is_answer(*runtime, json, {"<think>", R"({"a": 1})"}));
  EXPECT_FALSE(is_answer(*runtime, json, {"<think>", "</think>", "\n\n", R"({"a": 2})"}));
  const FilterSource begun = runtime->grammar_filter(GrammarKind::JsonSchema, kAnswerSchema, AnswerBegin::Reasoning);
  EXPECT_TRUE(is_answer(*runtime, begun, {"Hm", "</think>", "\n\n", R"({"a": 1})"}));
  EXPECT_FALSE(is_answer(*runtime, begun, {R"({"a": 1})"}));

  const std::string call = R"([{"name": "f", "arguments": {"a": 1}}])";  // the template writes none
  const FilterSource forced = runtime->tool_filter(tools("required"), AnswerBegin::Undecided).source;
  EXPECT_TRUE(is_answer(*runtime, forced, {"<think>", "Hm", "</think>", "\n\n", call}));
  EXPECT_TRUE(is_answer(*runtime, forced, {call}));
  const FilterSource either =
      runtime->tools_or_grammar_filter(tools("auto"), GrammarKind::JsonSchema, kAnswerSchema, AnswerBegin::Reasoning);
  EXPECT_TRUE(is_answer(*runtime, either, {"Hm", "</think>", "\n\n", call}));
  EXPECT_TRUE(is_answer(*runtime, either, {"Hm", "</think>", "\n\n", R"({"a": 1})"}));
  EXPECT_FALSE(is_answer(*runtime, either, {"Hm", "</think>", "\n\n", R"({"a": 2})"}));
}

TEST(RuntimeText, GrammarsWriteHarmonysHeaders) {
  const auto runtime = runtime_with(kChannels);
  EXPECT_EQ(
      runtime->render_chat(R"({"messages": [{"role": "assistant", "content": "c", "reasoning_content": "r"}]})"),
      "<|start|>assistant<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>final<|message|>c<|end|>");
  const std::string analysis = "<|channel|>analysis<|message|>", next = "<|start|>assistant";
  const std::string final = "<|channel|>final<|message|>", to = "<|channel|>commentary to=functions.";
  const std::string call = R"(f <|constrain|>json<|message|>{"a": 1})", object = R"({"a": 1})";

  const FilterSource json = runtime->grammar_filter(GrammarKind::JsonSchema, kAnswerSchema, AnswerBegin::Undecided);
  EXPECT_TRUE(is_answer(*runtime, json, {final, object}));
  EXPECT_TRUE(is_answer(*runtime, json, {analysis, "Hm", "<|end|>", next + final, object}));
  EXPECT_FALSE(is_answer(*runtime, json, {analysis, "Hm", "<|end|>", next + to, call}));
  EXPECT_FALSE(is_answer(*runtime, json, {object}));
  const FilterSource forced = runtime->tool_filter(tools("required"), AnswerBegin::Undecided).source;
  EXPECT_TRUE(is_answer(*runtime, forced, {to, call}));
  EXPECT_TRUE(is_answer(*runtime, forced, {analysis, "Hm", "<|end|>", next + to, call}));
  EXPECT_FALSE(is_answer(*runtime, forced, {analysis, "Hm", "<|end|>", next + final, object}));
  const FilterSource either =
      runtime->tools_or_grammar_filter(tools("auto"), GrammarKind::JsonSchema, kAnswerSchema, AnswerBegin::Undecided);
  EXPECT_TRUE(is_answer(*runtime, either, {analysis, "Hm", "<|end|>", next + to, call}));
  EXPECT_TRUE(is_answer(*runtime, either, {analysis, "Hm", "<|end|>", next + final, object}));
  // Behind a header that the prompt has.
  EXPECT_TRUE(is_answer(*runtime, runtime->grammar_filter(GrammarKind::JsonSchema, kAnswerSchema), {object}));
}

}  // namespace
}  // namespace inflight::test
