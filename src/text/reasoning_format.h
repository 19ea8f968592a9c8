// SPDX-License-Identifier: Apache-2.0
// How a model writes what it thinks before it answers: its chat template says it. A conversation whose answer has
// reasoning is rendered, and what stands around the reasoning are its marks, <think> and </think> at most models. Where
// a template leaves the reasoning out, a prompt that ends with <think> tells them, or a vocabulary that has both.
//
// Harmony (gpt-oss) has channels in the place of marks. An answer is messages, [<|start|>assistant] HEADER <|message|>
// TEXT <|end|>, whose header names a channel (<|channel|>analysis, commentary, final) and perhaps a function
// (to=functions.NAME), of which the text then is a call's arguments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/tool_call_format.h"
#include "text/vocabulary.h"

namespace inflight {

// The texts of Harmony that more than one place knows.
namespace harmony {
inline constexpr std::string_view kStart = "<|start|>", kMessage = "<|message|>";
inline constexpr std::string_view kEnd = "<|end|>";
inline constexpr std::string_view kAnswer = "<|start|>assistant";  // what a prompt ends with
inline constexpr std::string_view kAnalysis = "<|channel|>analysis<|message|>";
inline constexpr std::string_view kFinal = "<|channel|>final<|message|>";
inline constexpr std::string_view kCall = "<|channel|>commentary to=functions.";  // NAME kArguments {...}
inline constexpr std::string_view kArguments = " <|constrain|>json<|message|>";
}  // namespace harmony

struct ReasoningFormat {
  enum class Kind { None, Marks, Harmony } kind = Kind::None;
  std::string begin, end;       // Marks
  std::string behind = "\n\n";  // Marks: what stands between the end mark and the answer
  // What the template calls a message's reasoning; "": it does not read it.
  std::string field;
};

// Never fails: what cannot be found out is none.   COST: a few short renderings.
[[nodiscard]] ReasoningFormat find_reasoning_format(const ChatTemplate& chat_template, const ChatSettings& settings,
                                                    const Vocabulary& vocabulary);

// Where an answer begins that follows a prompt.
enum class AnswerBegin {
  Undecided,  // it may begin with reasoning
  Reasoning,  // the prompt has begun it
  Text,       // the prompt has ended it, or begun something else
};
// prompt_end: at least the last kPromptEndBytes bytes of the prompt, or all of it.
inline constexpr size_t kPromptEndBytes = 256;
[[nodiscard]] AnswerBegin answer_begin(const ReasoningFormat& format, std::string_view prompt_end);

// A chat request (ChatTemplate::render()) in which messages' reasoning_content has the name that the template reads.
// ERRORS: InvalidArgument for what is no JSON or nested too deep, as render() has them.
[[nodiscard]] std::string adapt_reasoning(const ReasoningFormat& format, std::string_view request_json);

// How Harmony writes calls, which its template shows in another way than models write them.
[[nodiscard]] ToolCallFormat harmony_tool_calls(ToolCallFormat found);

// Control tokens that mark reasoning, without those that end answers.
[[nodiscard]] std::vector<TokenId> reasoning_tokens(const ReasoningFormat& format, const Vocabulary& vocabulary);

// Follows an answer to where its reasoning ends.
class ReasoningWatch {
 public:
  // begin_mark: not looked at where the answer begins with reasoning.
  ReasoningWatch(std::string begin_mark, std::string end_mark, AnswerBegin begin)
      : begin_mark_(std::move(begin_mark)), end_mark_(std::move(end_mark)), begin_(begin) {}

  // Whether more of the answer is reasoning, or the end of one of its marks; what is undecided is none yet.
  bool see(std::string_view bytes);
  // Whether what comes next is.
  [[nodiscard]] bool is_within() const { return begin_ == AnswerBegin::Reasoning; }
  // Within: what has come of the end mark.
  [[nodiscard]] const std::string& held() const { return held_; }

 private:
  std::string begin_mark_, end_mark_;
  AnswerBegin begin_;
  std::string held_;
};

}  // namespace inflight
