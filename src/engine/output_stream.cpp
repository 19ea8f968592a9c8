// SPDX-License-Identifier: Apache-2.0
#include "engine/output_stream.h"

#include <utility>

namespace inflight {

OutputStream::OutputStream(RequestId request, int32_t prompt_token_count) : request_(request) {
  pending_.prompt_token_count = prompt_token_count;
}

void OutputStream::release() {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void OutputStream::push_token(TokenId token, float logprob) {
  {
    const std::scoped_lock lock(mutex_);
    pending_.tokens.push_back(token);
    pending_.logprobs.push_back(logprob);
    ++pending_.output_token_count;
  }
  arrived_.notify_one();
}

void OutputStream::set_cached(int32_t cached_token_count) {
  const std::scoped_lock lock(mutex_);
  pending_.cached_token_count = cached_token_count;
}

void OutputStream::push_finish(FinishReason reason, int32_t preemption_count, const std::string& error) {
  {
    const std::scoped_lock lock(mutex_);
    pending_.finish = reason;
    pending_.preemption_count = preemption_count;
    pending_.error = error;
  }
  arrived_.notify_one();
}

OutputStream::Next OutputStream::next(std::optional<std::chrono::milliseconds> timeout, StreamBatch& batch) {
  std::unique_lock lock(mutex_);
  if (ended_) return Next::Ended;
  const auto arrived = [this] { return !pending_.tokens.empty() || pending_.finish != FinishReason::None; };
  if (!timeout) {
    arrived_.wait(lock, arrived);
  } else if (!arrived_.wait_for(lock, *timeout, arrived)) {
    return Next::TimedOut;
  }
  // The caller's old vectors become the new pending ones, so that a steady stream does not allocate.
  std::swap(batch.tokens, pending_.tokens);
  std::swap(batch.logprobs, pending_.logprobs);
  pending_.tokens.clear();
  pending_.logprobs.clear();
  batch.finish = pending_.finish;
  batch.error = pending_.error;
  batch.prompt_token_count = pending_.prompt_token_count;
  batch.cached_token_count = pending_.cached_token_count;
  batch.output_token_count = pending_.output_token_count;
  batch.preemption_count = pending_.preemption_count;
  ended_ = batch.finish != FinishReason::None;
  return Next::Ready;
}

}  // namespace inflight
