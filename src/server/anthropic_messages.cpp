// SPDX-License-Identifier: Apache-2.0
#include "server/anthropic_messages.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/field_readers.h"

namespace inflight::server {
namespace {

// A text, or blocks of text, each a line of its own.
std::string read_text(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(path, content, "a string or an array of text blocks");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    check_object(place, content[i]);
    if (const std::string& type = text_at(content[i], "type", place); type != "text") {
      throw ApiError(400, fmt::format("'{}.type' is '{}'; this model reads text only", place, type), place + ".type");
    }
    if (i > 0) text += '\n';
    text += text_at(content[i], "text", place);
  }
  return text;
}

// Joins what one role says in a row.
class Turns {
 public:
  explicit Turns(Json& messages) : messages_(messages) {}

  void add_text(const std::string& role, const std::string& text) {
    std::string& joined = of(role)["content"].get_ref<std::string&>();
    if (!joined.empty()) joined += '\n';
    joined += text;
  }

  void add_thinking(const std::string& text) {
    Json& message = of("assistant");
    const std::string before = message.value("reasoning_content", std::string());
    message["reasoning_content"] = before.empty() ? text : before + '\n' + text;
  }

  void add_call(const Json& block, const std::string& path) {
    Json call;
    call["id"] = text_at(block, "id", path);
    call["type"] = "function";
    call["function"]["name"] = text_at(block, "name", path);
    const Json* const input = find(block, "input");
    call["function"]["arguments"] = input == nullptr ? Json::object() : *input;
    of("assistant")["tool_calls"].push_back(std::move(call));
  }

  void add_result(const Json& block, const std::string& path) {
    const Json* const content = find(block, "content");
    Json message;
    message["role"] = "tool";
    message["tool_call_id"] = text_at(block, "tool_use_id", path);
    message["content"] = content == nullptr ? "" : read_text(*content, path + ".content");
    messages_.push_back(std::move(message));
  }

 private:
  Json& of(const std::string& role) {
    if (messages_.empty() || messages_.back()["role"] != role) {
      messages_.push_back(Json{{"role", role}, {"content", ""}});
    }
    return messages_.back();
  }

  Json& messages_;
};

void read_block(const Json& block, const std::string& role, const std::string& path, Turns& turns) {
  check_object(path, block);
  const std::string& type = text_at(block, "type", path);
  if (type == "text") return turns.add_text(role, text_at(block, "text", path));
  if (type == "tool_use" && role == "assistant") return turns.add_call(block, path);
  if (type == "tool_result" && role == "user") return turns.add_result(block, path);
  if (type == "thinking" && role == "assistant") return turns.add_thinking(text_at(block, "thinking", path));
  if (type == "redacted_thinking" && role == "assistant") return;
  const char* const more = role == "user"        ? ", tool_result"
                           : role == "assistant" ? ", tool_use, thinking, redacted_thinking"
                                                 : "";
  throw ApiError(400, fmt::format("'{}.type' is '{}', allowed for role {}: text{}", path, type, role, more),
                 path + ".type");
}

// `system`, if it has been read, before the turns, of which the first may be one more.
void put_before(const Json& system, Json& turns) {
  if (system.empty()) return;
  if (turns.empty() || turns.front()["role"] != "system") {
    turns.insert(turns.begin(), system.front());
  } else {
    turns.front()["content"] =
        system.front()["content"].get<std::string>() + '\n' + turns.front()["content"].get<std::string>();
  }
}

}  // namespace

