// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/responses: messages and function calls in their order, as an object or as typed events.
#include <fmt/format.h>

#include <optional>

#include "server/answer_format.h"
#include "server/tool_call_parser.h"

namespace inflight::server {
namespace {

class ResponseFormat final : public AnswerFormat {
 public:
  ResponseFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), parser_(call_parser(request, info_.call_marks)) {}

  void begin(const AnswerUsage&, std::string& out) override {
    Json event;
    event["response"] = response("in_progress", Json());
    append("response.created", event, &out);
    append("response.in_progress", std::move(event), &out);
  }

  void add(const AnswerDelta& delta, std::string& out) override { take(delta, &out); }

  void end(const AnswerUsage& usage, std::string& out) override {
    close(&out);
    Json event;
    const char* const status = status_name();
    event["response"] = response(status, usage_of(usage));
    append(fmt::format("response.{}", status), std::move(event), &out);
  }

  // Some clients read `error`, others what OpenAI's reference has: the same beside it.
  void fail(const Json& error, std::string& out) override {
    Json event = error;
    for (const char* const key : {"code", "message", "param"}) event[key] = error.at("error").at(key);
    append("error", std::move(event), &out);
  }

  void collect(const AnswerDelta& delta) override { take(delta, nullptr); }

  std::string whole(const AnswerUsage& usage) override {
    close(nullptr);
    return to_text(response(status_name(), usage_of(usage)));
  }

 private:
  // Streaming: appends events to `out`; else it is null.
  void take(const AnswerDelta& delta, std::string* out) {
    ToolCallParser::Found found = parser_.push(delta.text);
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) {
      finish_reason_ = delta.finish_reason;
      found.append(parser_.finish());
    }
    for (const ToolCallParser::Part& part : found.parts) {
      if (part.call) {
        take_call(*part.call, out);
      } else {
        take_text(part.text, out);
      }
    }
  }

  void take_text(const std::string& text, std::string* out) {
    if (call_) close_call("incomplete", out);
    if (!message_open_) open_message(out);
    text_ += text;
    Json event = place();
    event["content_index"] = 0;
    event["delta"] = text;
    event["logprobs"] = Json::array();
    append("response.output_text.delta", std::move(event), out);
  }

  // Without parallel calls the first one only.
  void take_call(const ToolCallDelta& call, std::string* out) {
    if (!call.name.empty()) ++call_count_;
    if (!request_.parallel_tool_calls && call_count_ > 1) return;
    if (!call.name.empty()) {
      close_message("completed", out);
      open_call(call.name, out);
    }
    if (!call.arguments.empty()) add_arguments(call.arguments, out);
    if (call.ends) close_call("completed", out);
  }

  // What is open.
  void close(std::string* out) {
    if (call_) close_call("incomplete", out);
    if (items_.empty() && !message_open_ && !request_.tool_choice.forces_calls()) open_message(out);
    close_message(status_name(), out);
  }

  [[nodiscard]] const char* status_name() const {
    return finish_reason_ == INFLIGHT_FINISH_LENGTH ? "incomplete" : "completed";
  }

  static Json usage_of(const AnswerUsage& usage) {
    Json json;
    json["input_tokens"] = usage.prompt_tokens;
    json["input_tokens_details"]["cached_tokens"] = usage.cached_tokens;
    json["input_tokens_details"]["cache_write_tokens"] = 0;
    json["output_tokens"] = usage.output_tokens;
    json["output_tokens_details"]["reasoning_tokens"] = 0;
    json["total_tokens"] = usage.prompt_tokens + usage.output_tokens;
    return json;
  }

  [[nodiscard]] Json response(const std::string& status, Json usage) const {
    Json json;
    json["id"] = "resp_" + info_.id;
    json["object"] = "response";
    json["created_at"] = info_.created_s;
    json["status"] = status;
    json["background"] = false;
    json["error"] = Json();
    json["incomplete_details"] = status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json();
    json["instructions"] = request_.echoed.value("instructions", Json());
    json["max_output_tokens"] = request_.max_tokens > 0 ? Json(request_.max_tokens) : Json();
    json["model"] = info_.model;
    json["output"] = items_;
    json["parallel_tool_calls"] = request_.parallel_tool_calls;
    json["previous_response_id"] = Json();
    json["reasoning"] = Json{{"effort", Json()}, {"summary", Json()}};
    json["reasoning"].update(request_.echoed.value("reasoning", Json::object()));
    json["store"] = false;
    json["temperature"] = request_.echoed.value("temperature", Json(1.0));
    json["text"]["format"] = request_.echoed.value("format", Json{{"type", "text"}});
    json["tool_choice"] = tool_choice();
    json["tools"] = flat_tools();
    json["top_p"] = request_.echoed.value("top_p", Json(1.0));
    json["truncation"] = "disabled";
    json["usage"] = std::move(usage);
    json["user"] = request_.user.empty() ? Json() : Json(request_.user);
    json["metadata"] = request_.echoed.value("metadata", Json::object());
    return json;
  }

