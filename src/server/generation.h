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
  std::vector<Stream> streams;  // one a choice: prompt by prompt
};

// Renders, tokenizes and submits.   THREAD: any; takes as long as the prompt is.
// ERRORS: ApiError with the status that the engine's refusal deserves.
[[nodiscard]] SubmittedRequest submit_request(Engine& engine, std::unique_ptr<GenerationRequest> request,
                                              unsigned endpoint, AnswerInfo info, uint32_t tenant);

// THREAD: the network thread. Destroying it cancels what still runs.
class Generation final : public Producer {
 public:
  // LIFETIME: engine and queue are borrowed, the exchange owns this object.
  Generation(Engine& engine, Exchange& exchange, ReadyQueue& queue, SubmittedRequest submitted);
  ~Generation() override;

  // Sends what has come.
  void proceed() override;
  // Proxies close silent connections: now and then a comment.
  void on_tick(std::chrono::steady_clock::time_point now) override;

 private:
  struct Waker {
    ReadyQueue& queue;
    uint64_t exchange;
  };
  struct Choice {
    Stream stream;
    bool ended = false;
    AnswerUsage usage{};
  };

  // False: the answer has ended with an error.
  bool pump_choice(int32_t index, std::string& out);
  [[nodiscard]] AnswerDelta delta_of(int32_t index, Event& event) const;
  void fail(const std::string& message, std::string& out);
  [[nodiscard]] AnswerUsage usage() const;
  void finish(std::string& out);

  Engine& engine_;
  Exchange& exchange_;
  std::unique_ptr<GenerationRequest> request_;
  std::unique_ptr<AnswerFormat> format_;
  Waker waker_;
  std::vector<Choice> choices_;  // after waker_: their streams call it until they are destroyed
  bool done_ = false;
  std::chrono::steady_clock::time_point last_write_;
};

}  // namespace inflight::server
