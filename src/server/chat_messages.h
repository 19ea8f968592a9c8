// SPDX-License-Identifier: Apache-2.0
// Conversations and tools in OpenAI's form, checked and brought to the form that chat templates expect.
#pragma once

#include <string>

#include "server/generation_request.h"
#include "server/json_body.h"

namespace inflight::server {

// `messages` of /v1/chat/completions. Parts of text are joined, role developer becomes system, the arguments of tool
// calls become objects.   ERRORS: ApiError 400 with the path ("messages[2].content[0].type").
[[nodiscard]] Json read_messages(const Json& messages);

// `input` (and `instructions`) of /v1/responses, to the same form.  ERRORS: ApiError 400 with the path.
[[nodiscard]] Json read_response_input(const Json& input);

// `tools`: every entry {"type": "function", "function": {"name", "description", "parameters", "strict"}}. The flat form
// of /v1/responses is accepted and brought to this one.   flat: that is the form to name where a tool has neither.
// ERRORS: ApiError 400 with the path.
[[nodiscard]] Json read_tools(const Json& tools, bool flat);

// `tool_choice`: "none", "auto", "required" or a function's name.   ERRORS: ApiError 400.
[[nodiscard]] ToolChoice read_tool_choice(const Json& choice);

}  // namespace inflight::server
