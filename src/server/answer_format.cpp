// SPDX-License-Identifier: Apache-2.0
#include "server/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace inflight::server {

const char* finish_name(inflight_finish_reason_t reason) {
  switch (reason) {
    case INFLIGHT_FINISH_STOP:
      return "stop";
    case INFLIGHT_FINISH_LENGTH:
      return "length";
    default:
      return "error";
  }
}

ToolCallParser call_parser(const GenerationRequest& request, const CallMarks& own) {
  const bool allowed = request.tool_choice.kind != ToolChoice::Kind::None;
  return ToolCallParser(allowed ? request.tools : Json::array(), own, request.tool_choice.forces_calls());
}

std::string call_id(const AnswerInfo& info, size_t choice, size_t index) {
  std::string id = fmt::format("call_{}_{}_{}", info.id, choice, index);
  if (!info.short_call_ids) return id;
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char byte : id) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  id.clear();
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) id += kDigits[hash % kDigits.size()];
  return id;
}

void AnswerFormat::fail(const Json& error, std::string& out) { append_event(to_text(error), out); }

void append_event(const std::string& json, std::string& out) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

std::string whole_text(const Json& head, size_t count, const std::function<Json(size_t)>& choice, const Json& tail) {
  std::string text = to_text(head);
  text.back() = ',';
  text += R"("choices":[)";
  for (size_t i = 0; i < count; ++i) {
    text += to_text(choice(i));
    text += i + 1 < count ? "," : "],";
  }
  return text + to_text(tail).substr(1);
}

Json usage_json(const AnswerUsage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.output_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.output_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  if (usage.draft_tokens > 0) {
    json["completion_tokens_details"]["accepted_prediction_tokens"] = usage.accepted_tokens;
    json["completion_tokens_details"]["rejected_prediction_tokens"] = usage.draft_tokens - usage.accepted_tokens;
  }
  return json;
}

Json prompt_logprobs_json(const std::vector<TokenText>& prompt, int32_t count) {
  const auto entry = [](const TokenText& token, Json rank) {
    return Json{{"logprob", *token.logprob}, {"rank", std::move(rank)}, {"decoded_token", token.text}};
  };
  Json list = Json::array();
  for (const TokenText& token : prompt) {
    if (!token.logprob) {
      list.push_back(Json());
      continue;
    }
    Json position = Json::object();
    for (size_t i = 0; i < std::min(token.top.size(), static_cast<size_t>(count)); ++i) {
      position[std::to_string(token.top[i].id)] = entry(token.top[i], i + 1);
    }
    if (const std::string id = std::to_string(token.id); !position.contains(id)) position[id] = entry(token, Json());
    list.push_back(std::move(position));
  }
  return list;
}

}  // namespace inflight::server
