// SPDX-License-Identifier: Apache-2.0
// An executor for engine tests: it stores the tokens themselves as KV, so it needs to know nothing of the requests, and
// its next token is oracle_next_token() of what it finds there, its logits are oracle_logits(): a mixed-up block table
// gives wrong output.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "core/executor.h"
#include "support/manual_clock.h"

namespace inflight::test {

// The logits after `tokens`, [vocabulary_size], where the host asks for them.
[[nodiscard]] std::vector<float> oracle_logits(std::span<const TokenId> tokens, int32_t vocabulary_size);

class TokenExecutor final : public Executor {
 public:
  static constexpr int32_t kVocabulary = 64;
  static constexpr TimeNs kSwapTime = 10'000;  // said to be, of a block copied to or from host memory

  TokenExecutor(int32_t block_count, int32_t width, int32_t rows)
      : width_(width), slots_(static_cast<size_t>(block_count * width)), row_tokens_(static_cast<size_t>(rows)) {}

  void submit(const BatchPlan& plan) override;
  const StepResult& wait() override;

  std::atomic<bool> paused = false;      // submit() blocks while true; notify after setting it to false
  std::atomic<bool> submitting = false;  // submit() has been called
  std::atomic<bool> failing = false;     // submit() throws
  ManualClock* clock = nullptr;          // advanced by step_time for each step read
  TimeNs step_time = 0;

 private:
  struct Done {
    StepResult result;
    std::vector<std::vector<float>> logits;  // what the result points into
    std::deque<std::vector<TokenLogprob>> further;
  };
  std::span<TokenId> block(BlockId id);
  void move_blocks(const BatchPlan& plan);
  TokenId& slot(const BatchEntry& entry, int32_t position);
  std::vector<TokenId> prefix(const BatchEntry& entry, int32_t count);
  static TokenId draw_changed(const BatchEntry& entry, std::span<const TokenId> tokens);

  int32_t width_;
  std::vector<TokenId> slots_, row_tokens_;
  std::map<BlockId, std::vector<TokenId>> host_blocks_;
  std::deque<Done> done_;
  Done current_;
};

}  // namespace inflight::test
