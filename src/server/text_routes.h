// SPDX-License-Identifier: Apache-2.0
// /tokenize and /detokenize in vLLM's form, /v1/messages/count_tokens in Anthropic's, /v1/responses/input_tokens in
// OpenAI's.
#pragma once

#include <functional>
#include <string>

#include "inflight/inflight.hpp"
#include "server/json_body.h"

namespace inflight::server {

// What throws for a model that is not served; "" names none. All of them have one vocabulary.
using ModelCheck = std::function<void(const std::string& name)>;

// {"prompt": text} (or "content", or "messages" for the chat template) to {"count", "max_model_len", "tokens"}.
// ERRORS: ApiError 400 naming the field; what `check` throws; Failure of the engine.   THREAD: any.
[[nodiscard]] std::string tokenize_answer(Engine& engine, const std::string& body, const ModelCheck& check,
                                          const Json& engine_info);

// {"tokens": ids} to {"prompt": text}.   ERRORS, THREAD: the same.
[[nodiscard]] std::string detokenize_answer(Engine& engine, const std::string& body, const ModelCheck& check);

// A body of /v1/messages (kMessages) or /v1/responses (kResponses) to {"input_tokens"}: the length of its prompt.
// ERRORS, THREAD: the same.
[[nodiscard]] std::string count_tokens_answer(Engine& engine, const std::string& body, const ModelCheck& check,
                                              unsigned endpoint);

}  // namespace inflight::server
