// SPDX-License-Identifier: Apache-2.0
// Many equal decode steps at once. While every row is taken by a decoding sequence (or nobody waits), a step gives each
// a token, some a block, and publishes some full blocks; nothing is decided. This walks through the block events in the
// order in which plan() and commit() would meet them and does the rest in bulk, so that state, statistics and the order
// of evictions are those of step by step. Held against just that by tests/unit/sim/carry_on_test.cpp.
#include <algorithm>

#include "base/error.h"
#include "base/limits.h"
#include "sched/carried_steps.h"
#include "sched/scheduler.h"

namespace inflight {

// Every running sequence decodes, the last plan held just these, in their order, and a plan could admit nobody.
bool Scheduler::only_carries_on() const {
  // Blocks come back, or are copied, on the way, or not all of what is attended to grows.
  if (config_.sliding_window > 0 || config_.local_share > 0.0 || blocks_.has_local_slots() || host_tier_ != nullptr ||
      config_.num_speculative_tokens > 0)
    return false;
  if (config_.has_state) return false;
  if (trace_ != nullptr || running_.empty() || !unranked_.empty() || submitted_count_ > 1 || policy_->limits_steps()) {
    return false;
  }
  if (wants(EventType::Tokens) || wants(EventType::Step)) return false;
  if (policy_->ranking() != ranking_) return false;  // who waits is ranked again in the next plan
  const bool by_batch = config_.batching == BatchingMode::Static || config_.batching == BatchingMode::Dynamic;
  const bool full = running_count() >= config_.max_num_seqs && !may_preempt();
  if (!waiting_.empty() && !full && !(by_batch && batch_places_ == 0)) return false;
  const auto unread = static_cast<int32_t>(submitted_count_);
  const TimeNs last_token = running_.front()->last_token_time;
  if (last_token == kNotYet || !host_blocks_to_free_.empty()) return false;
  if (unread == 1) {
    const Submitted& submitted = submitted_[submitted_first_];
    if (submitted.work.prefill_tokens > 0 || submitted.sampled.size() != running_.size()) return false;
  }
  if (scheduled_.size() != running_.size()) return false;
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    if (scheduled_[i] != running_[i] || sequence.remaining_token_count() != 1 ||
        sequence.unread_token_count != unread || sequence.last_token_time != last_token) {
      return false;
    }
    if (unread == 1 && submitted_[submitted_first_].sampled[i].id != sequence.id) return false;
  }
  return true;
}

int64_t Scheduler::carry_on(CarriedSteps& steps) {
  constexpr int32_t kWorthwhile = 2;
  if (!only_carries_on()) return 0;
  int32_t limit = limits::kContextTokensMax;
  for (const Sequence* sequence : running_) {
    const int32_t before_limit = sequence->token_limit - 1 - static_cast<int32_t>(sequence->tokens.size());
    limit = std::min({limit, before_limit, steps.certain_tokens(*sequence)});
  }
  if (limit < kWorthwhile) return 0;

  // Which sequences need a block, or fill one, in a step: the same ones every B steps.
  const int32_t width = blocks_.block_token_count();
  carried_.resize(static_cast<size_t>(width));
  for (Carried& carried : carried_) carried = {};
  StepWork work{.decode_sequences = running_count()};
  for (Sequence* sequence : running_) {
    const int32_t room = static_cast<int32_t>(sequence->block_table.size()) * width - sequence->computed_token_count;
    carried_[static_cast<size_t>(room % width)].extend.push_back(sequence);
    const int32_t full = (sequence->published_block_count + 1) * width - (sequence->computed_token_count + 1);
    if (full < 0 && blocks_.prefix_caching()) return 0;  // it has blocks to publish from before
    if (blocks_.prefix_caching()) carried_[static_cast<size_t>(full % width)].publish.push_back(sequence);
    work.decode_context += sequence->computed_token_count + 1;
  }

  StepWork pending = submitted_count_ == 1 ? submitted_[submitted_first_].work : StepWork{};
  TimeNs last_token = kNotYet;
  int32_t done = 0;
  for (; done < limit; ++done) {
    Carried& carried = carried_[static_cast<size_t>(done % width)];
    if (static_cast<size_t>(blocks_.available_count()) < carried.extend.size()) break;  // somebody will be preempted
    const auto planned = steps.submit(work);
    if (!planned) break;
    const auto step = static_cast<uint64_t>(stats_.steps + done + 1);
    if (!carried.extend.empty() || !carried.publish.empty()) blocks_.set_time(*planned, step);
    for (Sequence* sequence : carried.extend) {
      if (static_cast<int32_t>(sequence->block_table.size()) * width > sequence->computed_token_count + done) continue;
      const bool extended = blocks_.try_extend(sequence->block_table, 1);
      INFLIGHT_CHECK(extended);
    }
    stats_.thrashing_steps += thrashing();
    recompute_tax_.add_step(stats_.recomputed_tokens - recomputed_before_, work.decode_sequences);
    recomputed_before_ = stats_.recomputed_tokens;
    new_token_ratio_.on_decode_step();
    stats_.attended_tokens += work.attended_tokens();

    const auto [now, duration] = steps.wait();
    if (!carried.publish.empty()) blocks_.set_time(now, step);
    const StepWork& ended = submitted_count_ == 1 ? pending : work;
    latency_model_.observe(ended, duration);
    view_.last_step_duration = duration;
    last_token = now;
    pending = work;
    publish_carried(carried.publish, done + 1, steps);
    work.decode_context += work.decode_sequences;
  }
  if (done == 0) return 0;
  for (Sequence* sequence : running_) {
    take_carried_tokens(*sequence, done, steps);
    sequence->computed_token_count += done;
    sequence->last_token_time = last_token;
  }
  if (submitted_count_ == 1) {
    submitted_[submitted_first_].step += static_cast<uint64_t>(done);
    submitted_[submitted_first_].work = pending;
  }
  view_.last_prefill_tokens = 0;
  view_.last_decode_sequences = work.decode_sequences;
  const int64_t tokens = int64_t{done} * work.decode_sequences;
  const int64_t slots = int64_t{done} * config_.max_num_seqs;
  stats_.steps += done;
  stats_.output_tokens += tokens;
  stats_.scheduled_tokens += tokens;
  stats_.slot_steps += slots;
  stats_.used_slot_steps += tokens;
  if (!waiting_.empty()) {
    stats_.backlog_slot_steps += slots;
    stats_.backlog_used_slot_steps += tokens;
  }
  return done;
}

