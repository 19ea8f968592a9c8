// SPDX-License-Identifier: Apache-2.0
// Function calls in generated text, in the forms that models are trained to write:
//   <tool_call>{"name": ..., "arguments": {...}}</tool_call>     Hermes, Qwen
//   {"name": ..., "parameters": {...}}                           Llama 3, as the whole answer; <|python_tag|> before it
//   [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]         Mistral
//   [{"name": ..., "arguments": {...}}, ...]                     what models are told to write whose template has no
//   form the same between other marks                                 as the chat template has them
//   [TOOL_CALLS]NAME[ARGS]{...}                                  Mistral's later models
//   form a name and arguments between other marks                     as the chat template has them
//   <tool_call>\n<function=NAME>\n<parameter=P>\nVALUE\n</parameter>\n</function>\n</tool_call>
//                                                                 Qwen3-Coder, Qwen3.5, and with other tags others
//   <tool_call>NAME<arg_key>P</arg_key><arg_value>VALUE</arg_value></tool_call>      GLM
//   elements may say what a string is: <parameter name="P" string="true">VALUE</parameter>      DeepSeek V3.2
//   <|tool_call_start|>[NAME(P='VALUE'), ...]<|tool_call_end|>    LFM2.5
//   <|tool_call>call:NAME{P:<|"|>VALUE<|"|>}<tool_call|>          Gemma 4
// What only looks like a call (no JSON, a function that was not offered) stays text. A call is told of as soon as its
// name is known and its arguments begin; those come as the model writes them. Where the answer ends before that, half a
// call is text, or nothing where all must be calls.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_parts.h"
#include "server/json_body.h"
#include "server/tool_call_reader.h"

namespace inflight::server {

class ToolCallParser {
 public:
  // tools: as read_tools() gives them; none: everything is text.   own: the model's marks, besides those above, of
  // which they replace those that begin alike.
  // forced: nothing but calls can come.
  explicit ToolCallParser(const Json& tools, const CallMarks& own = {}, bool forced = false);

  // More of the answer: text, of which is held back what may become a call, and calls.
  [[nodiscard]] AnswerParts push(std::string_view text);
  // The answer's end: what was held back.
  [[nodiscard]] AnswerParts finish();

 private:
  enum class State { Start, Text, Calls };
  enum class Step { Next, Wait, NoCall };

  void step(AnswerParts& found, bool at_end);
  bool scan_start(bool at_end);
  bool scan_text(AnswerParts& found, bool at_end);
  bool scan_calls(AnswerParts& found, bool at_end);
  [[nodiscard]] Step read_call(AnswerParts& found);
  [[nodiscard]] Step between_calls(bool at_end);
  [[nodiscard]] Step between_plain_names(bool at_end);
  void tell(AnswerParts& found, bool ends);
  void begin_calls(const CallMarks& marks);
  void begin_plain_name(const MarkTexts& open);
  void end_calls(size_t mark_length);
  [[nodiscard]] size_t mark_start() const;
  void give_up(AnswerParts& found);

  std::vector<CallableFunction> functions_;
  std::vector<CallMarks> marks_;
  bool forced_ = false;
  State state_ = State::Start;
  bool after_call_ = false;
  std::string held_;  // not yet shown or told

  // In state Calls.
  std::string marker_;  // that introduced them, as long as none is certain
  CallMarks calls_;     // of them
  size_t scanned_ = 0;  // of held_
  bool in_list_ = false, closed_ = false;
  size_t call_count_ = 0;                 // whole ones
  bool told_ = false;                     // of the one being read
  std::optional<ToolCallReader> reader_;  // within a call
};

}  // namespace inflight::server
