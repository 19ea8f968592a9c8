// SPDX-License-Identifier: Apache-2.0
// An executor without a device that knows what every KV slot must hold. Its "KV" is (token, position, hash of
// everything up to and including the token, salt); after writing a step's slots it walks the block table of every entry
// and demands exactly that sequence's own prefix. So any mistake of scheduling, sharing, eviction or preemption fails
// at its first step. A state is the hash of the tokens it has seen: all entries of a step read theirs before any leaves
// one. What local layers store is the same, in the slots that the plan names. The next token is a function of the whole
// prefix, so the right output of a request can be computed alone; it plays the host's part too where logits are wanted.
// Several steps may be in flight; they run in order at submit(), as on an in-order queue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "core/executor.h"
#include "support/manual_clock.h"

namespace inflight::test {

// What the oracle must know of a sequence to judge a plan.
struct SequenceTruth {
  uint64_t salt = 0;
  std::vector<TokenId> tokens;  // prompt, then the right output as far as it has been asked for
};

// The token that follows `tokens` under a seed, in [0, vocabulary_size).
[[nodiscard]] TokenId oracle_next_token(const std::vector<TokenId>& tokens, int32_t vocabulary_size, uint64_t seed = 0);

class OracleExecutor final : public Executor {
 public:
  struct Options {
    int32_t block_count = 0;
    int32_t host_block_count = 0;
    int32_t block_token_count = 16;
    int32_t row_count = 0;
    int32_t token_budget = 0;
    int32_t draft_tokens = 0;  // of an entry at most
    int32_t vocabulary_size = 64;
    int32_t sliding_window = 0;
    int32_t local_window = 0;  // of local layers, whose K and V lie in slots
    int32_t local_slots = 0;
    bool has_state = false;
    int32_t kept_states = 0;
  };
  // truth: the sequence's truth; the reference must stay valid during submit().
  // clock: advanced by each step's duration when its result is read; may be null.
  OracleExecutor(const Options& options, std::function<SequenceTruth&(SequenceId)> truth, ManualClock* clock);

  // Throws InternalError at the first plan that is wrong.
  void submit(const BatchPlan& plan) override;
  [[nodiscard]] const StepResult& wait() override;

  [[nodiscard]] const BatchPlan& last_plan() const { return last_plan_; }
  void forget_last_plan() { last_plan_.clear(); }
  [[nodiscard]] int64_t computed_token_count() const { return computed_token_count_; }
  [[nodiscard]] int64_t checked_slot_count() const { return checked_slot_count_; }
  [[nodiscard]] int64_t copied_block_count() const { return copied_block_count_; }
  [[nodiscard]] int64_t host_sampled_count() const { return host_sampled_count_; }
  [[nodiscard]] int64_t moved_state_count() const { return moved_state_count_; }
  [[nodiscard]] int64_t accepted_count() const { return accepted_count_; }

 private:
  struct Slot {
    TokenId token = -1;
    int32_t position = -1;
    uint64_t prefix_hash = 0;
  };
  Slot& slot_of(const BatchEntry& entry, int32_t position);
  Slot& local_slot_of(const BatchEntry& entry, int32_t position);
  std::span<Slot> local_block(BlockId block);
  void move_blocks(const BatchPlan& plan);
  void check_states(const BatchPlan& plan) const;
  void write(const BatchEntry& entry);
  void leave_states(const BatchEntry& entry);
  void check(const BatchEntry& entry);
  void check_history(const BatchEntry& entry);
  void tell_logprobs(const BatchEntry& entry, StepResult& result);

  Options options_;
  std::function<SequenceTruth&(SequenceId)> truth_;
  ManualClock* clock_;
  BatchPlan last_plan_;
  std::vector<Slot> slots_;
  std::vector<Slot> host_slots_;
  std::vector<Slot> local_slots_;
  std::vector<uint64_t> states_;          // of rows, then of places: hash of all tokens that each has seen
  std::vector<TokenId> row_tokens_;       // what the device sampled last for each row
  static constexpr size_t kTopCount = 2;  // what a position reports
  std::vector<TokenLogprob> tops_;        // of many
  std::deque<StepResult> results_;
  StepResult current_;
  // What results_ and current_ point into.
  std::deque<std::vector<TokenLogprob>> further_;
  std::vector<TokenLogprob> current_further_;
  int64_t computed_token_count_ = 0;
  int64_t checked_slot_count_ = 0;
  int64_t copied_block_count_ = 0;
  int64_t host_sampled_count_ = 0;
  int64_t moved_state_count_ = 0;  // entries that began with a kept state
  int64_t accepted_count_ = 0;     // guesses that were right
};

}  // namespace inflight::test
