// SPDX-License-Identifier: Apache-2.0
// What a client asks to be generated, checked: the common form of /v1/completions, /v1/chat/completions and
// /v1/responses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inflight/inflight.h"
#include "server/json_body.h"

namespace inflight::server {

// The endpoints, as bits: a request field belongs to some of them.
inline constexpr unsigned kCompletions = 1;
inline constexpr unsigned kChat = 2;
inline constexpr unsigned kResponses = 4;
inline constexpr unsigned kEndpoints = kCompletions | kChat | kResponses;

// One prompt of a completion: text or ids.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;  // not empty: these
};

struct ToolChoice {
  enum class Kind { None, Auto, Required, Named } kind = Kind::Auto;
  std::string name;  // Named
};

struct GenerationRequest {
  std::string model;
  inflight_request_params_t params = INFLIGHT_REQUEST_PARAMS_INIT;  // its pointers are set at submit
  std::optional<int32_t> max_tokens;                                // absent: the endpoint's default
  bool stream = false;
  bool include_usage = false;  // a last chunk with the token counts
  int32_t n = 1;
  std::vector<int32_t> stop_token_ids;
  std::string cache_salt;
  bool logprobs = false;
  int32_t top_logprobs = 0;

  std::vector<Prompt> prompts;  // completions
  bool echo = false;            // completions: the prompt's text comes before the answer

  // Chat and responses.
  Json messages = Json::array();  // for the chat template: roles it knows, contents as text, arguments as objects
  Json tools = Json::array();     // as given
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  Json template_variables = Json::object();  // chat_template_kwargs
  bool add_generation_prompt = true;

  Json echoed = Json::object();  // responses: fields that the answer repeats
};

// Reads a request body for one endpoint.  ERRORS: ApiError 400 naming the field, what was found, what is allowed.
[[nodiscard]] GenerationRequest read_generation_request(const Json& body, unsigned endpoint);

// What inflight_chat_render() takes.
[[nodiscard]] std::string chat_render_json(const GenerationRequest& request);

}  // namespace inflight::server
