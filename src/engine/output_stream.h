// SPDX-License-Identifier: Apache-2.0
// The way of one request's tokens from the engine thread to whoever waits for them.
//
// A stream has two owners, the engine and the client; each releases it once, in any order, and the last one frees it.
// So neither a client that leaves early nor an engine that ends early leaves the other with a dangling pointer. THREAD:
// push functions and the engine's release: engine thread. next() and the client's release: one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"

namespace inflight {

// Everything that arrived since the last call of next(), and totals so far.
struct StreamBatch {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;  // one a token
  FinishReason finish = FinishReason::None;
  std::string error;  // with FinishReason::Error
  int32_t prompt_token_count = 0;
  int32_t cached_token_count = 0;  // of the prompt, found stored
  int32_t output_token_count = 0;
  int32_t preemption_count = 0;
};

class OutputStream {
 public:
  OutputStream(RequestId request, int32_t prompt_token_count);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // Called by each owner once; afterwards it must not touch the stream.
  void release();

  [[nodiscard]] RequestId request() const { return request_; }

  void push_token(TokenId token, float logprob);
  void set_cached(int32_t cached_token_count);
  // The last push.
  void push_finish(FinishReason reason, int32_t preemption_count, const std::string& error);

  enum class Next { Ready, TimedOut, Ended };
  // Waits until something has arrived. Ended: the batch with the finish reason was delivered before.
  // timeout: nullopt = without end.
  [[nodiscard]] Next next(std::optional<std::chrono::milliseconds> timeout, StreamBatch& batch);

 private:
  ~OutputStream() = default;

  const RequestId request_;
  std::atomic<int> owners_{2};
  std::mutex mutex_;
  std::condition_variable arrived_;
  StreamBatch pending_;
  bool ended_ = false;  // the finish reason was delivered
};

}  // namespace inflight
