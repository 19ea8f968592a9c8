// SPDX-License-Identifier: Apache-2.0
// Calls of functions as a grammar: in the model's own form (tool_call_format.h), with arguments that follow the
// functions' JSON schemas.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/grammar_program.h"
#include "text/tool_call_format.h"
#include "text/vocabulary.h"

namespace inflight {

// Where the text of a grammar of kind ToolCalls begins: where the answer does, or behind tool_call_trigger().
enum class CallsBegin { WithAnswer, BehindTrigger };

// What a request wants of its functions: {"tools": [{"type": "function", "function": {"name", "parameters", "strict",
// ...}}, ...], "tool_choice": "auto" | "required" | {"type": "function", "function": {"name": ...}},
// "parallel_tool_calls": true}.
struct ToolRequest {
  // That may be called: {"name", "parameters", "strict"}. Without strict, arguments need not satisfy what is not
  // supported of the parameters.
  nlohmann::ordered_json functions = nlohmann::ordered_json::array();
  bool forced = false;   // the answer is calls and nothing else
  bool parallel = true;  // several

  // Beside no other grammar: forced calls begin the answer, others stand in it.
  [[nodiscard]] CallsBegin calls_begin() const { return forced ? CallsBegin::WithAnswer : CallsBegin::BehindTrigger; }
};
// ERRORS: InvalidArgument naming the field, such as "structured_tools: tools[1].function has no name".
[[nodiscard]] ToolRequest read_tool_request(std::string_view json);

[[nodiscard]] std::string tool_grammar_text(const ToolRequest& request, const ToolCallFormat& format,
                                            const Vocabulary& vocabulary, CallsBegin begin);

// What a model writes before its first call: the format's begin_mark(), or else, where the calls are all there is, the
// first call up to the function's name.
[[nodiscard]] std::string tool_call_trigger(const ToolCallFormat& format);
// What comes then, up to the function's name.
[[nodiscard]] std::string behind_trigger(const ToolCallFormat& format);

namespace grammar {

// ERRORS: as compile_json_schema(), naming the function.
[[nodiscard]] Program compile_tool_calls(std::string_view text, Budget& budget);

}  // namespace grammar
}  // namespace inflight
