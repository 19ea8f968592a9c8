// SPDX-License-Identifier: Apache-2.0
// Generated text to what OpenAI's clients read: whole objects, or server-sent events. No engine, no network in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inflight/inflight.h"
#include "server/generation_request.h"
#include "server/reasoning_parser.h"
#include "server/tool_call_parser.h"

namespace inflight::server {

// A token and how likely it was.
struct TokenText {
  int32_t id = 0;
  std::string text;                // its bytes, which need not be whole characters
  std::optional<float> logprob{};  // none: a prompt's first token
  std::vector<TokenText> top{};    // the most likely tokens there, best first
};

struct AnswerUsage {
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int64_t draft_tokens = 0, accepted_tokens = 0;  // of answers that have ended: guessed tokens, and right ones
  std::optional<int64_t> reasoning_tokens{};      // of the output; none: the model marks no reasoning
};

// What arrived of one answer.
struct AnswerDelta {
  int32_t choice = 0;
  std::string text;
  std::vector<int32_t> token_ids{};  // filled when the request wants them
  std::vector<TokenText> tokens{};   // filled when the request wants logprobs
  std::vector<float> embedding{};    // of /v1/embeddings; of /v1/rerank the labels' probabilities
  std::vector<TokenText> prompt{};   // of a prompt's first answer, with prompt_logprobs
  inflight_finish_reason_t finish_reason = INFLIGHT_FINISH_NONE;
  // With finish reason stop: the text or the token that ended the answer; null: the model's own end.
  Json stop_reason{};
  AnswerUsage usage{};  // of the answer until now
};

struct AnswerInfo {
  std::string id;  // without its prefix
  int64_t created_s = 0;
  std::string model;
  int32_t choice_count = 1;
  std::vector<std::string> echoes{};               // completions with echo: each choice's prompt
  std::vector<std::vector<int32_t>> prompt_ids{};  // with return_token_ids: of each prompt
  CallMarks call_marks{};                          // of the model
  bool short_call_ids = false;                     // it writes calls' ids, of nine letters or digits
  ReasoningMarks reasoning{};                      // that is told apart
  int32_t max_tokens_limit = 0;                    // of the engine; 0: none
};

class AnswerFormat {
 public:
  AnswerFormat() = default;
  AnswerFormat(const AnswerFormat&) = delete;
  AnswerFormat& operator=(const AnswerFormat&) = delete;
  virtual ~AnswerFormat() = default;

  // Streaming: each appends events to `out`; begin() once, add() for each delta, end() after every choice has finished.
  // `usage` of begin(): before the first token.
  virtual void begin(const AnswerUsage& usage, std::string& out) = 0;
  virtual void add(const AnswerDelta& delta, std::string& out) = 0;
  virtual void end(const AnswerUsage& usage, std::string& out) = 0;
  // In the place of all that has not come, where an error ends the answer. error: its ApiError::body().
  virtual void fail(const Json& error, std::string& out);

  // Otherwise: collect() instead of add(), then the whole answer.
  virtual void collect(const AnswerDelta& delta) = 0;
  [[nodiscard]] virtual std::string whole(const AnswerUsage& usage) = 0;
};

// Of endpoints that never stream.
class WholeFormat : public AnswerFormat {
 public:
  void begin(const AnswerUsage&, std::string&) final {}
  void add(const AnswerDelta&, std::string&) final {}
  void end(const AnswerUsage&, std::string&) final {}
};

// LIFETIME: `request` is kept by reference.
[[nodiscard]] std::unique_ptr<AnswerFormat> completion_format(const GenerationRequest& request, AnswerInfo info);
[[nodiscard]] std::unique_ptr<AnswerFormat> chat_format(const GenerationRequest& request, AnswerInfo info);
[[nodiscard]] std::unique_ptr<AnswerFormat> response_format(const GenerationRequest& request, AnswerInfo info);
[[nodiscard]] std::unique_ptr<AnswerFormat> messages_format(const GenerationRequest& request, AnswerInfo info);
[[nodiscard]] std::unique_ptr<AnswerFormat> embedding_format(const GenerationRequest& request, AnswerInfo info);
[[nodiscard]] std::unique_ptr<AnswerFormat> rerank_format(const GenerationRequest& request, AnswerInfo info);

// "stop", "length" or "error".
[[nodiscard]] const char* finish_name(inflight_finish_reason_t reason);

// Takes one of the request's answers apart: reasoning first, then calls out of what is left.
class AnswerParser {
 public:
  AnswerParser(const GenerationRequest& request, const AnswerInfo& info);
  // What a part of the answer adds, and all that was held back at its end.
  [[nodiscard]] AnswerParts read(const AnswerDelta& delta);

 private:
  [[nodiscard]] AnswerParts with_calls(AnswerParts parts);

  ReasoningParser reasoning_;
  ToolCallParser calls_;
  bool tells_reasoning_;
};

// What takes the reasoning from an answer to the request's conversation.
[[nodiscard]] ReasoningParser reasoning_parser(const GenerationRequest& request, const ReasoningMarks& marks);

// The id of an answer's call.
[[nodiscard]] std::string call_id(const AnswerInfo& info, size_t choice, size_t index);

// "data: JSON\n\n"
void append_event(const std::string& json, std::string& out);

// The members of `head`, "choices": those of [0, count), and the members of `tail`, as text. One choice at a time is a
// Json: with log probabilities that is many times as large.   REQUIRES: count > 0, head and tail have members.
[[nodiscard]] std::string whole_text(const Json& head, size_t count, const std::function<Json(size_t)>& choice,
                                     const Json& tail);

// {"prompt_tokens": ...} as completions and chat have it.
[[nodiscard]] Json usage_json(const AnswerUsage& usage);

// Prompt tokens in vLLM's form: null for the first, then {"ID": {"logprob", "rank", "decoded_token"}, ...} each; rank
// is null where the token is not among the `count` most likely ones.
[[nodiscard]] Json prompt_logprobs_json(const std::vector<TokenText>& prompt, int32_t count);

}  // namespace inflight::server
