// SPDX-License-Identifier: Apache-2.0
// What the engine's info says of a model's text: inflight_engine_info_json() of inflight.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/reasoning_format.h"
#include "text/tokenizer.h"
#include "text/tool_call_format.h"

namespace inflight {

// With the names of Hugging Face's tokenizer_config.json; null for a model that knows token ids only.
// chat_template: "" = none.
[[nodiscard]] nlohmann::ordered_json describe_tokenizer(const Tokenizer* tokenizer, const std::string& chat_template);
// kind "marks": between `begin` and `end`; "harmony": in channels.
[[nodiscard]] nlohmann::ordered_json describe_reasoning(const ReasoningFormat& format);
// plain_name: what stands around names that are plain text, each the texts between which ids or numbers stand; null:
// they are JSON. In it `elements` or `members` say what stands around each argument's name and value and behind the
// last one; both null: the arguments are a JSON object.
[[nodiscard]] nlohmann::ordered_json describe_tool_calls(const ToolCallFormat& format);

}  // namespace inflight
