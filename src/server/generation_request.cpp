// SPDX-License-Identifier: Apache-2.0
#include "server/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/request_fields.h"

namespace inflight::server {
namespace {

constexpr int32_t kCompletionTokensDefault = 16;  // OpenAI's
constexpr int32_t kChatTokensDefault = 1 << 24;   // the context is shorter: it ends there

// Set by a field that says what a message's text is like, not what the whole answer is.
bool is_format_of_text(const std::string& structured_by) {
  constexpr std::string_view kFields[] = {"response_format", "text.format", "output_config.format"};
  return std::ranges::any_of(kFields, [&](std::string_view field) { return structured_by.starts_with(field); });
}

// Functions go to the library, which holds the calls to the model's own form.
void read_tools(GenerationRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  const bool forced = choice.forces_calls();
  if (request.tools.empty() && forced) {
    throw ApiError(400, "'tool_choice' asks for a call, but no 'tools' are given", "tool_choice");
  }
  if (request.tools.empty() || choice.kind == Kind::None) return;
  if (forced && is_format_of_text(request.structured_by)) {  // there will be no text
    request.structured_by.clear();
    request.structured_json.clear();
    request.params.structured_json_object = 0;
  }
  if (forced && !request.structured_by.empty()) {
    throw ApiError(400,
                   fmt::format("'{}' is not allowed with a 'tool_choice' that asks for a call", request.structured_by),
                   request.structured_by);
  }
  std::vector<std::string> names;
  for (const Json& tool : request.tools) names.push_back(tool["function"]["name"]);
  if (choice.kind == Kind::Named && std::ranges::find(names, choice.name) == names.end()) {
    throw ApiError(400, fmt::format("'tool_choice' names '{}', the tools are: {}", choice.name, fmt::join(names, ", ")),
                   "tool_choice");
  }
  Json wanted;
  for (const std::string& name : choice.allowed.empty() ? names : choice.allowed) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw ApiError(400, fmt::format("'tool_choice' allows '{}', the tools are: {}", name, fmt::join(names, ", ")),
                     "tool_choice");
    }
    wanted["tools"].push_back(request.tools[static_cast<size_t>(found - names.begin())]);
  }
  wanted["tool_choice"] = choice.kind == Kind::Required ? "required" : "auto";
  if (choice.kind == Kind::Named) wanted["tool_choice"] = Json{{"function", {{"name", choice.name}}}};
  wanted["parallel_tool_calls"] = request.parallel_tool_calls;
  request.structured_tools = to_text(wanted);
  if (request.structured_by.empty()) request.structured_by = "tools";
}

void check_choices(const GenerationRequest& request) {
  const inflight_request_params_t& params = request.params;
  if (params.best_of != 0 && params.best_of < params.n) {
    throw ApiError(400, fmt::format("'best_of' is {}, at least 'n' = {} is expected", params.best_of, params.n),
                   "best_of");
  }
  if (params.best_of > params.n && request.stream) {
    throw ApiError(400, "'best_of' above 'n' cannot be streamed: all answers must be complete first", "best_of");
  }
  const int32_t each = std::max(params.n, params.best_of);
  const int64_t count = request.sequence_count();
  if (count > kChoicesMax) {
    throw ApiError(400,
                   fmt::format("{} prompts with {} = {} make {} answers, at most {} are allowed",
                               request.prompts.size(), each == params.n ? "n" : "best_of", each, count, kChoicesMax),
                   each == params.n ? "n" : "best_of");
  }
}

void check_suffix(const GenerationRequest& request) {
  if (!request.suffix ||
      std::ranges::all_of(request.prompts, [](const Prompt& prompt) { return prompt.ids.empty(); })) {
    return;
  }
  throw ApiError(400, "'suffix' needs 'prompt' as text, not as token ids", "suffix");
}

