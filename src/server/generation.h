// SPDX-License-Identifier: Apache-2.0
// One request being answered: from the engine's streams through a format to the client, as fast as the client reads.
//
// Nothing here waits: the engine's thread says through the ReadyQueue that tokens have come, the connection says that
// there is room; both end in proceed(). What a slow client has not read stays in the engine's streams, as token ids.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
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
  std::vector<Stream> streams;  // one a prompt, of params.n answers each
};

// Renders, tokenizes and submits.   THREAD: any; takes as long as the prompt is.
// key_tenant: the API key's number, 0 without keys; it says the tenant, else the request does.
// ERRORS: ApiError; Failure: the engine's refusal.
[[nodiscard]] SubmittedRequest submit_request(Engine& engine, std::unique_ptr<GenerationRequest> request,
                                              unsigned endpoint, AnswerInfo info, uint32_t key_tenant);

// THREAD: the network thread. Destroying it cancels what still runs.
class Generation final : public Producer {
 public:
  // LIFETIME: engine and queue are borrowed, the exchange owns this object.
  Generation(Engine& engine, Exchange& exchange, ReadyQueue& queue, SubmittedRequest submitted);
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
    int32_t open = 0;                // answers that have not ended
    size_t told_prompt_tokens = 0;   // with prompt_logprobs
    std::vector<AnswerUsage> usage;  // one an answer
  };

  // False: the answer has ended with an error.
  bool pump(size_t index, std::string& out);
  [[nodiscard]] ApiError error_of(const Event& event) const;
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
  const unsigned endpoint_;
  std::unique_ptr<AnswerFormat> format_;
  Waker waker_;
  std::vector<Source> sources_;  // after waker_: their streams call it until they are destroyed
  bool begun_ = false;           // streaming: the answer's head was sent
  bool answer_begun_ = false;    // streaming: its first event was written
  bool done_ = false;
  std::chrono::steady_clock::time_point last_write_;
};

}  // namespace inflight::server
