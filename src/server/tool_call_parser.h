// SPDX-License-Identifier: Apache-2.0
// Function calls in generated text, in the forms that models are trained to write:
//   <tool_call>{"name": ..., "arguments": {...}}</tool_call>     Hermes, Qwen
//   {"name": ..., "parameters": {...}}                           Llama 3, as the whole answer; <|python_tag|> before it
//   [{"name": ..., "arguments": {...}}, ...]                     what a forced call is made to be, whatever the model
//   [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]         Mistral
// What only looks like a call (no JSON, a function that was not offered) stays text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/json_body.h"

namespace inflight::server {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

class ToolCallParser {
 public:
  // tools: as read_tools() gives them; none: everything is text.
  explicit ToolCallParser(const Json& tools);

  struct Found {
    std::string text;             // to show: held back as long as it may become a call
    std::vector<ToolCall> calls;  // complete ones
  };
  // More of the answer.
  [[nodiscard]] Found push(std::string_view text);
  // The answer's end: what was held back.
  [[nodiscard]] Found finish();

 private:
  enum class State { Start, Text, Tag, Rest };  // Rest: everything to the end may be calls

  void step(Found& found, bool at_end);
  bool scan_start(bool at_end);
  bool scan_text(Found& found, bool at_end);
  bool scan_tag(Found& found, bool at_end);
  void scan_rest(Found& found);
  // Appends the calls in `json`, one or a list; false: these are none.
  bool read_calls(std::string_view json, std::vector<ToolCall>& calls) const;

  std::vector<std::string> names_;
  State state_ = State::Start;
  bool after_call_ = false;
  std::string held_;
  std::string marker_;  // what introduced Tag or Rest
};

}  // namespace inflight::server
