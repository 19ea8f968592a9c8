// SPDX-License-Identifier: Apache-2.0
// The chat templates' side of jinja_test.py: reads one JSON object a line {"template", "request", "bos", "eos", "time"}
// and answers each with {"text"} or {"error"}. With "adapt": true the conversation is brought to what the template
// knows.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tool_call_format.h"

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto task = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json answer;
    try {
      const inflight::ChatTemplate chat_template(task["template"].get<std::string>());
      const inflight::ChatSettings settings{task["bos"], task["eos"], task["time"]};
      std::string request = task["request"].dump();
      if (task.value("adapt", false))
        request = adapt_to_format(find_tool_call_format(chat_template, settings), request);
      answer["text"] = chat_template.render(request, settings);
    } catch (const inflight::Error& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return 0;
}
