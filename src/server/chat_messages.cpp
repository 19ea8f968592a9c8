// SPDX-License-Identifier: Apache-2.0
#include "server/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "server/api_error.h"

namespace inflight::server {
namespace {

constexpr size_t kMessageCountMax = 10'000;
constexpr size_t kToolCountMax = 512;
constexpr size_t kNameBytesMax = 128;  // Anthropic's

[[noreturn]] void fail_at(const std::string& path, const std::string& message) { throw ApiError(400, message, path); }

// ERRORS: ApiError 400: `messages` is no array, or has none or too many.
void check_count(const std::string& field, const Json& messages, std::string_view expected) {
  if (!messages.is_array()) refuse(field, messages, expected);
  if (messages.empty() || messages.size() > kMessageCountMax) {
    fail_at(field, fmt::format("'{}' has {} entries, allowed: 1 to {}", field, messages.size(), kMessageCountMax));
  }
}

// A text, or parts that are all text, each a line of its own.
std::string read_content(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(path, content, "a string or an array of text parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    check_object(place, content[i]);
    const std::string& type = text_at(content[i], "type", place);
    if (i > 0) text += '\n';
    if (type == "text" || type == "input_text" || type == "output_text") {
      text += text_at(content[i], "text", place);
    } else if (type == "refusal") {
      text += text_at(content[i], "refusal", place);
    } else {
      fail_at(place + ".type", fmt::format("'{}.type' is '{}'; this model reads text only", place, type));
    }
  }
  return text;
}

// Templates want the arguments as an object; clients send the text that the model wrote.
Json read_arguments(const Json& arguments) {
  if (!arguments.is_string()) return arguments;
  Json parsed = parse_json(arguments.get_ref<const std::string&>());
  if (parsed.is_discarded()) return arguments;
  return parsed;
}

Json read_tool_calls(const Json& calls, const std::string& path) {
  check_array(path, calls);
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    const Json* const function = calls[i].is_object() ? find(calls[i], "function") : nullptr;
    if (function == nullptr || !function->is_object()) {
      fail_at(place, fmt::format("'{}' must be {{\"id\", \"type\": \"function\", \"function\": {{...}}}}", place));
    }
    Json call = Json::object();
    if (const Json* const id = find(calls[i], "id")) call["id"] = *id;
    call["type"] = "function";
    call["function"]["name"] = text_at(*function, "name", place + ".function");
    const Json* const arguments = find(*function, "arguments");
    call["function"]["arguments"] = arguments == nullptr ? Json::object() : read_arguments(*arguments);
    result.push_back(std::move(call));
  }
  return result;
}

Json read_message(const Json& given, const std::string& path) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  check_object(path, given);
  const std::string& role = text_at(given, "role", path);
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    fail_at(path + ".role", fmt::format("'{}.role' is '{}', allowed: {}", path, role, fmt::join(kRoles, ", ")));
  }
  Json message = Json::object();
  message["role"] = role == "developer" ? "system" : role == "function" ? "tool" : role;
  const Json* const content = find(given, "content");
  const Json* const calls = find(given, "tool_calls");
  if (content != nullptr) {
    message["content"] = read_content(*content, path + ".content");
  } else if (role != "assistant") {
    fail_at(path + ".content", fmt::format("'{}.content' is missing", path));
  } else {
    message["content"] = "";
  }
  if (calls != nullptr && !calls->empty()) message["tool_calls"] = read_tool_calls(*calls, path + ".tool_calls");
  for (const char* const key : {"name", "tool_call_id", "reasoning_content"}) {
    if (find(given, key) != nullptr) message[key] = text_at(given, key, path);
  }
  if (const Json* const newer = find(given, "reasoning"); newer != nullptr && !message.contains("reasoning_content")) {
    message["reasoning_content"] = text_at(given, "reasoning", path);
  }
  return message;
}

// What an answer's item of reasoning says; its summary where the text is left out.
std::string read_reasoning_item(const Json& item, const std::string& path) {
  std::string text;
  for (const char* const key : {"content", "summary"}) {
    const Json* const parts = find(item, key);
    if (parts == nullptr || !text.empty()) continue;
    check_array(path + "." + key, *parts);
    for (const Json& part : *parts) {
      check_object(path + "." + key, part);
      text += (text.empty() ? "" : "\n") + text_at(part, "text", path + "." + key);
    }
  }
  return text;
}

// One item of a response's input as a message.
Json read_input_item(const Json& item, const std::string& path) {
  check_object(path, item);
  const Json* const type = find(item, "type");
  if (type == nullptr || *type == "message") return read_message(item, path);
  Json message = Json::object();
  if (*type == "reasoning") {
    return Json{{"role", "assistant"}, {"content", ""}, {"reasoning_content", read_reasoning_item(item, path)}};
  }
  if (*type == "function_call") {
    Json call = Json::object();
    call["id"] = text_at(item, "call_id", path);
    call["type"] = "function";
    call["function"]["name"] = text_at(item, "name", path);
    call["function"]["arguments"] = read_arguments(item.value("arguments", Json::object()));
    message["role"] = "assistant";
    message["content"] = "";
    message["tool_calls"].push_back(std::move(call));
    return message;
  }
  if (*type == "function_call_output") {
    message["role"] = "tool";
    message["tool_call_id"] = text_at(item, "call_id", path);
    const Json* const output = find(item, "output");
    message["content"] = output == nullptr ? "" : read_content(*output, path + ".output");
    return message;
  }
  if (*type == "item_reference") {
    fail_at(path, fmt::format("'{}' refers to an item of an earlier answer, but answers are not stored: send the item "
                              "itself (clients that are told 'store': false do)",
                              path));
  }
  fail_at(path + ".type",
          fmt::format("'{}.type' is {}, allowed: message, function_call, function_call_output, reasoning", path,
                      describe(*type)));
}

