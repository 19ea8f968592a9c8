// SPDX-License-Identifier: Apache-2.0
// One request being answered: from the engine's streams through a format to the client, as fast as the client reads.
//
// Nothing here waits: the engine's thread says through the ReadyQueue that tokens have come, the connection says that
// there is room; both end in proceed(). What a slow client has not read stays in the engine's streams, as token ids.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inflight/inflight.hpp"
#include "server/answer_format.h"
#include "server/exchange.h"
#include "server/generation_request.h"
#include "server/ready_queue.h"

namespace inflight::server {

// A request whose streams run already.
struct SubmittedRequest {
  std::unique_ptr<GenerationRequest> request;
  unsigned endpoint = kCompletions;
  AnswerInfo info;
  std::vector<Stream> streams;                  // one a prompt, of params.n answers each
  std::optional<ReasoningCounter> reasoning{};  // of each answer, at its beginning; none: it is not told apart
};

// Renders, tokenizes and submits.   THREAD: any; takes as long as the prompt is.
// key_tenant: the API key's number, 0 without keys; it says the tenant, else the request does.
// ERRORS: ApiError; Failure: the engine's refusal.
[[nodiscard]] SubmittedRequest submit_request(Engine& engine, std::unique_ptr<GenerationRequest> request,
                                              unsigned endpoint, AnswerInfo info, uint32_t key_tenant);

// The error that an answer ends with; of one that ends well nobody asks.   structured_by: the request's field, if any.
[[nodiscard]] ApiError event_error(const Event& event, const std::string& structured_by);

// An answer whose every part has come. To write its text takes as long as it is long.
struct WholeAnswer {
  std::unique_ptr<GenerationRequest> request;  // of which the format reads
  std::unique_ptr<AnswerFormat> format;
  AnswerUsage usage;
  [[nodiscard]] std::string text() const { return format->whole(usage); }
};

// THREAD: the network thread. Destroying it cancels what still runs.
class Generation final : public Producer {
 public:
  // Answers that exchange with a text that was not made here, of about so many bytes.
  using AnswerLater = std::function<void(uint64_t exchange, size_t bytes, WholeAnswer answer)>;

  // LIFETIME: engine and queue are borrowed, the exchange owns this object.
  Generation(Engine& engine, Exchange& exchange, ReadyQueue& queue, SubmittedRequest submitted,
             AnswerLater answer_later);
  ~Generation() override;

  // Sends what has come.
  void proceed() override;
  void fail(const ApiError& error) override;
  // Proxies close silent connections: now and then a comment.
  void on_tick(std::chrono::steady_clock::time_point now) override;

 private:
  struct Waker {
    ReadyQueue& queue;
    uint64_t exchange;
  };
  // The answers to one prompt.
  struct Source {
    Stream stream;
    int32_t open = 0;                           // answers that have not ended
    size_t told_prompt_tokens = 0;              // with prompt_logprobs
    std::vector<AnswerUsage> usage;             // one an answer
    std::vector<ReasoningCounter> reasoning{};  // the same; none where it is not told apart
  };

  // False: the answer has ended with an error.
  bool pump(size_t index, std::string& out);
  // Of the answer that the event is of, until now.
  [[nodiscard]] AnswerUsage usage_of(Source& source, const Event& event) const;
  [[nodiscard]] AnswerDelta delta_of(size_t index, Event& event);
  [[nodiscard]] TokenText token_text(int32_t id, float logprob, const std::vector<Event::Top>& tops, size_t i) const;
  [[nodiscard]] std::vector<TokenText> prompt_tokens(size_t index, const Event& event);
  void begin_stream();
  void begin(const Event& event, std::string& out);
  void fail(const ApiError& error, std::string& out);
  [[nodiscard]] AnswerUsage usage() const;
  void finish(std::string& out);

  Engine& engine_;
  Exchange& exchange_;
  std::unique_ptr<GenerationRequest> request_;
  std::unique_ptr<AnswerFormat> format_;
  AnswerLater answer_later_;
  size_t whole_bytes_ = 0;  // of a whole answer, about
  Waker waker_;
  std::vector<Source> sources_;  // after waker_: their streams call it until they are destroyed
  bool begun_ = false;           // streaming: the answer's head was sent
  bool answer_begun_ = false;    // streaming: its first event was written
  bool done_ = false;            // nothing more comes; a whole answer may still be on its way
  std::chrono::steady_clock::time_point last_write_;
};

}  // namespace inflight::server
