// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/chat/completions.
#include <fmt/format.h>

#include <utility>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(const GenerationRequest& request, AnswerInfo info) : request_(request), info_(std::move(info)) {
    for (int32_t i = 0; i < info_.choice_count; ++i) choices_.emplace_back(AnswerParser(request, info_));
  }

  void begin(const AnswerUsage& usage, std::string& out) override {
    until_now_ = usage;
    for (int32_t i = 0; i < info_.choice_count; ++i) {
      Json delta;
      delta["role"] = "assistant";
      delta["content"] = request_.tool_choice.forces_calls() ? Json() : Json("");
      append_chunk(i, std::move(delta), Json(), out);
    }
  }

  void add(const AnswerDelta& delta, std::string& out) override {
    Choice& choice = choices_[static_cast<size_t>(delta.choice)];
    until_now_ = delta.usage;
    const bool last = delta.finish_reason != INFLIGHT_FINISH_NONE;
    const AnswerParts found = choice.parser.read(delta);
    Json logprobs = request_.logprobs && !delta.tokens.empty() ? logprobs_json(delta.tokens) : Json();
    const bool with_ids = request_.return_token_ids && !delta.token_ids.empty();
    const std::string text = found.text(), reasoning = found.reasoning();
    const bool tells_more = !logprobs.is_null() || with_ids;  // in the first chunk
    if (!reasoning.empty()) {
      append_chunk(delta.choice, Json{{"reasoning_content", reasoning}}, std::exchange(logprobs, Json()), out, Json(),
                   nullptr, &delta.token_ids);
    }
    if (!text.empty() || (tells_more && reasoning.empty())) {
      append_chunk(delta.choice, Json{{"content", text}}, std::move(logprobs), out, Json(), nullptr,
                   reasoning.empty() ? &delta.token_ids : nullptr);
    }
    for (const AnswerPart& part : found.parts) {
      if (!part.call) continue;
      const ToolCallDelta& call = *part.call;
      if (!keep(choice, call) || (call.name.empty() && call.arguments.empty())) continue;
      Json entry;
      entry["index"] = choice.call_count - 1;
      if (!call.name.empty()) {
        entry["id"] = call_id(info_, static_cast<size_t>(delta.choice), static_cast<size_t>(choice.call_count) - 1);
        entry["type"] = "function";
        entry["function"]["name"] = call.name;
      }
      entry["function"]["arguments"] = call.arguments;
      Json calls;
      calls["tool_calls"].push_back(std::move(entry));
      append_chunk(delta.choice, std::move(calls), Json(), out);
    }
    if (last) {
      append_chunk(delta.choice, Json::object(), Json(), out, reason(choice, delta.finish_reason), &delta.stop_reason);
    }
  }

  void end(const AnswerUsage& usage, std::string& out) override {
    if (request_.include_usage) {
      Json chunk = envelope("chat.completion.chunk");
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_json(usage);
      append_event(to_text(chunk), out);
    }
    out += "data: [DONE]\n\n";
  }

  void collect(const AnswerDelta& delta) override {
    Choice& choice = choices_[static_cast<size_t>(delta.choice)];
    const AnswerParts found = choice.parser.read(delta);
    choice.text += found.text();
    choice.reasoning += found.reasoning();
    for (const AnswerPart& part : found.parts) {
      if (part.call && keep(choice, *part.call)) append_delta(*part.call, choice.calls);
    }
    choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    if (!delta.prompt.empty()) prompt_.insert(prompt_.end(), delta.prompt.begin(), delta.prompt.end());
    if (delta.finish_reason == INFLIGHT_FINISH_NONE) return;
    choice.finish_reason = delta.finish_reason;
    choice.stop_reason = delta.stop_reason;
  }

  std::string whole(const AnswerUsage& usage) override {
    Json tail;
    if (request_.prompt_logprobs >= 0)
      tail["prompt_logprobs"] = prompt_logprobs_json(prompt_, request_.prompt_logprobs);
    if (request_.return_token_ids) tail["prompt_token_ids"] = info_.prompt_ids[0];
    tail["usage"] = usage_json(usage);
    return whole_text(envelope("chat.completion"), choices_.size(), [this](size_t i) { return whole_choice(i); }, tail);
  }

 private:
  struct Choice {
    explicit Choice(AnswerParser parser_of) : parser(std::move(parser_of)) {}
    AnswerParser parser;
    std::string text, reasoning;
    std::vector<ToolCall> calls;
    std::vector<TokenText> tokens;
    std::vector<int32_t> token_ids;
    int32_t call_count = 0;
    bool last_is_whole = false;  // of the calls that are told
    inflight_finish_reason_t finish_reason = INFLIGHT_FINISH_ERROR;
    Json stop_reason;
  };

  [[nodiscard]] Json whole_choice(size_t i) const {
    const Choice& choice = choices_[i];
    Json message;
    message["role"] = "assistant";
    const bool no_text = !choice.calls.empty() || !choice.reasoning.empty() || request_.tool_choice.forces_calls();
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    message["content"] = choice.text.empty() && no_text ? Json() : Json(choice.text);
    message["refusal"] = Json();
    for (size_t k = 0; k < choice.calls.size(); ++k) message["tool_calls"].push_back(call_json(choice.calls[k], i, k));
    Json entry;
    entry["index"] = i;
    entry["message"] = std::move(message);
    entry["logprobs"] = request_.logprobs ? logprobs_json(choice.tokens) : Json();
    entry["finish_reason"] = reason(choice, choice.finish_reason);
    entry["stop_reason"] = choice.stop_reason;
    if (request_.return_token_ids) entry["token_ids"] = choice.token_ids;
    return entry;
  }

  // Whether the answer tells of this part of a call: without parallel calls of the first one only.
  [[nodiscard]] bool keep(Choice& choice, const ToolCallDelta& call) const {
    if (!call.name.empty()) ++choice.call_count;
    if (!request_.parallel_tool_calls && choice.call_count > 1) return false;
    choice.last_is_whole = call.ends;
    return true;
  }

  // A call that a stop text cuts is none to make.
  static Json reason(const Choice& choice, inflight_finish_reason_t reason) {
    if (reason == INFLIGHT_FINISH_STOP && choice.last_is_whole) return "tool_calls";
    return finish_name(reason);
  }

  [[nodiscard]] Json call_json(const ToolCall& call, size_t choice, size_t index) const {
    Json json;
    json["id"] = call_id(info_, choice, index);
    json["type"] = "function";
    json["function"]["name"] = call.name;
    json["function"]["arguments"] = call.arguments;
    return json;
  }

  static Json bytes_of(const std::string& text) {
    Json bytes = Json::array();
    for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
    return bytes;
  }

  static Json token_json(const TokenText& token) {
    return Json{{"token", token.text}, {"logprob", *token.logprob}, {"bytes", bytes_of(token.text)}};
  }

  static Json logprobs_json(const std::vector<TokenText>& tokens) {
    Json content = Json::array();
    for (const TokenText& token : tokens) {
      Json entry = token_json(token);
      entry["top_logprobs"] = Json::array();
      for (const TokenText& other : token.top) entry["top_logprobs"].push_back(token_json(other));
      content.push_back(std::move(entry));
    }
    return Json{{"content", std::move(content)}, {"refusal", Json()}};
  }

  [[nodiscard]] Json envelope(const char* object) const {
    Json json;
    json["id"] = "chatcmpl-" + info_.id;
    json["object"] = object;
    json["created"] = info_.created_s;
    json["model"] = info_.model;
    return json;
  }

  void append_chunk(int32_t index, Json delta, Json logprobs, std::string& out, Json finish_reason = Json(),
                    const Json* stop_reason = nullptr, const std::vector<int32_t>* token_ids = nullptr) {
    Json choice;
    choice["index"] = index;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = std::move(finish_reason);
    if (stop_reason != nullptr) choice["stop_reason"] = *stop_reason;
    if (request_.return_token_ids && token_ids != nullptr) choice["token_ids"] = *token_ids;
    Json chunk = envelope("chat.completion.chunk");
    chunk["choices"].push_back(std::move(choice));
    if (request_.return_token_ids && !std::exchange(told_prompt_ids_, true)) {
      chunk["prompt_token_ids"] = info_.prompt_ids[0];
    }
    if (request_.include_usage) chunk["usage"] = request_.continuous_usage ? usage_json(until_now_) : Json();
    append_event(to_text(chunk), out);
  }

  const GenerationRequest& request_;
  const AnswerInfo info_;
  AnswerUsage until_now_;  // of the answer that is being told of
  std::vector<Choice> choices_;
  std::vector<TokenText> prompt_;  // with prompt_logprobs
  bool told_prompt_ids_ = false;   // streaming
};

}  // namespace

std::unique_ptr<AnswerFormat> chat_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<ChatFormat>(request, std::move(info));
}

}  // namespace inflight::server
