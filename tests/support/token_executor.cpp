// SPDX-License-Identifier: Apache-2.0
#include "support/token_executor.h"

#include "base/error.h"
#include "support/oracle_executor.h"

namespace inflight::test {

void TokenExecutor::submit(const BatchPlan& plan) {
  paused.wait(true);
  if (failing) fail(ErrorCode::Device, "the device is gone");
  for (const BlockCopy& copy : plan.copies) {
    for (int32_t i = 0; i < width_; ++i) {
      slots_[static_cast<size_t>(to_integer(copy.to) * width_ + i)] =
          slots_[static_cast<size_t>(to_integer(copy.from) * width_ + i)];
    }
  }
  for (const BatchEntry& entry : plan.entries) {
    for (int32_t i = 0; i < entry.scheduled_token_count; ++i) {
      const auto k = static_cast<size_t>(i);
      slot(entry, entry.computed_token_count + i) =
          k < entry.tokens.size() ? entry.tokens[k] : row_tokens_[static_cast<size_t>(entry.row)];
    }
  }
  StepResult result{.step = plan.step, .duration = step_time};
  for (const BatchEntry& entry : plan.entries) {
    if (!entry.samples) continue;
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < entry.context_token_count(); ++i) tokens.push_back(slot(entry, i));
    const TokenId next = oracle_next_token(tokens, kVocabulary, entry.sampling->seed);
    row_tokens_[static_cast<size_t>(entry.row)] = next;
    result.sampled.push_back({.sequence = entry.sequence,
                              .token = next,
                              .logprob = -0.5F - 0.01F * static_cast<float>(next),
                              .valid = true});
  }
  results_.push_back(std::move(result));
}

const StepResult& TokenExecutor::wait() {
  current_ = std::move(results_.front());
  results_.pop_front();
  if (clock != nullptr) clock->advance(step_time);
  return current_;
}

TokenId& TokenExecutor::slot(const BatchEntry& entry, int32_t position) {
  const auto block = to_integer(entry.block_table[static_cast<size_t>(position / width_)]);
  return slots_[static_cast<size_t>(block * width_ + position % width_)];
}

}  // namespace inflight::test
