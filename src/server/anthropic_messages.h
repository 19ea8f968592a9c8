// SPDX-License-Identifier: Apache-2.0
// Requests in the form of Anthropic's /v1/messages, checked and brought to the form that /v1/chat/completions has.
// ERRORS (all): ApiError 400 with the path ("messages[2].content[0].type").
#pragma once

#include "server/generation_request.h"
#include "server/json_body.h"

namespace inflight::server {

// `messages`: texts or blocks (text, thinking, tool_use, tool_result; redacted_thinking is left out). Turns of one role
// in a row become one. An answer that the last message begins goes on with it.
void read_anthropic_messages(const Json& value, GenerationRequest& request);

// `system`: a text, or blocks of text.
void read_anthropic_system(const Json& value, GenerationRequest& request);

// `tools`: {"name", "description", "input_schema"} each.
void read_anthropic_tools(const Json& value, GenerationRequest& request);

// `tool_choice`: {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}.
void read_anthropic_tool_choice(const Json& value, GenerationRequest& request);

// `thinking`: {"type": "enabled" | "adaptive" | "disabled", "budget_tokens", ...}: whether to think at all; the rest is
// not looked at.
void read_anthropic_thinking(const Json& value, GenerationRequest& request);

// `metadata` {"user_id"}, `output_config` {"format": {"type": "json_schema", "schema"}, "effort"}.
void read_anthropic_metadata(const Json& value, GenerationRequest& request);
void read_output_config(const Json& value, GenerationRequest& request);

}  // namespace inflight::server