void read_anthropic_messages(const Json& value, GenerationRequest& request) {
  if (!value.is_array() || value.empty()) refuse("messages", value, "an array of one message or more");
  Json messages = Json::array();
  Turns turns(messages);
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    check_object(path, value[i]);
    const std::string& role = text_at(value[i], "role", path);
    if (role != "user" && role != "assistant" && role != "system") {
      throw ApiError(400, fmt::format("'{}.role' is '{}', allowed: user, assistant, system", path, role),
                     path + ".role");
    }
    const Json* const content = find(value[i], "content");
    if (content == nullptr) refuse(path + ".content", Json(), "a string or an array of blocks");
    if (!content->is_array()) {
      turns.add_text(role, read_text(*content, path + ".content"));
      continue;
    }
    for (size_t k = 0; k < content->size(); ++k) {
      read_block((*content)[k], role, fmt::format("{}.content[{}]", path, k), turns);
    }
  }
  if (messages.empty()) throw ApiError(400, "'messages' have no content", "messages");
  const Json& last = messages.back();
  const bool has_text = last["content"] != "" || !last.contains("reasoning_content");
  if (last["role"] == "assistant" && !last.contains("tool_calls") && has_text) {
    request.add_generation_prompt = false;
    request.continue_final_message = true;
  }
  put_before(request.messages, messages);
  request.messages = std::move(messages);
}

void read_anthropic_system(const Json& value, GenerationRequest& request) {
  put_before(Json::array({Json{{"role", "system"}, {"content", read_text(value, "system")}}}), request.messages);
}

void read_anthropic_tools(const Json& value, GenerationRequest& request) {
  if (!value.is_array()) refuse("tools", value, "an array");
  Json tools = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    check_object(path, value[i]);
    if (const Json* const type = find(value[i], "type"); type != nullptr && *type != "custom") {
      throw ApiError(400, fmt::format("'{}.type' is {}, allowed: custom (tools of the client)", path, describe(*type)),
                     path + ".type");
    }
    const Json* const schema = find(value[i], "input_schema");
    if (schema == nullptr || !schema->is_object()) {
      refuse(path + ".input_schema", schema == nullptr ? Json() : *schema, "a JSON Schema");
    }
    Json tool = Json{{"type", "function"}, {"name", text_at(value[i], "name", path)}, {"parameters", *schema}};
    for (const char* const key : {"description", "strict"}) {
      if (const Json* const given = find(value[i], key)) tool[key] = *given;
    }
    tools.push_back(std::move(tool));
  }
  request.tools = read_tools(tools, true);
}

void read_anthropic_tool_choice(const Json& value, GenerationRequest& request) {
  using Kind = ToolChoice::Kind;
  check_object("tool_choice", value);
  const std::string& type = text_at(value, "type", "tool_choice");
  request.parallel_tool_calls = !flag_at(value, "disable_parallel_tool_use", "tool_choice");
  if (type == "auto") {
    request.tool_choice = {Kind::Auto, ""};
  } else if (type == "any") {
    request.tool_choice = {Kind::Required, ""};
  } else if (type == "none") {
    request.tool_choice = {Kind::None, ""};
  } else if (type == "tool") {
    request.tool_choice = {Kind::Named, text_at(value, "name", "tool_choice")};
  } else {
    throw ApiError(400, fmt::format("'tool_choice.type' is '{}', allowed: auto, any, tool, none", type),
                   "tool_choice.type");
  }
}

void read_anthropic_thinking(const Json& value, GenerationRequest& request) {
  check_object("thinking", value);
  const std::string& type = text_at(value, "type", "thinking");
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    throw ApiError(400, fmt::format("'thinking.type' is '{}', allowed: enabled, adaptive, disabled", type),
                   "thinking.type");
  }
  if (type != "adaptive") request.thinking = type == "enabled";
}

void read_anthropic_metadata(const Json& value, GenerationRequest& request) {
  check_object("metadata", value);
  if (find(value, "user_id") != nullptr) request.user = text_at(value, "user_id", "metadata");
}

void read_output_config(const Json& value, GenerationRequest& request) {
  check_object("output_config", value);
  check_names(value, {"format", "effort"}, "output_config");
  if (const Json* const format = find(value, "format")) read_format("output_config.format", *format, request);
  if (const Json* const effort = find(value, "effort")) read_reasoning_effort("output_config.effort", *effort, request);
}

}  // namespace inflight::server
