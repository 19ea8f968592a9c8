// SPDX-License-Identifier: Apache-2.0
// An executor for engine tests: it stores the tokens themselves as KV, so it needs to know nothing of the requests, and
// its next token is oracle_next_token() of what it finds there: a mixed-up block table gives wrong output.
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "core/executor.h"

namespace inflight::test {

class TokenExecutor final : public Executor {
 public:
  static constexpr int32_t kVocabulary = 64;

  TokenExecutor(int32_t block_count, int32_t width, int32_t rows)
      : width_(width), slots_(static_cast<size_t>(block_count * width)), row_tokens_(static_cast<size_t>(rows)) {}

  void submit(const BatchPlan& plan) override;
  const StepResult& wait() override;

  std::atomic<bool> paused = false;   // submit() blocks while true; notify after setting it to false
  std::atomic<bool> failing = false;  // submit() throws
  ManualClock* clock = nullptr;       // advanced by step_time for each step read
  TimeNs step_time = 0;

 private:
  TokenId& slot(const BatchEntry& entry, int32_t position);

  int32_t width_;
  std::vector<TokenId> slots_, row_tokens_;
  std::deque<StepResult> results_;
  StepResult current_;
};

}  // namespace inflight::test
