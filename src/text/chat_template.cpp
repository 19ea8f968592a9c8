// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/limits.h"
#include "text/jinja_interpreter.h"

namespace inflight {

ChatSettings chat_settings(const Vocabulary& vocabulary, int64_t unix_time_seconds) {
  const auto spelling = [&](std::optional<TokenId> id) { return id ? std::string(vocabulary.text(*id)) : ""; };
  return {spelling(vocabulary.bos()), spelling(vocabulary.eos()), unix_time_seconds};
}

namespace {

constexpr const char* kBlanks = " \t\r\n";
// Behind the last message, to find where it ends; a template that trims messages takes the blank.
constexpr std::string_view kMark = "\uE000here\uE000 ";

[[noreturn]] void fail_to_continue(const char* what) {
  fail(ErrorCode::InvalidArgument, "continue_final_message: {}", what);
}

// Appends kMark to the last message and gives its text without.
std::string mark_last_message(nlohmann::ordered_json& request) {
  auto& messages = request["messages"];
  if (request.contains("add_generation_prompt") && request["add_generation_prompt"] == true)
    fail_to_continue("not with add_generation_prompt");
  if (messages.empty() || !messages.back().is_object() || !messages.back().contains("content") ||
      !messages.back()["content"].is_string()) {
    fail_to_continue("the last message has no text to go on with");
  }
  std::string content = messages.back()["content"];
  messages.back()["content"] = content + std::string(kMark);
  return content;
}

// The text up to the mark, without the white space that a template which trims messages would have taken.
std::string cut_at_mark(std::string text, std::string_view content) {
  const size_t at = text.rfind(kMark.substr(0, kMark.size() - 1));
  if (at == std::string::npos) fail_to_continue("the chat template does not write the last message as it is");
  const bool trims = text.compare(at, kMark.size(), kMark) != 0;
  text.resize(at);
  const size_t last = content.find_last_not_of(kBlanks);
  if (!trims || last == std::string_view::npos) return text;
  if (const std::string_view blanks = content.substr(last + 1); text.ends_with(blanks)) text.resize(at - blanks.size());
  return text;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source) : block_(jinja::parse(source)) {}

std::string ChatTemplate::render(std::string_view request_json, const ChatSettings& settings) const {
  if (request_json.size() > limits::kPromptBytesMax) {
    fail(ErrorCode::InvalidArgument, "chat request: {} bytes, allowed: {}", request_json.size(),
         limits::kPromptBytesMax);
  }
  nlohmann::ordered_json request = parse_json(request_json, "chat request");
  if (!request.is_object()) fail(ErrorCode::InvalidArgument, "chat request: not a JSON object");
  if (!request.contains("messages") || !request["messages"].is_array()) {
    fail(ErrorCode::InvalidArgument, "chat request: 'messages' must be a list");
  }
  jinja::Interpreter interpreter(settings.unix_time_seconds);
  jinja::add_globals(interpreter);
  interpreter.set_global("bos_token", interpreter.heap().string(settings.bos_token));
  interpreter.set_global("eos_token", interpreter.heap().string(settings.eos_token));
  interpreter.set_global("tools", jinja::Value::none());
  interpreter.set_global("documents", jinja::Value::none());
  interpreter.set_global("add_generation_prompt", jinja::Value(false));
  const bool continues = request.contains("continue_final_message") && request["continue_final_message"] == true;
  request.erase("continue_final_message");
  const std::string last_message = continues ? mark_last_message(request) : "";
  for (const auto& [name, value] : request.items()) interpreter.set_global(name, interpreter.heap().from_json(value));
  std::string text = interpreter.render(block_);
  return continues ? cut_at_mark(std::move(text), last_message) : text;
}

std::string render_chat(std::string_view template_text, std::string_view request_json, const ChatSettings& settings) {
  return ChatTemplate(template_text).render(request_json, settings);
}

}  // namespace inflight
