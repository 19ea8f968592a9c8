// SPDX-License-Identifier: Apache-2.0
// What an answer's text is made of: what the model thinks, what it says, and calls of functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inflight::server {

// A piece of a call; the pieces of one call follow each other.
struct ToolCallDelta {
  std::string name;       // not empty: a call begins here
  std::string arguments;  // more of its JSON text
  bool ends = false;      // with it the call is whole
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// Adds a piece to the calls of an answer.
void append_delta(const ToolCallDelta& delta, std::vector<ToolCall>& calls);

// Text to show, reasoning, or a piece of a call.
struct AnswerPart {
  std::string text;
  std::optional<ToolCallDelta> call{};
  bool is_reasoning = false;  // the text
};

// In the order in which they were written.
struct AnswerParts {
  std::vector<AnswerPart> parts;

  void add_text(std::string_view text) { add(text, false); }
  void add_reasoning(std::string_view text) { add(text, true); }
  void add_call(ToolCallDelta call) { parts.push_back({"", std::move(call)}); }
  void append(AnswerParts more);
  // All of it, whatever stands between.
  [[nodiscard]] std::string text() const { return joined(false); }
  [[nodiscard]] std::string reasoning() const { return joined(true); }

 private:
  void add(std::string_view text, bool is_reasoning);
  [[nodiscard]] std::string joined(bool reasoning) const;
};

}  // namespace inflight::server
