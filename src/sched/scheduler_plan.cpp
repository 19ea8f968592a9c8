// SPDX-License-Identifier: Apache-2.0
// One step: decodes first, then prompts in progress, then admissions (scheduler_admission.cpp).
#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "sched/scheduler.h"

namespace inflight {

int32_t Scheduler::blocks_for(int32_t token_count) const { return div_ceil(token_count, blocks_.block_token_count()); }

const BatchPlan& Scheduler::plan(TimeNs now) {
  begin_step(now);
  if (limits_.shape == StepShape::DecodeFirst) schedule_decodes(now);
  schedule_prefills(now);
  // Only now is it certain that what was scheduled stays in the plan, so that others may build on it.
  for (Sequence* const sequence : prefilling_) {
    if (sequence->state == SequenceState::Running) publish_full_blocks(*sequence);
  }
  if (!preempted_in_step_) {
    admit_waiting(now);
  } else {
    pass_end_ = AdmissionResult::OutOfMemory;
  }
  if (limits_.shape == StepShape::PrefillOnly && plan_.entries.empty()) schedule_decodes(now);
  if (plan_.empty() && submitted_count_ == 0 && !wake_time_) go_on_without_policy(now);
  // A batch stays open for those whom only the budgets of its first steps keep out.
  if (pass_end_ != AdmissionResult::NoTokenBudget && pass_end_ != AdmissionResult::NoInputBudget) batch_places_ = 0;
  if (config_.num_speculative_tokens > 0) add_drafts();
  end_step();
  if (trace_ != nullptr) {
    trace_->on_plan({.plan = plan_, .refusals = refusals_, .pass_end = pass_end_, .preemptions = preemptions_}, now);
  }
  return plan_;
}

void Scheduler::begin_step(TimeNs now) {
  INFLIGHT_CHECK(submitted_count_ < (config_.num_speculative_tokens > 0 ? 1 : submitted_.size()));
  blocks_.set_time(now, static_cast<uint64_t>(stats_.steps) + 1);
  if (!events_.empty()) {
    policy_->on_events(events_);
    events_.clear();
  }
  wanted_events_ = policy_->wanted_events();
  plan_.clear();
  planned_ = &submitted_[(submitted_first_ + submitted_count_) % submitted_.size()];
  planned_->clear();
  scheduled_.clear();
  refusals_.clear();
  preemptions_.clear();
  pass_end_ = AdmissionResult::Accepted;
  plan_.step = static_cast<uint64_t>(stats_.steps) + 1;
  preempted_in_step_ = false;
  for (const BlockId host : host_blocks_to_free_) {
    if (host_pool_.dereference(host)) host_pool_.free(host);
  }
  host_blocks_to_free_.clear();
  if (host_tier_) host_tier_->begin_plan(now, plan_.step);
  if (blocks_.has_local_slots()) let_go_of_passed_slots();
  step_order_ = running_;
  prefilling_.clear();
  for (Sequence* const sequence : running_) {
    if (sequence->remaining_token_count() > 1) prefilling_.push_back(sequence);
  }

  limits_ = configured_limits(now);
  view_.step = plan_.step;
  view_.now = now;
  view_.config = &config_;
  view_.blocks = &blocks_;
  view_.latency = &latency_model_;
  view_.reserve_ratio = limits_.reserve_ratio;
  view_.running = running_;
  view_.tokens_left = limits_.token_budget;
  view_.sequences_left = config_.max_num_seqs - running_count();
  view_.prefilling_count = static_cast<int32_t>(prefilling_.size());
  rank_newcomers();
  view_.waiting = waiting_.sequences();
  const StepLimits configured = limits_;
  policy_->limit_step(view_, limits_);
  // A policy may shrink a step but not starve the decodes.
  tokens_left_ =
      std::clamp(limits_.token_budget, std::min(running_count(), configured.token_budget), configured.token_budget);
  prefill_tokens_left_ = std::clamp(limits_.prefill_tokens, 0, configured.prefill_tokens);
  limits_.chunk = std::clamp(limits_.chunk, 1, configured.token_budget);
  limits_.reserve_ratio = std::clamp(limits_.reserve_ratio, 0.0, 1.0);
  admissions_left_ = std::min(limits_.admissions, configured.admissions);
  mode_admits_ = configured.admissions > 0;
}

StepLimits Scheduler::configured_limits(TimeNs now) {
  // A budget that was lowered below the number of running sequences holds from when enough of them have left.
  const int32_t budget = std::max(config_.max_num_batched_tokens, running_count());
  const auto or_budget = [budget](int32_t value) { return value > 0 ? std::min(value, budget) : budget; };
  const bool prefill_only = config_.batching == BatchingMode::PrefillFirst && !config_.enable_mixed_chunk;
  return {.token_budget = budget,
          .prefill_tokens = or_budget(config_.max_prefill_tokens),
          .chunk = or_budget(config_.long_prefill_token_threshold),
          .admissions = admissions_of_mode(now),
          .shape = prefill_only ? StepShape::PrefillOnly : StepShape::DecodeFirst,
          .reserve_ratio = thrashing() ? 1.0 : new_token_ratio_.value()};
}

int32_t Scheduler::admissions_of_mode(TimeNs now) {
  wake_time_.reset();
  if (config_.batching == BatchingMode::Continuous || config_.batching == BatchingMode::PrefillFirst) {
    return config_.max_requests;
  }
  if (!running_.empty()) return batch_places_;
  if (waiting_count() == 0) return 0;
  if (config_.batching == BatchingMode::Dynamic && waiting_count() < config_.max_num_seqs) {
    TimeNs oldest = kNoDeadline;
    for (const Sequence* sequence : waiting_.sequences()) oldest = std::min(oldest, sequence->request.arrival);
    for (const Sequence* sequence : unranked_) oldest = std::min(oldest, sequence->request.arrival);
    const TimeNs launch = oldest + static_cast<TimeNs>(config_.max_batch_delay_ms * 1e6);
    if (now < launch) {
      wake_time_ = launch;
      return 0;
    }
  }
  batch_places_ = config_.max_num_seqs;
  return batch_places_;
}

// Nothing runs on the device and nothing was scheduled. If that is the policy's doing, this step is planned as if there
// were none, so that the engine can never come to rest with work left.
void Scheduler::go_on_without_policy(TimeNs now) {
  if (running_.empty() && waiting_.empty()) return;
  limits_ = configured_limits(now);
  if (running_.empty() && limits_.admissions == 0) return;  // the batching mode holds them back, not the policy
  tokens_left_ = limits_.token_budget;
  prefill_tokens_left_ = limits_.prefill_tokens;
  admissions_left_ = limits_.admissions;
  overrules_policy_ = true;
  schedule_decodes(now);
  schedule_prefills(now);
  if (plan_.empty()) admit_waiting(now);
  overrules_policy_ = false;
  if (!plan_.empty()) policy_->on_liveness_fault(LivenessFault::NoProgress);
}

void Scheduler::schedule_decodes(TimeNs now) {
  for (Sequence* const sequence : step_order_) {
    if (tokens_left_ == 0) return;
    const bool decodes = sequence->state == SequenceState::Running && sequence->remaining_token_count() == 1 &&
                         !sequence->reaches_limit();
    if (!decodes) continue;
    const bool unread = !sequence->plain && sequence->unread_token_count > 0;
    if (unread && sequence->is_filtered()) continue;  // its filter has just woken
    const auto room = static_cast<int32_t>(sequence->block_table.size()) * blocks_.block_token_count();
    const bool fits = sequence->computed_token_count < room;  // 15 times out of 16
    if (fits || reserve(*sequence, 1, NeedReason::Decode, now)) add_entry(*sequence, 1, !sequence->pools);
  }
}

void Scheduler::schedule_prefills(TimeNs now) {
  for (Sequence* const sequence : prefilling_) {
    if (sequence->state != SequenceState::Running) continue;  // preempted by a decode of this step
    int32_t count = std::min({sequence->remaining_token_count(), limits_.chunk, tokens_left_, prefill_tokens_left_});
    if (count == 0) return;
    if (reserve(*sequence, count, NeedReason::Prefill, now)) schedule(*sequence, count);
  }
}

void Scheduler::schedule(Sequence& sequence, int32_t token_count) {
  const bool newest = sequence.remaining_token_count() == token_count;
  add_entry(sequence, token_count, newest && !sequence.pools);
}

// Every step does this for every running sequence.
[[gnu::always_inline]] inline void Scheduler::add_entry(Sequence& sequence, int32_t token_count, bool samples) {
  const int32_t begin = sequence.computed_token_count;
  const int32_t end = begin + token_count;
  const auto host_known = static_cast<int32_t>(sequence.tokens.size());
  const Phase phase = samples && token_count == 1 ? Phase::Decode : Phase::Prefill;
  const size_t known = static_cast<size_t>(std::min(end, host_known) - begin);
  BatchEntry& entry = plan_.entries.emplace_back(BatchEntry{.sequence = sequence.id,
                                                            .row = sequence.row,
                                                            .computed_token_count = begin,
                                                            .scheduled_token_count = token_count,
                                                            .tokens = {sequence.tokens.data() + begin, known},
                                                            .input_on_device = end > host_known,
                                                            .samples = samples,
                                                            .phase = phase,
                                                            .adapter = sequence.adapter,
                                                            .block_table = sequence.block_table,
                                                            .sampling = &sequence.request.sampling});
  count_entry(entry, sequence);
  if (config_.has_state) add_state_moves(sequence, entry);
  if (blocks_.has_local_slots()) hold_slots(sequence, end);
  if (!sequence.plain) {
    if (sequence.may_need_host) add_host_work(sequence, entry);
    if (sequence.wants_prompt_logprobs()) want_prompt_logprobs(sequence, entry);
    if (sequence.pools) want_hidden(sequence, entry);
    const int32_t output = sequence.known_token_count() - sequence.prompt_token_count;
    const bool changes = samples && entry.sampling->changes_logits(output);
    if (entry.needs_host() || changes || entry.prompt_logprobs_wanted > 0) add_history(sequence, entry);
    count_wanted(entry, sequence);
  }
  scheduled_.push_back(&sequence);
  sequence.computed_token_count = end;
  sequence.unread_token_count += samples;
  tokens_left_ -= token_count;
  if (phase == Phase::Prefill) prefill_tokens_left_ -= token_count;
}

// Adds an entry of the plan, which has no guesses yet, to what its step does.
[[gnu::always_inline]] inline void Scheduler::count_entry(const BatchEntry& entry, Sequence& sequence) {
  StepWork& work = planned_->work;
  const int64_t pairs = attended_tokens(entry.computed_token_count, entry.scheduled_token_count);
  if (entry.phase == Phase::Decode) {
    ++work.decode_sequences;
    work.decode_context += pairs;
  } else {
    work.prefill_tokens += entry.scheduled_token_count;
    work.prefill_pairs += pairs;
  }
  if (entry.samples) planned_->sampled.push_back({&sequence, entry.sequence});
}

// Adds what the host reads of an entry besides its token.
void Scheduler::count_wanted(const BatchEntry& entry, Sequence& sequence) {
  const SampledRow row{&sequence, entry.sequence};
  if (entry.prompt_logprobs_wanted > 0) planned_->told.push_back(row);
  if (sequence.pools && entry.context_token_count() == sequence.prompt_token_count) planned_->pooled.push_back(row);
  plan_.hidden_row_count += entry.hidden_wanted;
  plan_.read_before_next |= entry.needs_host();
}

// After one was taken out.
void Scheduler::count_entries_again() {
  planned_->clear();
  plan_.hidden_row_count = 0;
  plan_.read_before_next = false;
  for (size_t i = 0; i < plan_.entries.size(); ++i) {
    count_entry(plan_.entries[i], *scheduled_[i]);
    count_wanted(plan_.entries[i], *scheduled_[i]);
  }
}

void Scheduler::want_hidden(const Sequence& sequence, BatchEntry& entry) {
  const bool last = entry.context_token_count() == sequence.prompt_token_count;
  const Pooling pooling = sequence.request.pooling;
  entry.hidden_wanted = pooling == Pooling::Mean           ? entry.scheduled_token_count
                        : last && pooling == Pooling::Last ? 1
                                                           : 0;
  entry.prompt_token_count = sequence.prompt_token_count;
}

// Whether the host says which token may come, or draws it.
void Scheduler::add_host_work(const Sequence& sequence, BatchEntry& entry) {
  entry.filtered = entry.samples && sequence.is_filtered();
  entry.host_samples = entry.samples && entry.sampling->needs_logits();
}

// One that was preempted computes again what was told before: nothing is wanted of that.
void Scheduler::want_prompt_logprobs(Sequence& sequence, BatchEntry& entry) {
  const int32_t end = std::min(entry.context_token_count(), sequence.prompt_token_count - 1);
  entry.prompt_logprobs_wanted = std::max(end - std::max(entry.computed_token_count, sequence.prompt_logprob_count), 0);
  sequence.prompt_logprob_count += entry.prompt_logprobs_wanted;
}

// What is to be known of the tokens so far.
void Scheduler::add_history(Sequence& sequence, BatchEntry& entry) {
  const SamplingParams& sampling = sequence.request.sampling;
  if (entry.samples && sampling.penalises()) {
    if (sequence.counts == nullptr) {
      sequence.counts = std::make_unique<TokenCounts>(static_cast<size_t>(sequence.prompt_token_count),
                                                      sampling.repetition_penalty != 1.0F);
    }
    sequence.counts->advance(sequence.tokens);
  }
  if (sequence.history == nullptr) sequence.history = std::make_unique<TokenHistory>();
  *sequence.history = {
      .known_tokens = sequence.tokens, .end_tokens = sequence.request.end_tokens, .counts = sequence.counts.get()};
  entry.history = sequence.history.get();
  entry.prompt_token_count = sequence.prompt_token_count;
}

void Scheduler::unschedule(Sequence& sequence) {
  const auto place = std::ranges::find(scheduled_, &sequence);
  if (place == scheduled_.end()) return;
  const auto entry = plan_.entries.begin() + (place - scheduled_.begin());
  tokens_left_ += entry->scheduled_token_count;
  if (entry->phase == Phase::Prefill) prefill_tokens_left_ += entry->scheduled_token_count;
  if (entry->samples) --sequence.unread_token_count;
  sequence.prompt_logprob_count -= entry->prompt_logprobs_wanted;
  sequence.computed_token_count = entry->computed_token_count;
  plan_.entries.erase(entry);
  scheduled_.erase(place);
  count_entries_again();
}

bool Scheduler::reserve(Sequence& sequence, int32_t token_count, NeedReason reason, TimeNs now) {
  release_passed_blocks(sequence);
  const int32_t needed =
      blocks_for(sequence.computed_token_count + token_count) - static_cast<int32_t>(sequence.block_table.size());
  while (needed > 0 && !blocks_.try_extend(sequence.block_table, needed)) {
    // Alone, everything else can be evicted, and max_model_len fits into the pool.
    INFLIGHT_CHECK(running_.size() > 1);
    Sequence& victim = choose_victim({.reason = reason, .blocks = needed, .sequence = &sequence});
    preempted_in_step_ = true;
    preempt(victim, false, now);
    if (&victim == &sequence) return false;
  }
  return true;
}

void Scheduler::end_step() {
  if (preempted_in_step_) {
    int64_t produced = 0, limit = 0;
    for (const Sequence* sequence : running_) {
      produced += sequence->output_token_count();
      limit += sequence->token_limit - sequence->prompt_token_count;
    }
    new_token_ratio_.on_preemption(running_count(), produced, limit);
  }
  if (host_tier_) {
    const size_t before = plan_.swap_out.size();
    host_tier_->take_copies(plan_.swap_out);
    stats_.offloaded_blocks += static_cast<int64_t>(plan_.swap_out.size() - before);
  }
  if (plan_.empty()) {
    if (idle()) new_token_ratio_.on_idle();
    return;
  }
  if (blocks_.has_local_slots()) plan_.local_slots = blocks_.local_slots().by_block();
  StepWork& work = planned_->work;
  planned_->step = plan_.step;
  work.swapped_blocks = static_cast<int32_t>(plan_.swap_out.size() + plan_.swap_in.size());
  plan_.scheduled_token_count = work.decode_sequences + work.prefill_tokens;
  plan_.sampled_row_count = static_cast<int32_t>(planned_->sampled.size());
  if (wants(EventType::Tokens)) {
    for (size_t i = 0; i < plan_.entries.size(); ++i) {
      const BatchEntry& entry = plan_.entries[i];
      if (entry.phase == Phase::Prefill) {
        put_event(EventType::Tokens, *scheduled_[i], view_.now, entry.scheduled_token_count, 0, 0);
      }
    }
  }
  const auto used = static_cast<int64_t>(plan_.entries.size());
  stats_.slot_steps += config_.max_num_seqs;
  stats_.used_slot_steps += used;
  if (waiting_count() > 0) {
    stats_.backlog_slot_steps += config_.max_num_seqs;
    stats_.backlog_used_slot_steps += used;
  }
  if (work.decode_sequences > 0 && !preempted_in_step_) new_token_ratio_.on_decode_step();
  ++submitted_count_;
  ++stats_.steps;
  stats_.scheduled_tokens += plan_.scheduled_token_count;
  stats_.attended_tokens += work.attended_tokens();
  stats_.thrashing_steps += thrashing();
  recompute_tax_.add_step(stats_.recomputed_tokens - recomputed_before_, plan_.scheduled_token_count);
  recomputed_before_ = stats_.recomputed_tokens;
}

}  // namespace inflight
