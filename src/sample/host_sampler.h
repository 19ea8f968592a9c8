// SPDX-License-Identifier: Apache-2.0
// The host's part in sampling: an executor around another one. Into plans it puts which tokens may come, and tokens
// that the device cannot draw it draws from the logits that were read back. Which entries these are the scheduler says
// (BatchEntry::filtered, host_samples); it reads such a step before it plans the next.
// THREAD: the engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/executor.h"
#include "core/token_filter.h"

namespace inflight {

class HostSampler final : public Executor {
 public:
  // LIFETIME: `device` is borrowed.
  HostSampler(Executor& device, int32_t vocabulary_size) : device_(device), vocabulary_size_(vocabulary_size) {}

  // From now on every token of the sequence is drawn under the filter, when it is awake, until forget().
  void set_filter(SequenceId sequence, std::unique_ptr<TokenFilter> filter);
  // The sequence has ended: nothing is kept of it.
  void forget(SequenceId sequence);
  // Nothing is kept of any.
  [[nodiscard]] bool empty() const { return filters_.empty() && sleeping_.empty() && pools_.empty(); }

  void submit(const BatchPlan& plan) override;
  [[nodiscard]] const StepResult& wait() override;

 private:
  const BatchPlan& with_allowed(const BatchPlan& plan);
  [[nodiscard]] TokenFilter* filter_of(SequenceId sequence);  // null: it has none, or one that sleeps
  void follow(const BatchEntry& entry, SampledToken& sampled);
  void watch(SampledToken& sampled);
  void draw(const BatchEntry& entry, std::span<const float> logits, SampledToken& sampled);
  void pool(const BatchEntry& entry, const EntryHidden& hidden);
  std::span<const TokenLogprob> keep(std::vector<TokenLogprob> top);

  Executor& device_;
  int32_t vocabulary_size_;
  std::unordered_map<uint64_t, std::unique_ptr<TokenFilter>> filters_;   // by sequence
  std::unordered_map<uint64_t, std::unique_ptr<TokenFilter>> sleeping_;  // likewise, of those that are not awake
  // Sums over the prompt so far, in order of position, of prompts whose hidden states are asked for; by sequence, from
  // its first step's submit() until it has ended.
  struct Pool {
    std::vector<double> sum;  // [E]
    int32_t row_count = 0;
  };
  std::unordered_map<uint64_t, Pool> pools_;
  std::deque<std::vector<float>> pooled_;  // what result_ points into
  // Of the newest step with filtered entries, which is read before the next plan is made: the plan as the device gets
  // it, with histories of its own. Nothing is `allowed` where a filter gave up.
  BatchPlan filtered_plan_;
  std::vector<TokenHistory> histories_;  // of its filtered entries
  std::vector<uint32_t> allowed_;        // of these and of their guesses
  // Of each step in flight: the entries that are filtered, drawn here, or want hidden states. What those of the latter
  // lead to is not used; of the others it is valid until the step is read (core/batch_plan.h).
  std::array<std::vector<BatchEntry>, kStepsInFlightMax> wanted_;
  size_t first_ = 0, count_ = 0;
  StepResult result_;
  std::vector<float> logits_;                  // of one token, as processed
  std::deque<std::vector<TokenLogprob>> top_;  // what result_ points into
  std::deque<std::vector<TokenId>> forced_;    // likewise
};

}  // namespace inflight
