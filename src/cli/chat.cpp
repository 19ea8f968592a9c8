// SPDX-License-Identifier: Apache-2.0
#include "cli/chat.h"

#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/format.h"
#include "cli/stderr_log.h"
#include "server/reasoning_parser.h"

namespace inflight::cli {

namespace {

// As it comes: what the model thinks, dimmed at a terminal, on standard error, the rest on standard output.
class Printer {
 public:
  Printer() = default;
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;
  ~Printer() { end_reasoning(); }

  void print(const server::AnswerParts& parts) {
    for (const server::AnswerPart& part : parts.parts) {
      if (part.is_reasoning) {
        if (!std::exchange(thinks_, true) && dims_) print_to_stderr("\033[2m");
        print_to_stderr("{}", part.text);
        continue;
      }
      end_reasoning();
      print_now(part.text);
    }
  }

 private:
  void end_reasoning() {
    if (std::exchange(thinks_, false)) print_to_stderr("{}\n\n", dims_ ? "\033[0m" : "");
  }

  const bool dims_ = ::isatty(STDERR_FILENO) == 1;
  bool thinks_ = false;
};

// The message that answers, printed as it comes.
nlohmann::json answer_to(Engine& engine, const server::ReasoningMarks& marks, const RequestOptions& common,
                         const nlohmann::json& messages) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // what was typed need not be UTF-8
  RequestOptions request = common;
  request.prompt = engine.chat_render(
      nlohmann::json{{"messages", messages}, {"add_generation_prompt", true}}.dump(-1, ' ', false, kReplace));
  request.params.add_special_tokens = 0;  // the template has them
  request.params.reasoning_apart = 1;
  server::ReasoningParser parser(marks, {}, request.prompt);
  Stream stream = engine.submit(request);
  server::AnswerParts answer;
  Printer printer;
  const auto take = [&](server::AnswerParts parts) {
    printer.print(parts);
    answer.append(std::move(parts));
  };
  while (const std::optional<Event> event = stream.next()) {
    take(parser.push(event->text));
    if (event->finish_reason == INFLIGHT_FINISH_ERROR) fail(ErrorCode::EngineFailed, "{}", event->error);
    if (event->finish_reason == INFLIGHT_FINISH_ABORT) print_to_stderr("\ninflight: cut: {}", event->error);
  }
  take(parser.finish());
  nlohmann::json message = {{"role", "assistant"}, {"content", answer.text()}};
  if (const std::string thought = answer.reasoning(); !thought.empty()) message["reasoning_content"] = thought;
  return message;
}

}  // namespace

void run_chat(Engine& engine, const RequestOptions& common, const std::string& system) {
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  const auto info = nlohmann::ordered_json::parse(engine.info_json());
  const server::ReasoningMarks marks = server::read_reasoning_marks(info["reasoning"]);
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
    nlohmann::json answer;
    try {
      answer = answer_to(engine, marks, common, messages);
    } catch (const Failure& failure) {
      if (!at_terminal || failure.status() != INFLIGHT_ERROR_INVALID_ARGUMENT) throw;
      print_to_stderr("inflight: {}\n", failure.what());  // too long, say: the conversation goes on without it
      messages.erase(messages.size() - 1);
      continue;
    }
    print_now("\n");
    messages.push_back(std::move(answer));
  }
}

}  // namespace inflight::cli