// A turn of the model is one message; its reasoning and its calls are items of their own.  False: two turns.
bool join_turn(Json& item, Json& turn) {
  if (item.contains("tool_calls")) {
    turn["tool_calls"].push_back(std::move(item["tool_calls"][0]));
    return true;
  }
  const bool begins = turn.contains("reasoning_content") && turn["content"] == "" && !turn.contains("tool_calls");
  if (!begins) return false;
  if (item.contains("reasoning_content")) {
    turn["reasoning_content"] = text_at(turn, "reasoning_content", "") + "\n" + text_at(item, "reasoning_content", "");
  }
  turn["content"] = item["content"];
  return true;
}

// Some of the tools: {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [...]}}, flat in
// /v1/responses.
ToolChoice read_allowed_tools(const Json& choice) {
  const Json* const inner = find(choice, "allowed_tools");
  const Json& given = inner == nullptr ? choice : *inner;
  const std::string path = inner == nullptr ? "tool_choice" : "tool_choice.allowed_tools";
  check_object(path, given);
  const std::string& mode = text_at(given, "mode", path);
  if (mode != "auto" && mode != "required") {
    fail_at(path + ".mode", fmt::format("'{}.mode' is '{}', allowed: auto, required", path, mode));
  }
  ToolChoice allowed{mode == "auto" ? ToolChoice::Kind::Auto : ToolChoice::Kind::Required, ""};
  const Json* const tools = find(given, "tools");
  if (tools == nullptr) fail_at(path + ".tools", fmt::format("'{}.tools' is missing", path));
  for (const Json& tool : read_tools(*tools, true)) allowed.allowed.push_back(tool["function"]["name"]);
  if (allowed.allowed.empty()) fail_at(path + ".tools", fmt::format("'{}.tools' names no tools", path));
  return allowed;
}

}  // namespace

Json read_messages(const Json& messages) {
  check_count("messages", messages, "an array of messages");
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i)
    result.push_back(read_message(messages[i], fmt::format("messages[{}]", i)));
  return result;
}

Json read_response_input(const Json& input) {
  Json result = Json::array();
  if (input.is_string()) {
    result.push_back(Json{{"role", "user"}, {"content", input}});
    return result;
  }
  check_count("input", input, "a string or an array of items");
  for (size_t i = 0; i < input.size(); ++i) {
    Json message = read_input_item(input[i], fmt::format("input[{}]", i));
    const bool goes_on = message["role"] == "assistant" && !result.empty() && result.back()["role"] == "assistant";
    if (!goes_on || !join_turn(message, result.back())) result.push_back(std::move(message));
  }
  const bool thinks_only = result.size() == 1 && result[0].contains("reasoning_content") &&
                           result[0]["content"] == "" && !result[0].contains("tool_calls");
  if (thinks_only) fail_at("input", "'input' has nothing but reasoning");
  return result;
}

Json read_tools(const Json& tools, bool flat) {
  check_array("tools", tools);
  check_count("tools", tools.size(), kToolCountMax);
  Json result = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    check_object(path, tools[i]);
    if (const std::string& type = text_at(tools[i], "type", path); type != "function") {
      fail_at(path + ".type", fmt::format("'{}.type' is '{}', allowed: function", path, type));
    }
    const Json* const inner = find(tools[i], "function");
    const Json& function = inner == nullptr ? tools[i] : *inner;
    const bool is_flat = inner == nullptr && (flat || find(tools[i], "name") != nullptr);
    const std::string place = is_flat ? path : path + ".function";
    check_object(place, function);
    const std::string& name = text_at(function, "name", place);
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '.';
    };
    if (name.empty() || name.size() > kNameBytesMax || !std::all_of(name.begin(), name.end(), allowed)) {
      fail_at(place + ".name",
              fmt::format("'{}.name' must be 1 to {} of the characters a-z A-Z 0-9 _ - .", place, kNameBytesMax));
    }
    Json tool = Json::object();
    tool["type"] = "function";
    tool["function"]["name"] = name;
    if (find(function, "description") != nullptr)
      tool["function"]["description"] = text_at(function, "description", place);
    const auto add_kind = [&](const char* key, bool (Json::*fits)() const, const char* expected) {
      const Json* const value = find(function, key);
      if (value == nullptr) return;
      if (!(value->*fits)()) refuse(fmt::format("{}.{}", place, key), *value, expected);
      tool["function"][key] = *value;
    };
    add_kind("parameters", &Json::is_object, "a JSON Schema");
    add_kind("strict", &Json::is_boolean, "true or false");
    result.push_back(std::move(tool));
  }
  return result;
}

ToolChoice read_tool_choice(const Json& choice) {
  using Kind = ToolChoice::Kind;
  if (choice == "none") return {Kind::None, ""};
  if (choice == "auto") return {Kind::Auto, ""};
  if (choice == "required") return {Kind::Required, ""};
  if (choice.is_object() && choice.value("type", Json()) == "function") {
    const Json* const inner = find(choice, "function");
    const bool flat = inner == nullptr || !inner->is_object();
    return {Kind::Named, text_at(flat ? choice : *inner, "name", flat ? "tool_choice" : "tool_choice.function")};
  }
  if (choice.is_object() && choice.value("type", Json()) == "allowed_tools") return read_allowed_tools(choice);
  fail_at("tool_choice", fmt::format("'tool_choice' is {}, allowed: \"none\", \"auto\", \"required\", {{\"type\": "
                                     "\"function\", \"function\": {{\"name\": ...}}}} or {{\"type\": "
                                     "\"allowed_tools\", \"allowed_tools\": {{\"mode\", \"tools\"}}}}",
                                     describe(choice)));
}

}  // namespace inflight::server
