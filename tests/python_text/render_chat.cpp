// SPDX-License-Identifier: Apache-2.0
// The chat templates' side of jinja_test.py: reads one JSON object a line {"template", "request", "bos", "eos", "time"}
// and answers each with {"text"} or {"error"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto task = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json answer;
    try {
      answer["text"] = inflight::render_chat(task["template"].get<std::string>(), task["request"].dump(),
                                             {task["bos"], task["eos"], task["time"]});
    } catch (const inflight::Error& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return 0;
}
