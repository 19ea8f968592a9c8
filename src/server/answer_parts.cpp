// SPDX-License-Identifier: Apache-2.0
#include "server/answer_parts.h"

#include <utility>

namespace inflight::server {

void append_delta(const ToolCallDelta& delta, std::vector<ToolCall>& calls) {
  if (!delta.name.empty()) calls.push_back({delta.name, ""});
  calls.back().arguments += delta.arguments;
}

void AnswerParts::add(std::string_view text, bool is_reasoning) {
  if (text.empty()) return;
  if (parts.empty() || parts.back().call || parts.back().is_reasoning != is_reasoning) {
    parts.push_back({.text = "", .is_reasoning = is_reasoning});
  }
  parts.back().text += text;
}

void AnswerParts::append(AnswerParts more) {
  for (AnswerPart& part : more.parts) {
    if (part.call) {
      parts.push_back(std::move(part));
    } else {
      add(part.text, part.is_reasoning);
    }
  }
}

std::string AnswerParts::joined(bool reasoning) const {
  std::string all;
  for (const AnswerPart& part : parts) {
    if (part.is_reasoning == reasoning) all += part.text;
  }
  return all;
}

}  // namespace inflight::server
