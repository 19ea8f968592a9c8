// SPDX-License-Identifier: Apache-2.0
// Drives an Executor without a scheduler: sequences with blocks, tokens and sampling, and plans of any shape made from
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/batch_plan.h"
#include "core/step_result.h"

namespace inflight::test {

struct RunnerSequence {
  SequenceId id{};
  int32_t row = 0;
  uint32_t adapter = 0;
  std::vector<TokenId> tokens;     // prompt, then what was sampled
  int32_t prompt_token_count = 0;  // set where sampling changes logits
  int32_t computed = 0;
  std::vector<BlockId> blocks;
  SamplingParams sampling;
  std::vector<float> logprobs;        // of sampled tokens
  std::vector<uint32_t> allowed;      // what the masks of its tokens are made from; empty: they have none
  std::optional<TokenCounts> counts;  // these three are entry_of()'s
  std::vector<uint32_t> masks;
  TokenHistory history;
};

// Of the token behind its last one, and behind so many guesses: another at each position.
[[nodiscard]] std::vector<uint32_t> masks_of(const RunnerSequence& sequence, int32_t guesses);

// An entry that computes the next `count` tokens of the sequence; samples when these are all it has.
// LIFETIME: the sequence must not change until the plan was submitted.
[[nodiscard]] BatchEntry entry_of(RunnerSequence& sequence, int32_t count);
void add_entry(BatchPlan& plan, RunnerSequence& sequence, int32_t count);
// The same where the newest token is on the device.
void add_entry_behind(BatchPlan& plan, RunnerSequence& sequence);

}  // namespace inflight::test
