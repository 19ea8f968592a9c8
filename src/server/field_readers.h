// SPDX-License-Identifier: Apache-2.0
// The request fields that are more than a number, a switch or a text. Each reads one value that is not null.
// ERRORS (all): ApiError 400 naming the field.
#pragma once

#include <string>

#include "server/generation_request.h"
#include "server/json_body.h"

namespace inflight::server {

void read_prompts(const Json& value, GenerationRequest& request);
void read_suffix(const Json& value, GenerationRequest& request);
void read_query(const Json& value, GenerationRequest& request);
void read_rerank_documents(const Json& value, GenerationRequest& request);
void read_embedding_input(const Json& value, GenerationRequest& request);
void read_dimensions(const Json& value, GenerationRequest& request);
void read_encoding_format(const Json& value, GenerationRequest& request);
void read_pooling(const Json& value, GenerationRequest& request);
void read_chat_messages(const Json& value, GenerationRequest& request);
void read_input(const Json& value, GenerationRequest& request);
void read_instructions(const Json& value, GenerationRequest& request);
void read_top_k(const Json& value, GenerationRequest& request);
void read_seed(const Json& value, GenerationRequest& request);
void read_stop(const Json& value, GenerationRequest& request);
void read_stop_sequences(const Json& value, GenerationRequest& request);
void read_bad_words(const Json& value, GenerationRequest& request);
void read_dry_sequence_breakers(const Json& value, GenerationRequest& request);
void read_logit_bias(const Json& value, GenerationRequest& request);
void read_stop_token_ids(const Json& value, GenerationRequest& request);
void read_stream_options(const Json& value, GenerationRequest& request);
void read_completion_logprobs(const Json& value, GenerationRequest& request);
void read_chat_tools(const Json& value, GenerationRequest& request);
void read_flat_tools(const Json& value, GenerationRequest& request);
void read_choice(const Json& value, GenerationRequest& request);
void read_template_variables(const Json& value, GenerationRequest& request);
void read_documents(const Json& value, GenerationRequest& request);
void read_skip_special_tokens(const Json& value, GenerationRequest& request);
void read_structured_outputs(const Json& value, GenerationRequest& request);
void read_guided_json(const Json& value, GenerationRequest& request);
void read_guided_regex(const Json& value, GenerationRequest& request);
void read_guided_grammar(const Json& value, GenerationRequest& request);
void read_guided_choice(const Json& value, GenerationRequest& request);
void read_response_format(const Json& value, GenerationRequest& request);
void read_prediction(const Json& value, GenerationRequest& request);
void read_text_format(const Json& value, GenerationRequest& request);
void read_metadata(const Json& value, GenerationRequest& request);
void read_reasoning(const Json& value, GenerationRequest& request);
void read_reasoning_effort(const Json& value, GenerationRequest& request);
void read_truncation(const Json& value, GenerationRequest& request);

// An array of ids.   ERRORS: ApiError 400 naming the entry that is none.
[[nodiscard]] std::vector<int32_t> read_ids(const std::string& field, const Json& value);

// `reasoning_effort`, or another of its values.
void read_reasoning_effort(const std::string& field, const Json& value, GenerationRequest& request);

// `response_format`, or another field of that form, which may hold the schema itself.
void read_format(const std::string& field, const Json& value, GenerationRequest& request);

}  // namespace inflight::server
