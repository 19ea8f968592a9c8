// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/completions.
#include "server/answer_format.h"

namespace inflight::server {
namespace {

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), choices_(static_cast<size_t>(info_.choice_count)) {}

  void begin(std::string& out) override {
    for (size_t i = 0; i < info_.echoes.size(); ++i) {
      append_chunk({.choice = static_cast<int32_t>(i), .text = info_.echoes[i], .tokens = {}}, out);
    }
  }

  void add(const AnswerDelta& delta, std::string& out) override { append_chunk(delta, out); }

  void end(const AnswerUsage& usage, std::string& out) override {
    if (request_.include_usage) {
      Json chunk = envelope();
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_json(usage);
      append_event(to_text(chunk), out);
    }
    out += "data: [DONE]\n\n";
  }

  void collect(const AnswerDelta& delta) override {
    Choice& choice = choices_[static_cast<size_t>(delta.choice)];
    choice.text += delta.text;
    choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) choice.finish_reason = delta.finish_reason;
  }

  std::string whole(const AnswerUsage& usage) override {
    Json answer = envelope();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const std::string echo = i < info_.echoes.size() ? info_.echoes[i] : "";
      choices_[i].offset = echo.size();
      Json choice;
      choice["index"] = i;
      choice["text"] = echo + choices_[i].text;
      choice["logprobs"] = request_.logprobs ? logprobs_json(choices_[i].tokens, choices_[i].offset) : Json();
      choice["finish_reason"] = finish_name(choices_[i].finish_reason);
      answer["choices"].push_back(std::move(choice));
    }
    answer["usage"] = usage_json(usage);
    return to_text(answer);
  }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenText> tokens;
    inflight_finish_reason_t finish_reason = INFLIGHT_FINISH_ERROR;
    size_t offset = 0;  // of the next token's text, in bytes
  };

  [[nodiscard]] Json envelope() const {
    Json json;
    json["id"] = "cmpl-" + info_.id;
    json["object"] = "text_completion";
    json["created"] = info_.created_s;
    json["model"] = info_.model;
    return json;
  }

  static Json logprobs_json(const std::vector<TokenText>& tokens, size_t& offset) {
    Json json{{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
    for (const TokenText& token : tokens) {
      json["tokens"].push_back(token.text);
      json["token_logprobs"].push_back(token.logprob);
      Json top = Json::object();
      for (const auto& [text, logprob] : token.top) top[text] = logprob;
      if (top.empty()) top[token.text] = token.logprob;
      json["top_logprobs"].push_back(std::move(top));
      json["text_offset"].push_back(offset);
      offset += token.text.size();
    }
    return json;
  }

  void append_chunk(const AnswerDelta& delta, std::string& out) {
    Json choice;
    choice["index"] = delta.choice;
    choice["text"] = delta.text;
    choice["logprobs"] = Json();
    if (request_.logprobs && !delta.tokens.empty()) {
      choice["logprobs"] = logprobs_json(delta.tokens, choices_[static_cast<size_t>(delta.choice)].offset);
    }
    choice["finish_reason"] = Json();
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) choice["finish_reason"] = finish_name(delta.finish_reason);
    Json chunk = envelope();
    chunk["choices"].push_back(std::move(choice));
    if (request_.include_usage) chunk["usage"] = Json();
    append_event(to_text(chunk), out);
  }

  const GenerationRequest& request_;
  const AnswerInfo info_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerFormat> completion_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<CompletionFormat>(request, std::move(info));
}

}  // namespace inflight::server
