// SPDX-License-Identifier: Apache-2.0
#include "server/generation_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api_error.h"
#include "server/request_fields.h"

namespace inflight::server {
namespace {

constexpr int32_t kChoicesMax = 128;              // answers of one request
constexpr int32_t kCompletionTokensDefault = 16;  // OpenAI's
constexpr int32_t kChatTokensDefault = 1 << 24;   // the context is shorter: it ends there

void check_tools(const GenerationRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  if (choice.kind == Kind::Required || choice.kind == Kind::Named) {
    throw ApiError(400, "'tool_choice' must be \"none\" or \"auto\": calls cannot be forced without grammars",
                   "tool_choice");
  }
}

}  // namespace

GenerationRequest read_generation_request(const Json& body, unsigned endpoint) {
  GenerationRequest request;
  request.params.temperature = 1.0F;  // OpenAI's default, not the C interface's
  read_fields(body, endpoint, request);
  if (endpoint == kCompletions) {
    if (request.prompts.empty()) throw ApiError(400, "'prompt' is missing", "prompt");
    const auto count = static_cast<int64_t>(request.prompts.size()) * request.n;
    if (count > kChoicesMax) {
      throw ApiError(400,
                     fmt::format("{} prompts with n = {} make {} answers, at most {} are allowed",
                                 request.prompts.size(), request.n, count, kChoicesMax),
                     "n");
    }
  } else if (!body.contains(endpoint == kChat ? "messages" : "input") || request.messages.empty()) {
    const char* const field = endpoint == kChat ? "messages" : "input";
    throw ApiError(400, fmt::format("'{}' is missing", field), field);
  }
  if (request.top_logprobs > 0 && !request.logprobs) {
    throw ApiError(400, "'top_logprobs' needs 'logprobs': true", "top_logprobs");
  }
  if (body.contains("stream_options") && !body["stream_options"].is_null() && !request.stream) {
    throw ApiError(400, "'stream_options' is allowed with 'stream': true only", "stream_options");
  }
  check_tools(request);
  const int32_t tokens_default = endpoint == kCompletions ? kCompletionTokensDefault : kChatTokensDefault;
  request.params.max_tokens = request.max_tokens.value_or(tokens_default);
  return request;
}

std::string chat_render_json(const GenerationRequest& request) {
  Json json = request.template_variables;
  json["messages"] = request.messages;
  if (!request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::None) json["tools"] = request.tools;
  json["add_generation_prompt"] = request.add_generation_prompt;
  return to_text(json);
}

}  // namespace inflight::server