// What is told of the prompt is told with the whole answer.
void read_prompt_logprobs(GenerationRequest& request) {
  if (request.prompt_logprobs >= 0 && request.stream) {
    throw ApiError(400, "'prompt_logprobs' cannot be streamed", "prompt_logprobs");
  }
  const bool echoed = request.echo && request.logprobs;
  if (echoed && request.stream) {
    throw ApiError(400, "'echo' with 'logprobs' cannot be streamed", "echo");
  }
  request.params.prompt_logprobs = std::max(request.prompt_logprobs, echoed ? request.top_logprobs : -1);
  const bool drawn = !request.structured_by.empty();  // every token, so that each one's probability is known
  if (request.logprobs && (request.top_logprobs > 0 || drawn)) request.params.logprobs = request.top_logprobs;
}

}  // namespace

GenerationRequest read_generation_request(const Json& body, unsigned endpoint, int32_t max_tokens_limit) {
  GenerationRequest request;
  request.params.temperature = 1.0F;  // OpenAI's default, not the C interface's
  if ((endpoint & kConversations) != 0) request.params.add_special_tokens = 0;  // the template writes them
  read_fields(body, endpoint, request);
  for (const char* const field : {"temperature", "top_p"}) {
    if (const Json* const given = find(body, field)) request.echoed[field] = *given;
  }
  if (const char* const field = content_field(endpoint); find(body, field) == nullptr) {
    throw ApiError(400, fmt::format("'{}' is missing", field), field);
  }
  if (endpoint == kRerank) {
    if (find(body, "query") == nullptr) throw ApiError(400, "'query' is missing", "query");
    request.params.pooling = INFLIGHT_POOLING_CLASSIFY;
    return request;
  }
  if (endpoint == kEmbeddings) {
    if (request.params.pooling == INFLIGHT_POOLING_NONE) request.params.pooling = INFLIGHT_POOLING_MODEL;
    return request;
  }
  // OpenAI allows 0; the smallest number above it keeps the most likely token alone.
  request.params.top_p = std::max(request.params.top_p, std::numeric_limits<float>::min());
  check_choices(request);
  if (request.top_logprobs > 0 && !request.logprobs) {
    throw ApiError(400, "'top_logprobs' needs 'logprobs': true", "top_logprobs");
  }
  if (body.contains("stream_options") && !body["stream_options"].is_null() && !request.stream) {
    throw ApiError(400, "'stream_options' is allowed with 'stream': true only", "stream_options");
  }
  check_suffix(request);
  read_tools(request);
  read_prompt_logprobs(request);
  check_continuation(request);
  // Where both names are given the newer one counts, whichever comes first (as vLLM).
  if (const Json* const newer = find(body, "max_completion_tokens")) request.max_tokens = newer->get<int32_t>();
  int32_t tokens_default = endpoint == kCompletions ? kCompletionTokensDefault : kChatTokensDefault;
  if (max_tokens_limit > 0) {  // whoever wants more by min_tokens hears of it from the engine
    tokens_default = std::min(tokens_default, std::max(max_tokens_limit, request.params.min_tokens));
  }
  request.params.max_tokens = request.max_tokens >= 0 ? request.max_tokens : tokens_default;
  if (request.params.min_tokens > request.params.max_tokens) {
    throw ApiError(400,
                   fmt::format("'min_tokens' is {}, at most max_tokens = {} is allowed", request.params.min_tokens,
                               request.params.max_tokens),
                   "min_tokens");
  }
  return request;
}

void check_continuation(const GenerationRequest& request) {
  if (!request.continue_final_message || !request.add_generation_prompt) return;
  throw ApiError(400, "'continue_final_message' needs 'add_generation_prompt': false", "continue_final_message");
}

std::string chat_render_json(const GenerationRequest& request) {
  Json json = Json::object();
  if (!request.reasoning_effort.empty()) json["reasoning_effort"] = request.reasoning_effort;
  std::optional<bool> thinking = request.thinking;
  if (request.reasoning_effort == "none") thinking = false;
  if (thinking) json["enable_thinking"] = json["thinking"] = *thinking;  // the names that templates have for it
  json.update(request.template_variables);
  json["messages"] = request.messages;
  if (!request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::None) json["tools"] = request.tools;
  json["add_generation_prompt"] = request.add_generation_prompt;
  if (request.continue_final_message) json["continue_final_message"] = true;
  return to_text(json);
}

}  // namespace inflight::server
