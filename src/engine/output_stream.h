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
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/request.h"
#include "core/step_result.h"

namespace inflight {

// One position with its most likely tokens, where they were asked for.
struct PositionLogprobs {
  float logprob = 0.0F;
  std::vector<TokenLogprob> top;  // most likely first
};

// When things happened to a choice, in seconds since its request arrived; 0: they did not.
struct ChoiceTimes {
  double first_scheduled_s = 0.0, first_token_s = 0.0, last_token_s = 0.0;
};

// What has become of a choice so far, besides its tokens.
struct ChoiceProgress {
  int32_t preemption_count = 0;
  int32_t draft_token_count = 0, accepted_token_count = 0;  // guessed (speculative decoding); of these what was drawn
  ChoiceTimes times = {};
};

// What arrived of one choice since the last call of next() that told of it, and totals so far.
struct StreamBatch {
  int32_t index = 0;  // which answer, 0..n-1
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;                    // one a token
  std::vector<PositionLogprobs> top_logprobs;     // one a token with SamplingParams::logprobs, else empty
  std::vector<PositionLogprobs> prompt_logprobs;  // index 0; of the prompt's second, third, ... token
  std::vector<float> embedding;                   // with the finish of a request that asked for one
  FinishReason finish = FinishReason::None;
  std::optional<TokenId> stop_token;  // with FinishReason::Stop: the end or stop token that was drawn
  std::string error;                  // with FinishReason::Error, and why with FinishReason::Abort if the engine did it
  ErrorCode error_code = ErrorCode::EngineFailed;  // with FinishReason::Error
  int32_t prompt_token_count = 0;
  int32_t cached_token_count = 0;  // of the prompt, found stored
  int32_t output_token_count = 0;
  ChoiceProgress progress;
};

// Told of a choice's tokens in their order, but for one that ends it anyway. True: it ends with this one, by
// FinishReason::Stop.
// THREAD: the engine thread.
using EndRule = std::function<bool(int32_t choice, TokenId token)>;

class OutputStream {
 public:
  // With best_of > n nothing arrives until all have ended; then the n with the highest mean logprob do, best first.
  // ends: empty = the engine alone knows when a choice ends.
  OutputStream(RequestId request, int32_t prompt_token_count, int32_t n, int32_t best_of, EndRule ends = {});
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // Called by each owner once; afterwards it must not touch the stream.
  void release();

  [[nodiscard]] RequestId request() const { return request_; }

  // progress: with this token.   ends: push_finish() follows, and the token is given out together with it.
  // False: the choice has ended by its EndRule, with this token or before; what comes behind that one is dropped.
  bool push_token(int32_t choice, TokenId token, float logprob, std::span<const TokenLogprob> top, bool ends = false,
                  const ChoiceProgress& progress = {});
  void push_prompt_logprob(float logprob, std::span<const TokenLogprob> top);
  // Given out together with the finish that follows.
  void set_embedding(std::vector<float> values);
  void set_cached(int32_t choice, int32_t cached_token_count);
  struct Finish {
    FinishReason reason = FinishReason::None;
    std::optional<TokenId> stop_token = {};
    ChoiceProgress progress = {};
    std::string error = {};
    ErrorCode error_code = ErrorCode::EngineFailed;
  };
  // The last push of a choice. True: of all.
  bool push_finish(int32_t choice, const Finish& finish);
  // The last push of every choice that has not had one.
  void push_finish_to_all(const Finish& finish);

  // `notify` is called when next() would give something after there was nothing: from the thread that pushes, or from
  // here when something is there already. It must not block nor call the stream. nullptr: none; when that returns, no
  // call is running.   THREAD: as next().
  using Notify = void (*)(void* context);
  void set_notify(Notify notify, void* context);

  enum class Next { Ready, TimedOut, Ended };
  // Waits until something of any choice has arrived. Ended: the finish reason of every choice was delivered before.
  // timeout: nullopt = without end.
  [[nodiscard]] Next next(std::optional<std::chrono::milliseconds> timeout, StreamBatch& batch);

 private:
  struct Choice {
    StreamBatch pending;
    double logprob_sum = 0.0;
    bool ending = false;  // the last token is here, the finish reason is not
    bool ended_by_rule = false;
    bool told_end = false;  // the finish reason was delivered
    [[nodiscard]] bool ready() const {
      return !told_end && !ending &&
             (!pending.tokens.empty() || !pending.prompt_logprobs.empty() || pending.finish != FinishReason::None);
    }
  };
  ~OutputStream() = default;
  void finish_choice(Choice& choice, const Finish& finish);
  [[nodiscard]] Choice* next_ready();
  void keep_the_best();

  // next() would give something.
  [[nodiscard]] bool has_news() const;
  void tell(bool had_news);

  const RequestId request_;
  const int32_t n_;
  const EndRule ends_;
  std::atomic<int> owners_{2};
  std::mutex mutex_;  // guards everything below
  std::condition_variable arrived_;
  std::vector<Choice> choices_;
  int32_t unfinished_ = 0;
  Notify notify_ = nullptr;
  void* notify_context_ = nullptr;
  size_t next_choice_ = 0;  // whose turn it is to be told of
};

}  // namespace inflight