// Makes `tokens` hold what the host knows after `carried` steps; computed_token_count is still that of before.
void Scheduler::take_carried_tokens(Sequence& sequence, int32_t carried, CarriedSteps& steps) {
  const int32_t known_before = sequence.computed_token_count + 1 - sequence.unread_token_count;
  const auto have = static_cast<int32_t>(sequence.tokens.size());
  const int32_t wanted = known_before + carried;
  if (wanted <= have) return;
  sequence.tokens.resize(static_cast<size_t>(wanted));
  steps.read_tokens(sequence, have, std::span(sequence.tokens).subspan(static_cast<size_t>(have)));
}

bool Scheduler::fills_block(const Sequence& sequence, int32_t carried) const {
  return (sequence.published_block_count + 1) * blocks_.block_token_count() == sequence.computed_token_count + carried;
}

// The blocks that a step fills, in the order of the sequences. What one touches is fetched while those before it are
// worked on: thousands of sequences do not stay in the CPU's caches from one of their blocks to the next.
void Scheduler::publish_carried(std::span<Sequence* const> sequences, int32_t carried, CarriedSteps& steps) {
  constexpr size_t kApart = 4;  // sequences from one stage to the next
  size_t i = 0;
  const auto stage = [&](size_t number, auto&& work) {
    const size_t behind = number * kApart;
    if (i >= behind && i - behind < sequences.size()) work(*sequences[i - behind]);
  };
  for (; i < sequences.size() + 3 * kApart; ++i) {
    stage(0, [](Sequence& sequence) { sequence.prefetch(); });
    stage(1, [](Sequence& sequence) { sequence.prefetch_ends(); });
    stage(2, [&](Sequence& sequence) { prefetch_carried(sequence, carried, steps); });
    stage(3, [&](Sequence& sequence) { publish_carried(sequence, carried); });
  }
}

// publish_carried() comes next: the block's tokens and key, and what publishing will touch into the CPU's caches.
void Scheduler::prefetch_carried(Sequence& sequence, int32_t carried, CarriedSteps& steps) {
  if (!fills_block(sequence, carried)) return;
  take_carried_tokens(sequence, carried, steps);
  const KvBlocks::FullBlock full = next_full_block(sequence);
  blocks_.prefetch_publish(sequence.block_table[static_cast<size_t>(full.index)], full.content.key);
}

void Scheduler::publish_carried(Sequence& sequence, int32_t carried) {
  if (!fills_block(sequence, carried)) return;
  const int32_t computed = sequence.computed_token_count;
  sequence.computed_token_count += carried;
  publish_or_adopt_full_blocks(sequence);
  sequence.computed_token_count = computed;
}

}  // namespace inflight
