// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with a draft model: an executor around two others. Before a plan goes to the target, the draft
// model, a small one with the same vocabulary, computes what the plan computes, and guesses as many tokens as it wants
// verified, one a step for all sequences together.
//
// The draft model's K and V stand in blocks of the same numbers and are moved with the target's, so what is shared,
// swapped or stored of a prefix is there for both. It computes prompts along with the target, and of a decoding
// sequence what it lacks when guesses of it are wanted, or when a block is full, which others may share then. A guess
// is drawn with the request's temperature, top_k, top_p, min_p and the random number of its place, so that it is what
// the target draws as often as the two models' probabilities allow. Nothing of this changes an answer: guesses are
// verified (decision 0044).
//
// Source: Leviathan et al. 2023; vLLM's method "draft_model".   THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "core/executor.h"

namespace inflight {

class DraftProposer final : public Executor {
 public:
  struct Limits {
    int32_t step_tokens = 512;          // of one step of the draft model
    int32_t block_tokens = 16;          // of a KV block
    int32_t vocabulary_size = 0;        // the target's
    int32_t draft_vocabulary_size = 0;  // a few tokens more or less than the target's
  };
  // LIFETIME: all are borrowed. `draft` has blocks and rows as the target.
  DraftProposer(Executor& target, Executor& draft, const Limits& limits, const Clock& clock)
      : target_(target), draft_(draft), limits_(limits), clock_(clock) {}

  // The sequence has ended: nothing is kept of it.
  void forget(SequenceId sequence) { known_.erase(to_integer(sequence)); }
  [[nodiscard]] bool empty() const { return known_.empty(); }

  // Waits for the draft model. What stands in the place of guesses in the plan is not looked at.
  // REQUIRES: no step is in flight, no entry is input_on_device.
  void submit(const BatchPlan& plan) override;
  // The times of the draft model's steps are added to the result's.
  [[nodiscard]] const StepResult& wait() override;

 private:
  // Of a sequence. K and V of the tokens before `computed` are there.
  struct Known {
    int32_t computed = 0;
    std::vector<TokenId> behind;  // the tokens at `computed` and after it that the target has computed, or is about to
  };
  // What an entry of the plan has the draft model do.
  struct Work {
    const BatchEntry* entry = nullptr;  // these two until submit() returns
    Known* known = nullptr;
    int32_t guess_count = 0;
    SamplingParams sampling;       // of its guesses
    std::vector<TokenId> guessed;  // the newest token, then the guesses, as the target gets them
  };

  void find_work(const BatchPlan& plan);
  void catch_up(const BatchPlan& plan);
  void guess_on();
  void run_step();
  void read_step();
  BatchEntry& add_entry(const Work& work, int32_t computed, int32_t count);
  void sample(const Work& work, BatchEntry& entry);
  [[nodiscard]] TokenId known_to_draft(TokenId token) const {
    return token < limits_.draft_vocabulary_size ? token : 0;
  }

  Executor& target_;
  Executor& draft_;
  const Limits limits_;
  const Clock& clock_;
  std::unordered_map<uint64_t, Known> known_;  // by sequence
  // Of the step at hand.
  std::vector<Work> work_;
  std::unordered_map<uint64_t, size_t> guessing_;  // of work_, by sequence
  BatchPlan plan_;                                 // the draft model's
  int32_t steps_in_flight_ = 0;                    // likewise
  BatchPlan filled_;                               // the target's
  TimeNs draft_time_ = 0, swap_time_ = 0;          // of the draft model's steps
  StepResult result_;
};

}  // namespace inflight
