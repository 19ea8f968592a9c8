// SPDX-License-Identifier: Apache-2.0
// Conversations to prompt text, through the template that comes with a model: a Jinja subset that gives, character for
// character, what Python's jinja2 gives as transformers configures it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja_syntax.h"
#include "text/vocabulary.h"

namespace inflight {

// What a rendering knows beside the request.
struct ChatSettings {
  std::string bos_token;  // their spelling; empty where the vocabulary has none
  std::string eos_token;
  int64_t unix_time_seconds = 0;  // what strftime_now() prints, in the local time zone
};
[[nodiscard]] ChatSettings chat_settings(const Vocabulary& vocabulary, int64_t unix_time_seconds);

// THREAD: render() may be called from any number of threads at once.
class ChatTemplate {
 public:
  // ERRORS: InvalidArgument "chat template line N: ..." for what cannot be parsed or is not supported.
  explicit ChatTemplate(std::string_view source);

  // request_json: {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...], "add_generation_prompt":
  // true,
  //               ...}; every key is a variable of the template. Without "tools" that is none, without
  //               "add_generation_prompt" false, as in transformers. With "continue_final_message": true the text ends
  //               with the last message's content, so that an answer goes on with it.
  // ERRORS: InvalidArgument for what is no JSON object, has no list "messages", or what the template itself refuses.
  [[nodiscard]] std::string render(std::string_view request_json, const ChatSettings& settings) const;

 private:
  jinja::Block block_;
};

// Both steps at once.
[[nodiscard]] std::string render_chat(std::string_view template_text, std::string_view request_json,
                                      const ChatSettings& settings);

}  // namespace inflight
