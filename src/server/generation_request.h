// SPDX-License-Identifier: Apache-2.0
// What a client asks for, checked: the common form of /v1/completions, /v1/chat/completions, /v1/responses,
// /v1/messages, /v1/embeddings and /v1/rerank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inflight/inflight.h"
#include "server/json_body.h"

namespace inflight::server {

// The endpoints, as bits: a request field belongs to some of them.
inline constexpr unsigned kCompletions = 1;
inline constexpr unsigned kChat = 2;
inline constexpr unsigned kResponses = 4;
inline constexpr unsigned kEmbeddings = 8;
inline constexpr unsigned kMessages = 16;  // Anthropic's
inline constexpr unsigned kRerank = 32;
inline constexpr unsigned kConversations = kChat | kResponses | kMessages;
inline constexpr unsigned kEndpoints = kCompletions | kConversations;  // those that generate
inline constexpr unsigned kAllEndpoints = kEndpoints | kEmbeddings | kRerank;

// The field that an endpoint's prompt comes in.
[[nodiscard]] constexpr const char* content_field(unsigned endpoint) {
  if (endpoint == kCompletions) return "prompt";
  if (endpoint == kRerank) return "documents";
  return (endpoint & (kChat | kMessages)) != 0 ? "messages" : "input";
}

inline constexpr int32_t kChoicesMax = 128;  // answers of one HTTP request

// One prompt of a completion: text or ids.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids{};  // not empty: these
};

struct ToolChoice {
  enum class Kind { None, Auto, Required, Named } kind = Kind::Auto;
  std::string name;                    // Named
  std::vector<std::string> allowed{};  // Auto, Required: of these only; empty: of all

  [[nodiscard]] bool forces_calls() const { return kind == Kind::Required || kind == Kind::Named; }
};

struct GenerationRequest {
  std::string model;
  std::string lora_name;                                            // the adapter that `model` names; "": none
  inflight_request_params_t params = INFLIGHT_REQUEST_PARAMS_INIT;  // its pointers are set at submit
  int32_t max_tokens = -1;                                          // not given: the endpoint's default
  bool stream = false;
  bool include_usage = false;     // a last chunk with the token counts
  bool continuous_usage = false;  // vLLM's: and in each chunk those until then
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop, bad_words, dry_sequence_breakers;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::string cache_salt;
  std::string prediction;  // a text that the answer is likely to repeat
  std::string user;        // without `tenant` and API keys: its requests are one tenant's
  int32_t tenant = -1;     // -1: not given
  std::string structured_json, structured_regex, structured_grammar, structured_tools;
  std::vector<std::string> structured_choice;
  std::string structured_by;      // the field that asked for it; "": none
  bool logprobs = false;          // tell each token's
  bool return_token_ids = false;  // vLLM's: tell the ids of prompt and answer
  int32_t top_logprobs = 0;
  int32_t prompt_logprobs = -1;  // vLLM's: tell those of the prompt and so many most likely tokens

  std::vector<Prompt> prompts;        // completions and embeddings; of rerankers, the documents
  std::optional<std::string> suffix;  // completions: what stands behind the answer
  bool echo = false;                  // completions: the prompt's text comes before the answer

  // Embeddings.
  bool base64 = false;     // else numbers
  bool normalize = true;   // to length 1
  int32_t dimensions = 0;  // 0: not given

  // Reranking.
  std::string query;
  int32_t top_n = 0;             // so many results; 0: all
  bool return_documents = true;  // with their texts

  // Chat and responses.
  Json messages = Json::array();  // for the chat template: roles it knows, contents as text, arguments as objects
  Json tools = Json::array();     // as given
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  Json template_variables = Json::object();  // chat_template_kwargs
  std::string reasoning_effort;              // "": not given
  std::optional<bool> thinking;              // whether it is wanted at all
  bool include_reasoning = true;             // vLLM's: the answer tells it
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // vLLM's: the answer goes on with the last message

  Json echoed = Json::object();  // responses: fields that the answer repeats

  // Prompts times answers, those of best_of that are dropped included.
  [[nodiscard]] int64_t sequence_count() const {
    return static_cast<int64_t>(std::max<size_t>(prompts.size(), 1)) * std::max(params.n, params.best_of);
  }
};

// Reads a request body for one endpoint.
// max_tokens_limit: of the engine, 0 = none; a request that does not say how much it wants gets no more.
// ERRORS: ApiError 400 naming the field, what was found, what is allowed.
[[nodiscard]] GenerationRequest read_generation_request(const Json& body, unsigned endpoint,
                                                        int32_t max_tokens_limit = 0);

// ERRORS: ApiError 400: the last message cannot be gone on with behind the next one's header.
void check_continuation(const GenerationRequest& request);

// What inflight_chat_render() takes.
[[nodiscard]] std::string chat_render_json(const GenerationRequest& request);

}  // namespace inflight::server
