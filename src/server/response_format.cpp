// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/responses: reasoning, messages and function calls in their order, as an object or as typed events.
#include <fmt/format.h>

#include <optional>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

class ResponseFormat final : public AnswerFormat {
 public:
  ResponseFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), parser_(request, info_) {}

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
    const AnswerParts found = parser_.read(delta);
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) finish_reason_ = delta.finish_reason;
    for (const AnswerPart& part : found.parts) {
      if (part.call) {
        take_call(*part.call, out);
      } else {
        take_text(part.text, part.is_reasoning ? Open::Reasoning : Open::Message, out);
      }
    }
  }

  // An item of text.
  enum class Open { None, Reasoning, Message };

  void take_text(const std::string& text, Open kind, std::string* out) {
    if (call_) close_call("incomplete", out);
    if (open_ != kind) {
      close_text("completed", out);
      open_text(kind, out);
    }
    text_ += text;
    Json event = place();
    event["content_index"] = 0;
    event["delta"] = text;
    if (kind == Open::Message) event["logprobs"] = Json::array();
    append(fmt::format("response.{}.delta", part_type()), std::move(event), out);
  }

  // Without parallel calls the first one only.
  void take_call(const ToolCallDelta& call, std::string* out) {
    if (!call.name.empty()) ++call_count_;
    if (!request_.parallel_tool_calls && call_count_ > 1) return;
    if (!call.name.empty()) {
      close_text("completed", out);
      open_call(call.name, out);
    }
    if (!call.arguments.empty()) add_arguments(call.arguments, out);
    if (call.ends) close_call("completed", out);
  }

  // What is open.
  void close(std::string* out) {
    if (call_) close_call("incomplete", out);
    const bool nothing = items_.empty() && open_ == Open::None;
    if (nothing && !request_.tool_choice.forces_calls()) open_text(Open::Message, out);
    close_text(status_name(), out);
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
    json["output_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens.value_or(0);
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

  // Of the open item.
  [[nodiscard]] const char* part_type() const { return open_ == Open::Reasoning ? "reasoning_text" : "output_text"; }

  [[nodiscard]] Json part(const std::string& text) const {
    Json part{{"type", part_type()}, {"text", text}};
    if (open_ == Open::Message) part["annotations"] = part["logprobs"] = Json::array();
    return part;
  }

  // An answer may have several.
  [[nodiscard]] std::string text_id() const {
    const std::string id = (open_ == Open::Reasoning ? "rs_" : "msg_") + info_.id;
    return items_.empty() ? id : fmt::format("{}_{}", id, items_.size());
  }

  [[nodiscard]] Json text_item(const char* status, Json content) const {
    Json item;
    item["id"] = text_id();
    item["type"] = open_ == Open::Reasoning ? "reasoning" : "message";
    item["status"] = status;
    if (open_ == Open::Reasoning) {
      item["summary"] = Json::array();
    } else {
      item["role"] = "assistant";
    }
    item["content"] = std::move(content);
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

  // Of the open item.
  [[nodiscard]] Json place() const {
    Json event;
    event["item_id"] = text_id();
    event["output_index"] = items_.size();
    return event;
  }

  void open_text(Open kind, std::string* out) {
    open_ = kind;
    Json added;
    added["output_index"] = items_.size();
    added["item"] = text_item("in_progress", Json::array());
    append("response.output_item.added", std::move(added), out);
    Json event = place();
    event["content_index"] = 0;
    event["part"] = part("");
    append("response.content_part.added", std::move(event), out);
  }

  void close_text(const char* status, std::string* out) {
    if (open_ == Open::None) return;
    Json text = place();
    text["content_index"] = 0;
    text["text"] = text_;
    if (open_ == Open::Message) text["logprobs"] = Json::array();
    append(fmt::format("response.{}.done", part_type()), std::move(text), out);
    Json content = place();
    content["content_index"] = 0;
    content["part"] = part(text_);
    append("response.content_part.done", std::move(content), out);
    items_.push_back(text_item(status, Json::array({part(text_)})));
    open_ = Open::None;
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
  AnswerParser parser_;
  Open open_ = Open::None;
  std::string text_;              // of the open item
  std::optional<ToolCall> call_;  // that is being written
  Json items_ = Json::array();    // complete ones
  size_t call_count_ = 0;
  int64_t sequence_ = 0;
  inflight_finish_reason_t finish_reason_ = INFLIGHT_FINISH_ERROR;
};

}  // namespace

std::unique_ptr<AnswerFormat> response_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<ResponseFormat>(request, std::move(info));
}

}  // namespace inflight::server
