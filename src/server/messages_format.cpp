// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/messages, in Anthropic's form: blocks of thinking, text and calls, as an object or as typed events.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

class MessagesFormat final : public AnswerFormat {
 public:
  MessagesFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), parser_(request, info_) {}

  void begin(const AnswerUsage& usage, std::string& out) override {
    Json event;
    event["message"] = message(Json(), usage);
    append("message_start", std::move(event), out);
  }

  void add(const AnswerDelta& delta, std::string& out) override { take(delta, &out); }

  void end(const AnswerUsage& usage, std::string& out) override {
    close_block(&out);
    Json event;
    event["delta"]["stop_reason"] = stop_reason(usage);
    event["delta"]["stop_sequence"] = stop_sequence_;
    event["usage"] = usage_of(usage);
    append("message_delta", std::move(event), out);
    append("message_stop", Json::object(), out);
  }

  void fail(const Json& error, std::string& out) override {
    out += "event: error\n";
    AnswerFormat::fail(error, out);
  }

  void collect(const AnswerDelta& delta) override { take(delta, nullptr); }

  std::string whole(const AnswerUsage& usage) override {
    close_block(nullptr);
    return to_text(message(stop_reason(usage), usage));
  }

 private:
  // Streaming: appends events to `out`; else it is null.
  void take(const AnswerDelta& delta, std::string* out) {
    const AnswerParts found = parser_.read(delta);
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) {
      finish_reason_ = delta.finish_reason;
      if (delta.stop_reason.is_string()) stop_sequence_ = delta.stop_reason;
    }
    for (const AnswerPart& part : found.parts) {
      if (!part.call) {
        const Block::Kind kind = part.is_reasoning ? Block::Kind::Thinking : Block::Kind::Text;
        if (!block_ || block_->kind != kind) open_block({.kind = kind}, out);
        add_to_block(part.text, out);
        continue;
      }
      const ToolCallDelta& call = *part.call;
      if (!call.name.empty()) ++call_count_;
      if (!request_.parallel_tool_calls && call_count_ > 1) continue;
      if (!call.name.empty()) {
        open_block({.kind = Block::Kind::Call, .id = call_id(info_, 0, call_count_ - 1), .name = call.name}, out);
      }
      if (!call.arguments.empty()) add_to_block(call.arguments, out);
      last_is_whole_ = call.ends;
      if (call.ends) close_block(out);
    }
  }

  // What is being written.
  struct Block {
    enum class Kind { Text, Thinking, Call } kind = Kind::Text;
    std::string id{}, name{};  // of a call
    std::string text{};        // of a call: its arguments
  };

  static Json block_json(const Block& block) {
    if (block.kind == Block::Kind::Text) return Json{{"type", "text"}, {"text", block.text}};
    if (block.kind == Block::Kind::Thinking) {  // nobody here asks for a signature, clients want one
      return Json{{"type", "thinking"}, {"thinking", block.text}, {"signature", ""}};
    }
    Json input = parse_json(block.text);  // just begun, or too deep: none
    if (!input.is_object()) input = Json::object();
    return Json{{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", std::move(input)}};
  }

  void open_block(Block block, std::string* out) {
    close_block(out);
    block_ = std::move(block);
    if (out == nullptr) return;
    Json event = place();
    event["content_block"] = block_json(*block_);
    append("content_block_start", std::move(event), *out);
  }

  void add_to_block(const std::string& text, std::string* out) {
    block_->text += text;
    if (out == nullptr) return;
    Json event = place();
    switch (block_->kind) {
      case Block::Kind::Text:
        event["delta"] = Json{{"type", "text_delta"}, {"text", text}};
        break;
      case Block::Kind::Thinking:
        event["delta"] = Json{{"type", "thinking_delta"}, {"thinking", text}};
        break;
      case Block::Kind::Call:
        event["delta"] = Json{{"type", "input_json_delta"}, {"partial_json", text}};
        break;
    }
    append("content_block_delta", std::move(event), *out);
  }

  void close_block(std::string* out) {
    if (!block_) return;
    if (out != nullptr) append("content_block_stop", place(), *out);
    // Half of a call has no input that one could give; a stream has told of it already.
    if (out != nullptr || block_->kind != Block::Kind::Call || last_is_whole_) content_.push_back(block_json(*block_));
    block_.reset();
  }

  [[nodiscard]] Json place() const { return Json{{"index", content_.size()}}; }

  // What came from the prefix cache is told apart.
  static Json usage_of(const AnswerUsage& usage) {
    Json json;
    json["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
    json["cache_creation_input_tokens"] = 0;
    json["cache_read_input_tokens"] = usage.cached_tokens;
    json["output_tokens"] = usage.output_tokens;
    return json;
  }

  [[nodiscard]] Json stop_reason(const AnswerUsage& usage) const {
    if (finish_reason_ == INFLIGHT_FINISH_LENGTH) {
      int32_t limit = request_.params.max_tokens;
      if (info_.max_tokens_limit > 0) limit = std::min(limit, info_.max_tokens_limit);
      return usage.output_tokens >= limit ? "max_tokens" : "model_context_window_exceeded";
    }
    if (!stop_sequence_.is_null()) return "stop_sequence";
    return last_is_whole_ ? "tool_use" : "end_turn";
  }

  [[nodiscard]] Json message(Json stop_reason, const AnswerUsage& usage) const {
    Json json;
    json["id"] = "msg_" + info_.id;
    json["type"] = "message";
    json["role"] = "assistant";
    json["model"] = info_.model;
    json["content"] = content_;
    json["stop_reason"] = std::move(stop_reason);
    json["stop_sequence"] = stop_sequence_;
    json["usage"] = usage_of(usage);
    return json;
  }

  static void append(const char* type, Json event, std::string& out) {
    Json typed{{"type", type}};
    typed.update(event);
    out += std::string("event: ") + type + "\n";
    append_event(to_text(typed), out);
  }

  const GenerationRequest& request_;
  const AnswerInfo info_;
  AnswerParser parser_;
  std::optional<Block> block_;
  Json content_ = Json::array();  // complete blocks
  Json stop_sequence_;            // the text that ended the answer
  size_t call_count_ = 0;
  bool last_is_whole_ = false;  // of the calls that are told
  inflight_finish_reason_t finish_reason_ = INFLIGHT_FINISH_ERROR;
};

}  // namespace

std::unique_ptr<AnswerFormat> messages_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<MessagesFormat>(request, std::move(info));
}

}  // namespace inflight::server
