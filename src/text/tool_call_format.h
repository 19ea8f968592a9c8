// SPDX-License-Identifier: Apache-2.0
// How a model writes calls of functions: its chat template says it. A conversation with a call in it is rendered, and
// what stands around the call's name and arguments is the form. So whatever wraps {"name": ..., "arguments": {...}} is
// found without a list of models: <tool_call>...</tool_call> (Hermes, Qwen), "parameters" (Llama 3), [TOOL_CALLS][...]
// (Mistral). So is what has the name as plain text before the arguments: [TOOL_CALLS]NAME[ARGS]{...} (Mistral's later
// models), <function=NAME>{...}</function>, DeepSeek's and Kimi's marks. Behind such a name the arguments may also be
// elements, <parameter=NAME>VALUE</parameter> (Qwen3-Coder, Qwen3.5) or
// <arg_key>NAME</arg_key><arg_value>VALUE</arg_value> (GLM), which may follow the name at once, and say whether the
// value is a string (DeepSeek V3.2), or members in a spelling of their own, such as Python's in [NAME(KEY='VALUE')]
// (LFM2.5; Gemma 4 has another). A template that writes no calls gets a form of our own, a JSON list, of which the
// conversation tells the model (adapt_to_format()).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/element_form.h"
#include "text/member_form.h"
#include "text/vocabulary.h"

namespace inflight {

// Stands in the texts where the template writes a call's id, nine letters or digits (Mistral).
inline constexpr std::string_view kCallIdMark = "CallIdNum";
// Where it counts the calls.
inline constexpr std::string_view kCallIndexMark = "CallIndex";

// A text of a form, and what else comes then.
struct FormPart {
  enum class Then : uint8_t { Nothing, Id, Index };
  std::string text;
  Then then = Then::Nothing;  // Nothing: at the form's end only
};
[[nodiscard]] std::vector<FormPart> parts_of(std::string_view form);

// An answer: begin NAME middle ARGUMENTS (separator NAME middle ARGUMENTS)* end, the arguments being a JSON object,
// elements or members.
struct ToolCallFormat {
  std::string begin = R"([{"name": ")";
  std::string middle = R"(", "arguments": )";
  std::string separator = R"(}, {"name": ")";  // empty: one call an answer
  std::string end = "}]";
  bool from_template = false;  // else this form of our own
  bool plain_name = false;     // the name is read between its marks, not as a member "name" of a JSON object
  // Of the arguments, at most one of the two; only with plain_name.
  std::optional<ElementForm> elements;
  std::optional<MemberForm> members;
  bool tells_tools = false;    // whether the template tells the model of the functions
  bool system_message = true;  // whether it takes one

  [[nodiscard]] bool has_ids() const;
  // What no other answer has, before the JSON of the first call and behind that of the last; empty: nothing there. With
  // plain_name: before the first name or id (with elements, of tags the first one only), and all behind the last call.
  [[nodiscard]] std::string begin_mark() const;
  [[nodiscard]] std::string end_mark() const;
  // With elements or members: what ends a call's arguments; `separator` and `end` begin with it. Else nothing.
  [[nodiscard]] std::string call_end() const;
};

// Never fails: what cannot be found out has the form of our own.   COST: a dozen short renderings.
[[nodiscard]] ToolCallFormat find_tool_call_format(const ChatTemplate& chat_template, const ChatSettings& settings);

// A chat request (ChatTemplate::render()) as the template can write it. Call ids of another length than the
// form has are brought to it. Where the template does not tell the functions, the system message does (the first one,
// where there can be none); where it knows no calls, they become text and their results messages of the user.
// What is no well-formed conversation stays as it is: render() says what is wrong.
// ERRORS: InvalidArgument for what is no JSON or nested too deep, as render() has them.
[[nodiscard]] std::string adapt_to_format(const ToolCallFormat& format, std::string_view request_json);

// Control tokens that stand in the form, and Llama 3's mark of calls, which its template leaves out.
[[nodiscard]] std::vector<TokenId> tool_call_tokens(const ToolCallFormat& format, const Vocabulary& vocabulary);

}  // namespace inflight
