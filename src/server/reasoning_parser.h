// SPDX-License-Identifier: Apache-2.0
// What a model thinks, taken apart from what it says, as the text comes:
//   <think>REASONING</think>ANSWER                                between the model's own marks
//   <|channel|>analysis<|message|>REASONING<|end|>                Harmony (gpt-oss): messages, each with a channel;
//   <|start|>assistant<|channel|>final<|message|>ANSWER             "final" and "commentary" are the answer,
//   <|start|>assistant<|channel|>commentary to=functions.NAME       and what is sent to a function is a call
//     <|constrain|>json<|message|>{...}
// Only what may become a mark is held back, and blanks around the reasoning, which are none of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/answer_parts.h"
#include "server/json_body.h"

namespace inflight::server {

struct ReasoningMarks {
  enum class Kind : uint8_t { None, Marks, Harmony } kind = Kind::None;
  std::string begin{}, end{};  // Marks
};

// Of the engine's info, its member "reasoning".
[[nodiscard]] ReasoningMarks read_reasoning_marks(const Json& reasoning);

class ReasoningParser {
 public:
  // functions: that may be called in Harmony's form.   prompt: which may have begun the reasoning, or ended it.
  // Without marks everything is text.
  ReasoningParser(ReasoningMarks marks, std::vector<std::string> functions, std::string_view prompt);

  // More of the answer.
  [[nodiscard]] AnswerParts push(std::string_view text);
  // The answer's end: what was held back.
  [[nodiscard]] AnswerParts finish();

  [[nodiscard]] bool is_reasoning() const { return state_ == State::Reasoning; }
  // Whether it depends on what comes what the held text is.
  [[nodiscard]] bool is_undecided() const { return state_ == State::Begin; }

 private:
  // Begin: where a mark may come; in Harmony a message's header.
  enum class State : uint8_t { Begin, Reasoning, Text, Call };

  void begin_behind(std::string_view prompt);
  [[nodiscard]] bool step(AnswerParts& parts, bool at_end);
  [[nodiscard]] bool read_begin(bool at_end);
  [[nodiscard]] bool read_marked(AnswerParts& parts, bool at_end);
  [[nodiscard]] bool read_header(AnswerParts& parts, bool at_end);
  void open_message(std::string_view header, AnswerParts& parts);
  [[nodiscard]] bool read_message(AnswerParts& parts, bool at_end);
  void add(std::string_view text, AnswerParts& parts);
  void close_call(AnswerParts& parts);

  ReasoningMarks marks_;
  std::vector<std::string> functions_;
  State state_ = State::Begin;
  std::string held_;
  bool strips_ = false;  // blanks that come are none of the text
  // Harmony.
  bool told_reasoning_ = false, told_text_ = false;  // in earlier messages
  bool separates_ = false;                           // the message goes on from an earlier one of its kind
  std::string arguments_;                            // of the call
};

// How many of an answer's tokens are reasoning, its marks included.
class ReasoningCounter {
 public:
  explicit ReasoningCounter(ReasoningParser parser) : parser_(std::move(parser)) {}
  // The next token's text, control tokens' too.
  void add(std::string_view token);
  [[nodiscard]] int64_t count() const { return count_; }

 private:
  ReasoningParser parser_;
  int64_t undecided_ = 0, count_ = 0;
};

}  // namespace inflight::server