  [[nodiscard]] Json tool_choice() const {
    switch (request_.tool_choice.kind) {
      case ToolChoice::Kind::None:
        return "none";
      case ToolChoice::Kind::Auto:
        return "auto";
      case ToolChoice::Kind::Required:
        return "required";
      case ToolChoice::Kind::Named:
        return Json{{"type", "function"}, {"name", request_.tool_choice.name}};
    }
    return Json();
  }

  [[nodiscard]] Json flat_tools() const {
    Json tools = Json::array();
    for (const Json& tool : request_.tools) {
      Json flat = Json{{"type", "function"}};
      for (const auto& [key, value] : tool["function"].items()) flat[key] = value;
      if (!flat.contains("parameters")) flat["parameters"] = Json();
      if (!flat.contains("strict")) flat["strict"] = false;
      tools.push_back(std::move(flat));
    }
    return tools;
  }

  static Json part(const std::string& text) {
    return Json{{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  // Of the message that comes next; an answer with calls may have several.
  [[nodiscard]] std::string message_id() const {
    return items_.empty() ? "msg_" + info_.id : fmt::format("msg_{}_{}", info_.id, items_.size());
  }

  [[nodiscard]] Json message_item(const char* status, const std::string& text) const {
    Json item;
    item["id"] = message_id();
    item["type"] = "message";
    item["status"] = status;
    item["role"] = "assistant";
    item["content"] = Json::array({part(text)});
    return item;
  }

  [[nodiscard]] Json call_item(const ToolCall& call, const char* status) const {
    Json item;
    item["id"] = fmt::format("fc_{}_{}", info_.id, items_.size());
    item["type"] = "function_call";
    item["status"] = status;
    item["call_id"] = server::call_id(info_, 0, items_.size());
    item["name"] = call.name;
    item["arguments"] = call.arguments;
    return item;
  }

  // Of the open message.
  [[nodiscard]] Json place() const {
    Json event;
    event["item_id"] = message_id();
    event["output_index"] = items_.size();
    return event;
  }

  void open_message(std::string* out) {
    message_open_ = true;
    Json added;
    added["output_index"] = items_.size();
    added["item"] = message_item("in_progress", "");
    added["item"]["content"] = Json::array();
    append("response.output_item.added", std::move(added), out);
    Json event = place();
    event["content_index"] = 0;
    event["part"] = part("");
    append("response.content_part.added", std::move(event), out);
  }

  void close_message(const char* status, std::string* out) {
    if (!message_open_) return;
    message_open_ = false;
    Json text = place();
    text["content_index"] = 0;
    text["text"] = text_;
    text["logprobs"] = Json::array();
    append("response.output_text.done", std::move(text), out);
    Json content = place();
    content["content_index"] = 0;
    content["part"] = part(text_);
    append("response.content_part.done", std::move(content), out);
    items_.push_back(message_item(status, text_));
    text_.clear();
    append_done(items_.back(), out);
  }

  void append_done(const Json& item, std::string* out) {
    Json done;
    done["output_index"] = items_.size() - 1;
    done["item"] = item;
    append("response.output_item.done", std::move(done), out);
  }

  void open_call(const std::string& name, std::string* out) {
    call_ = ToolCall{name, ""};
    Json added;
    added["output_index"] = items_.size();
    added["item"] = call_item(*call_, "in_progress");
    append("response.output_item.added", std::move(added), out);
  }

  // About the arguments of the open call.
  [[nodiscard]] Json call_event(const char* key, const std::string& text) const {
    Json event;
    event["item_id"] = call_item(*call_, "")["id"];
    event["output_index"] = items_.size();
    event[key] = text;
    return event;
  }

  void add_arguments(const std::string& text, std::string* out) {
    call_->arguments += text;
    append("response.function_call_arguments.delta", call_event("delta", text), out);
  }

  void close_call(const char* status, std::string* out) {
    Json done = call_event("arguments", call_->arguments);
    done["name"] = call_->name;
    append("response.function_call_arguments.done", std::move(done), out);
    items_.push_back(call_item(*call_, status));
    call_.reset();
    append_done(items_.back(), out);
  }

  void append(const std::string& type, Json event, std::string* out) {
    if (out == nullptr) return;
    Json typed;
    typed["type"] = type;
    typed["sequence_number"] = sequence_++;
    for (auto& [key, value] : event.items()) typed[key] = std::move(value);
    *out += "event: " + type + "\n";
    append_event(to_text(typed), *out);
  }

  const GenerationRequest& request_;
  const AnswerInfo info_;
  ToolCallParser parser_;
  std::string text_;              // of the open message
  std::optional<ToolCall> call_;  // that is being written
  Json items_ = Json::array();    // complete ones
  size_t call_count_ = 0;
  bool message_open_ = false;
  int64_t sequence_ = 0;
  inflight_finish_reason_t finish_reason_ = INFLIGHT_FINISH_ERROR;
};

}  // namespace

std::unique_ptr<AnswerFormat> response_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<ResponseFormat>(request, std::move(info));
}

}  // namespace inflight::server
