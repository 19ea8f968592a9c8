// SPDX-License-Identifier: Apache-2.0
#include "sample/draft_proposer.h"

#include <algorithm>

#include "base/error.h"

namespace inflight {

void DraftProposer::submit(const BatchPlan& plan) {
  const TimeNs begin = clock_.now();
  swap_time_ = 0;
  find_work(plan);
  catch_up(plan);
  guess_on();
  while (steps_in_flight_ > 0) read_step();
  draft_time_ = clock_.now() - begin;
  if (guessing_.empty()) return target_.submit(plan);
  filled_ = plan;
  for (Work& work : work_) {
    if (work.guess_count == 0) continue;
    filled_.entries[static_cast<size_t>(work.entry - plan.entries.data())].tokens = work.guessed;
  }
  target_.submit(filled_);
}

// A decoding sequence of which nothing is guessed waits with what it computes until something is, or a block is full.
void DraftProposer::find_work(const BatchPlan& plan) {
  work_.clear();
  guessing_.clear();
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(!entry.input_on_device);
    Known& known = known_[to_integer(entry.sequence)];
    // New, or behind a stored prefix, or computed anew after a preemption: the blocks before have K and V.
    if (known.computed + std::ssize(known.behind) != entry.computed_token_count) {
      known = {.computed = entry.computed_token_count, .behind = {}};
    }
    const int32_t guesses = entry.draft_token_count;
    const auto given = entry.tokens.first(entry.tokens.size() - static_cast<size_t>(guesses));
    known.behind.insert(known.behind.end(), given.begin(), given.end());
    const bool fills = entry.context_token_count() % limits_.block_tokens == 0;
    if (entry.phase == Phase::Decode && guesses == 0 && !fills) continue;
    Work& work = work_.emplace_back(
        Work{.entry = &entry, .known = &known, .guess_count = guesses, .sampling = {}, .guessed = {}});
    if (guesses == 0) continue;
    const SamplingParams& sampling = *entry.sampling;
    work.sampling = {.temperature = sampling.temperature,
                     .top_k = sampling.top_k,
                     .top_p = sampling.top_p,
                     .min_p = sampling.min_p,
                     .seed = sampling.seed};
    work.guessed.assign(1, given.back());
    guessing_[to_integer(entry.sequence)] = work_.size() - 1;
  }
}

BatchEntry& DraftProposer::add_entry(const Work& work, int32_t computed, int32_t count) {
  BatchEntry& entry = plan_.entries.emplace_back();
  entry.sequence = work.entry->sequence;
  entry.row = work.entry->row;
  entry.computed_token_count = computed;
  entry.scheduled_token_count = count;
  entry.block_table = work.entry->block_table;
  plan_.scheduled_token_count += count;
  return entry;
}

// The newest entry of the plan gives a guess.
void DraftProposer::sample(const Work& work, BatchEntry& entry) {
  entry.samples = true;
  entry.sampling = &work.sampling;
  entry.phase = entry.scheduled_token_count == 1 ? Phase::Decode : Phase::Prefill;
  ++plan_.sampled_row_count;
}

// All that the draft model lacks, and the first guesses, in as many steps as that takes.
void DraftProposer::catch_up(const BatchPlan& plan) {
  plan_.clear();
  plan_.swap_out = plan.swap_out;
  plan_.swap_in = plan.swap_in;
  plan_.copies = plan.copies;
  for (Work& work : work_) {
    Known& known = *work.known;
    for (TokenId& token : known.behind) token = known_to_draft(token);
    const auto all = static_cast<int32_t>(known.behind.size());
    for (int32_t done = 0; done < all;) {
      if (plan_.scheduled_token_count == limits_.step_tokens) run_step();
      const int32_t count = std::min(all - done, limits_.step_tokens - plan_.scheduled_token_count);
      BatchEntry& entry = add_entry(work, known.computed + done, count);
      entry.tokens = std::span(known.behind).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
      done += count;
      if (done == all && work.guess_count > 0) sample(work, entry);
    }
    known.computed += all;
  }
  run_step();
  for (Work& work : work_) work.known->behind.clear();
}

// Each guess is the next step's token, which stays on the device.
void DraftProposer::guess_on() {
  int32_t most = 0;
  for (const Work& work : work_) most = std::max(most, work.guess_count);
  for (int32_t guess = 1; guess < most; ++guess) {
    for (Work& work : work_) {
      if (guess >= work.guess_count) continue;
      BatchEntry& entry = add_entry(work, work.known->computed + guess - 1, 1);
      entry.input_on_device = true;
      sample(work, entry);
    }
    run_step();
  }
}

void DraftProposer::run_step() {
  if (plan_.empty()) return;
  if (steps_in_flight_ == kStepsInFlightMax) read_step();
  ++plan_.step;
  draft_.submit(plan_);
  ++steps_in_flight_;
  plan_.clear();
}

void DraftProposer::read_step() {
  --steps_in_flight_;
  const StepResult& read = draft_.wait();
  swap_time_ += read.swap_duration;
  for (const SampledToken& sampled : read.sampled) {
    const bool good = sampled.valid && sampled.token < limits_.vocabulary_size;
    work_[guessing_.at(to_integer(sampled.sequence))].guessed.push_back(good ? sampled.token : 0);
  }
}

const StepResult& DraftProposer::wait() {
  result_ = target_.wait();
  result_.duration += draft_time_;
  result_.swap_duration += swap_time_;
  for (const SampledToken& sampled : result_.sampled) {
    const auto found = guessing_.find(to_integer(sampled.sequence));
    if (found == guessing_.end()) continue;
    const Work& work = work_[found->second];
    const auto known = known_.find(to_integer(sampled.sequence));
    if (known == known_.end()) continue;  // it has ended
    // The last guess was not computed; nor does anything count behind a wrong one.
    const auto right = static_cast<int32_t>(sampled.further.size());
    const int32_t computed = std::min(right, work.guess_count - 1);
    known->second.computed += computed;
    if (right > computed) known->second.behind.assign(1, work.guessed.back());
  }
  return result_;
}

}  // namespace inflight
