// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/completions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), choices_(static_cast<size_t>(info_.choice_count)) {}

  void begin(const AnswerUsage&, std::string&) override {}

  void add(const AnswerDelta& delta, std::string& out) override {
    if (const auto i = static_cast<size_t>(delta.choice); request_.echo && !choices_[i].begun) {
      AnswerUsage before = delta.usage;
      before.output_tokens = 0;
      append_chunk({.choice = delta.choice, .text = info_.echoes[i], .usage = before}, out);
    }
    append_chunk(delta, out);
  }

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
    choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    choice.prompt.insert(choice.prompt.end(), delta.prompt.begin(), delta.prompt.end());
    if (delta.finish_reason == INFLIGHT_FINISH_NONE) return;
    choice.finish_reason = delta.finish_reason;
    choice.stop_reason = delta.stop_reason;
  }

  std::string whole(const AnswerUsage& usage) override {
    const Json tail{{"usage", usage_json(usage)}};
    return whole_text(envelope(), choices_.size(), [this](size_t i) { return whole_choice(i); }, tail);
  }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenText> tokens, prompt;
    std::vector<int32_t> token_ids;
    inflight_finish_reason_t finish_reason = INFLIGHT_FINISH_ERROR;
    Json stop_reason;
    size_t offset = 0;   // of the next token's text, in characters
    bool begun = false;  // streaming: its first chunk was written, which tells of the prompt
  };

  Json whole_choice(size_t i) {
    Json choice;
    choice["index"] = i;
    choice["text"] = (request_.echo ? info_.echoes[i] : "") + choices_[i].text;
    choice["logprobs"] = request_.logprobs ? whole_logprobs(i) : Json();
    choice["finish_reason"] = finish_name(choices_[i].finish_reason);
    choice["stop_reason"] = choices_[i].stop_reason;
    if (request_.return_token_ids) {
      choice["token_ids"] = choices_[i].token_ids;
      choice["prompt_token_ids"] = prompt_ids_of(i);
    }
    if (request_.prompt_logprobs >= 0)
      choice["prompt_logprobs"] = prompt_logprobs_json(prompt_of(i), request_.prompt_logprobs);
    return choice;
  }

  // The answers to a prompt share what was told of it with the first one.
  [[nodiscard]] const std::vector<TokenText>& prompt_of(size_t choice) const {
    return choices_[choice - choice % static_cast<size_t>(request_.params.n)].prompt;
  }

  [[nodiscard]] const std::vector<int32_t>& prompt_ids_of(size_t choice) const {
    return info_.prompt_ids[choice / static_cast<size_t>(request_.params.n)];
  }

  Json whole_logprobs(size_t i) {
    std::vector<TokenText> tokens;
    if (request_.echo) tokens = prompt_of(i);
    for (TokenText& token : tokens) {
      token.top.resize(std::min(token.top.size(), static_cast<size_t>(request_.top_logprobs)));
    }
    tokens.insert(tokens.end(), choices_[i].tokens.begin(), choices_[i].tokens.end());
    return logprobs_json(tokens, choices_[i].offset);
  }

  [[nodiscard]] Json envelope() const {
    Json json;
    json["id"] = "cmpl-" + info_.id;
    json["object"] = "text_completion";
    json["created"] = info_.created_s;
    json["model"] = info_.model;
    return json;
  }

  // OpenAI's spelling of a token: its text, or "bytes:\\xe2\\x80" when it is no whole character.
  static std::string spelling(const std::string& bytes) {
    try {
      static_cast<void>(Json(bytes).dump());
      return bytes;
    } catch (const nlohmann::json::exception&) {
      std::string spelled = "bytes:";
      for (const char byte : bytes) spelled += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      return spelled;
    }
  }

  static Json logprobs_json(const std::vector<TokenText>& tokens, size_t& offset) {
    Json json{{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
    for (const TokenText& token : tokens) {
      const std::string text = spelling(token.text);
      json["tokens"].push_back(text);
      json["token_logprobs"].push_back(token.logprob ? Json(*token.logprob) : Json());
      Json top;
      for (const TokenText& other : token.top) top[spelling(other.text)] = *other.logprob;
      if (token.logprob) top[text] = *token.logprob;
      json["top_logprobs"].push_back(std::move(top));
      json["text_offset"].push_back(offset);
      offset += character_count(token.text);
    }
    return json;
  }

  void append_chunk(const AnswerDelta& delta, std::string& out) {
    const bool first = !std::exchange(choices_[static_cast<size_t>(delta.choice)].begun, true);
    Json choice;
    choice["index"] = delta.choice;
    choice["text"] = delta.text;
    choice["logprobs"] = Json();
    if (request_.logprobs && !delta.tokens.empty()) {
      choice["logprobs"] = logprobs_json(delta.tokens, choices_[static_cast<size_t>(delta.choice)].offset);
    }
    choice["finish_reason"] = Json();
    if (delta.finish_reason != INFLIGHT_FINISH_NONE) {
      choice["finish_reason"] = finish_name(delta.finish_reason);
      choice["stop_reason"] = delta.stop_reason;
    }
    if (request_.return_token_ids) {
      choice["token_ids"] = delta.token_ids;
      if (first) choice["prompt_token_ids"] = prompt_ids_of(static_cast<size_t>(delta.choice));
    }
    Json chunk = envelope();
    chunk["choices"].push_back(std::move(choice));
    if (request_.include_usage) chunk["usage"] = request_.continuous_usage ? usage_json(delta.usage) : Json();
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
