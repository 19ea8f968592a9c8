// SPDX-License-Identifier: Apache-2.0
#include "server/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

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

namespace {

Json callable_tools(const GenerationRequest& request) {
  return request.tool_choice.kind == ToolChoice::Kind::None ? Json::array() : request.tools;
}

}  // namespace

ReasoningParser reasoning_parser(const GenerationRequest& request, const ReasoningMarks& marks) {
  std::vector<std::string> functions;
  for (const Json& tool : callable_tools(request)) functions.push_back(tool["function"]["name"]);
  const std::string_view prompt = request.prompts.empty() ? "" : std::string_view(request.prompts[0].text);
  return ReasoningParser(marks, std::move(functions), prompt);
}

// Harmony's calls are found by their channel.
AnswerParser::AnswerParser(const GenerationRequest& request, const AnswerInfo& info)
    : reasoning_(reasoning_parser(request, info.reasoning)),
      calls_(info.reasoning.kind == ReasoningMarks::Kind::Harmony ? Json::array() : callable_tools(request),
             info.call_marks, request.tool_choice.forces_calls()),
      tells_reasoning_(request.include_reasoning) {}

AnswerParts AnswerParser::read(const AnswerDelta& delta) {
  AnswerParts found = with_calls(reasoning_.push(delta.text));
  if (delta.finish_reason != INFLIGHT_FINISH_NONE) {
    found.append(with_calls(reasoning_.finish()));
    found.append(calls_.finish());
  }
  return found;
}

AnswerParts AnswerParser::with_calls(AnswerParts parts) {
  AnswerParts found;
  for (AnswerPart& part : parts.parts) {
    if (part.call) {
      found.add_call(std::move(*part.call));
    } else if (!part.is_reasoning) {
      found.append(calls_.push(part.text));
    } else if (tells_reasoning_) {
      found.add_reasoning(part.text);
    }
  }
  return found;
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
  if (usage.reasoning_tokens) json["completion_tokens_details"]["reasoning_tokens"] = *usage.reasoning_tokens;
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
