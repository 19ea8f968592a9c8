// SPDX-License-Identifier: Apache-2.0
#include "cli/chat.h"

#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/format.h"
#include "cli/stderr_log.h"

namespace inflight::cli {

namespace {

// Prints the answer as it comes.
std::string answer_to(Engine& engine, const RequestOptions& common, const nlohmann::json& messages) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // what was typed need not be UTF-8
  RequestOptions request = common;
  request.prompt = engine.chat_render(
      nlohmann::json{{"messages", messages}, {"add_generation_prompt", true}}.dump(-1, ' ', false, kReplace));
  request.params.add_special_tokens = 0;  // the template has them
  Stream stream = engine.submit(request);
  std::string answer;
  while (const std::optional<Event> event = stream.next()) {
    print_now(event->text);
    answer += event->text;
    if (event->finish_reason == INFLIGHT_FINISH_ERROR) fail(ErrorCode::EngineFailed, "{}", event->error);
    if (event->finish_reason == INFLIGHT_FINISH_ABORT) print_to_stderr("\ninflight: cut: {}", event->error);
  }
  return answer;
}

}  // namespace

void run_chat(Engine& engine, const RequestOptions& common, const std::string& system) {
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  nlohmann::json beginning = nlohmann::json::array();
  if (!system.empty()) beginning.push_back({{"role", "system"}, {"content", system}});
  nlohmann::json messages = beginning;
  if (at_terminal) print_to_stderr("Type a message; /clear forgets the conversation, /exit or Ctrl-D ends it.\n");
  for (std::string line;;) {
    if (at_terminal) print_to_stderr("> ");
    if (!std::getline(std::cin, line) || line == "/exit") return;
    if (line.empty()) continue;
    if (line == "/clear") {
      messages = beginning;
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    std::string answer;
    try {
      answer = answer_to(engine, common, messages);
    } catch (const Failure& failure) {
      if (!at_terminal || failure.status() != INFLIGHT_ERROR_INVALID_ARGUMENT) throw;
      print_to_stderr("inflight: {}\n", failure.what());  // too long, say: the conversation goes on without it
      messages.erase(messages.size() - 1);
      continue;
    }
    print_now("\n");
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
}

}  // namespace inflight::cli
