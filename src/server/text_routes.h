// SPDX-License-Identifier: Apache-2.0
// /tokenize and /detokenize in vLLM's form, /v1/messages/count_tokens in Anthropic's.
#pragma once

#include <string>

#include "inflight/inflight.hpp"
#include "server/json_body.h"

namespace inflight::server {

// {"prompt": text} (or "content", or "messages" for the chat template) to {"count", "max_model_len", "tokens"}.
// ERRORS: ApiError 400 naming the field; Failure of the engine.   THREAD: any.
[[nodiscard]] std::string tokenize_answer(Engine& engine, const std::string& body, const Json& engine_info);

// {"tokens": ids} to {"prompt": text}.   ERRORS, THREAD: the same.
[[nodiscard]] std::string detokenize_answer(Engine& engine, const std::string& body);

// A body of /v1/messages to {"input_tokens"}: the length of its prompt.   ERRORS, THREAD: the same.
[[nodiscard]] std::string count_tokens_answer(Engine& engine, const std::string& body);

}  // namespace inflight::server
