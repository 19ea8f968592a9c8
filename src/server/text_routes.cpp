// SPDX-License-Identifier: Apache-2.0
#include "server/text_routes.h"

#include <fmt/format.h>

#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/field_readers.h"
#include "server/generation_request.h"

namespace inflight::server {
namespace {

// Null: not given.
const Json* find_text(const Json& body, const char* key) {
  const Json* const text = find(body, key);
  if (text != nullptr && !text->is_string()) refuse(key, *text, "a string");
  return text;
}

void check_model(const Json& body, const ModelCheck& check) {
  if (const Json* const model = find_text(body, "model")) check(model->get<std::string>());
}

std::string text_of(Engine& engine, const Json& body) {
  GenerationRequest request;
  if (const Json* const tools = find(body, "tools")) request.tools = read_tools(*tools, false);
  if (const Json* const variables = find(body, "chat_template_kwargs")) read_template_variables(*variables, request);
  request.add_generation_prompt = flag_at(body, "add_generation_prompt", "", true);
  request.continue_final_message = flag_at(body, "continue_final_message", "");
  const Json* const content = find_text(body, "content");
  const Json* const prompt = find_text(body, "prompt");
  if (const Json* const messages = find(body, "messages")) {
    check_continuation(request);
    request.messages = read_messages(*messages);
    return engine.chat_render(chat_render_json(request));
  }
  const Json* const text = content != nullptr ? content : prompt;
  if (text == nullptr) throw ApiError(400, "'prompt' is missing: give a string, or 'messages'", "prompt");
  return text->get<std::string>();
}

// As vLLM and llama-server give it.
std::string text_with_control_tokens(Engine& engine, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += engine.token_text(id);
  // SentencePiece puts a space before a text.
  const bool extra = text.starts_with(' ') && engine.detokenize({ids[0]}).size() < engine.token_text(ids[0]).size();
  return extra ? text.substr(1) : text;
}

}  // namespace

std::string tokenize_answer(Engine& engine, const std::string& text, const ModelCheck& check, const Json& engine_info) {
  const Json body = parse_json_object(text);
  check_names(body, {"model", "prompt", "content", "messages", "tools", "chat_template_kwargs", "add_generation_prompt",
                     "continue_final_message", "add_special_tokens", "return_token_strs"});
  check_model(body, check);
  const bool special = flag_at(body, "add_special_tokens", "", find(body, "messages") == nullptr);
  const bool with_texts = flag_at(body, "return_token_strs", "");
  const std::string prompt = text_of(engine, body);
  const std::vector<int32_t> ids = engine.tokenize(prompt, special);
  // Not as a Json, which would take sixteen bytes a number: there may be millions.
  std::string answer = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}])", ids.size(),
                                   to_text(engine_info["limits"]["max_model_len"]), fmt::join(ids, ","));
  for (size_t i = 0; with_texts && i < ids.size(); ++i) {
    answer += i == 0 ? R"(,"token_strs":[)" : ",";
    answer += to_text(engine.token_text(ids[i]));
  }
  return answer + (with_texts && !ids.empty() ? "]}" : "}");
}

std::string count_tokens_answer(Engine& engine, const std::string& text, const ModelCheck& check, unsigned endpoint) {
  const GenerationRequest request = read_generation_request(parse_json_object(text), endpoint);
  check(request.model);
  const std::string prompt = engine.chat_render(chat_render_json(request));
  Json answer = Json::object();
  if (endpoint == kResponses) answer["object"] = "response.input_tokens";
  answer["input_tokens"] = engine.tokenize(prompt, false).size();
  return to_text(answer);
}

std::string detokenize_answer(Engine& engine, const std::string& text, const ModelCheck& check) {
  const Json body = parse_json_object(text);
  check_names(body, {"model", "tokens"});
  check_model(body, check);
  const Json* const tokens = find(body, "tokens");
  if (tokens == nullptr) throw ApiError(400, "'tokens' is missing: give an array of ids", "tokens");
  check_array("tokens", *tokens);
  return to_text(Json{{"prompt", text_with_control_tokens(engine, read_ids("tokens", *tokens))}});
}

}  // namespace inflight::server
