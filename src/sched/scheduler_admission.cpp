// SPDX-License-Identifier: Apache-2.0
// Waiting sequences into the step. Each one that is looked at gets exactly one AdmissionResult a step.
//
// Order of the gates: its adapter runs or may (NO_ADAPTER), a row is free or can be freed by priority (NO_SPACE), the
// step has tokens left (NO_TOKEN_BUDGET), prompt tokens left (NO_INPUT_BUDGET), nobody is computing what it shares
// (NOT_READY), the policy agrees (POLICY), there is room or can be made (OUT_OF_MEMORY). NO_SPACE and the budgets end
// the pass; after the others the next in line is looked at, up to limits::kSkipAheadMax. No more than that many are
// ever admitted past one that waits for what others hold (NO_ADAPTER, OUT_OF_MEMORY): behind it the pass ends.
// NO_ADAPTER, NO_SPACE with its NO_TOKEN_BUDGET and OUT_OF_MEMORY give way to a preemption that frees what is missing.
//
// Room: blocks for all known tokens (vLLM's full-sequence check), and beyond that the headroom and a share of what the
// running sequences and this one may still produce (SGLang's budget); docs/decisions/0002.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "sched/scheduler.h"

namespace inflight {
namespace {

bool waits_for_others(AdmissionResult result) {
  return result == AdmissionResult::OutOfMemory || result == AdmissionResult::NoAdapter;
}

}  // namespace

// Newcomers take their place in the waiting list: with their key if it is stable, else as the first of equals. Keys of
// two rules do not compare: when the rule changes, everybody is a newcomer. A step in which newcomers get no key is one
// of the built-in rule.
void Scheduler::rank_newcomers() {
  using enum SchedulePolicy::Ranking;
  const SchedulePolicy::Ranking wanted = policy_->ranking();
  if (wanted != ranking_) forget_ranks();
  ranking_ = wanted;
  if (ranking_ == Stable && !unranked_.empty()) {
    keys_.assign(unranked_.size(), WaitingKey{});
    if (policy_->rank(view_, unranked_, keys_)) {
      for (size_t i = 0; i < unranked_.size(); ++i) unranked_[i]->waiting_key = keys_[i];
    } else {
      forget_ranks();
      ranking_ = Arrival;
    }
  }
  for (Sequence* const sequence : unranked_) {
    if (ranking_ != Stable) sequence->waiting_key = {};
    waiting_.push(sequence);
  }
  unranked_.clear();
}

void Scheduler::forget_ranks() {
  while (!waiting_.empty()) unranked_.push_back(waiting_.pop());
}

void Scheduler::rank_everybody() {
  if (policy_->ranking() != SchedulePolicy::Ranking::EveryStep || overrules_policy_) return;
  const auto sequences = waiting_.sequences();
  keys_.assign(sequences.size(), WaitingKey{});
  if (!policy_->rank(view_, sequences, keys_)) std::ranges::fill(keys_, WaitingKey{});
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i]->waiting_key = keys_[i];
  waiting_.rebuild();
}

// What a policy sees of the step's state, as it is now.
void Scheduler::update_view() {
  view_.waiting = waiting_.sequences();
  view_.running = running_;
  view_.tokens_left = tokens_left_;
  view_.sequences_left = config_.max_num_seqs - running_count();
}

void Scheduler::admit_waiting(TimeNs now) {
  if (holds_admissions_) set_new_requests_aside();
  run_admission_pass(now);
  for (Sequence* const sequence : set_aside_) waiting_.push(sequence);
  set_aside_.clear();
}

void Scheduler::set_new_requests_aside() {
  std::vector<Sequence*> others;
  while (!waiting_.empty()) {
    Sequence* const sequence = waiting_.pop();
    (sequence->request_has_begun() ? others : set_aside_).push_back(sequence);
  }
  for (Sequence* const sequence : others) waiting_.push(sequence);
}

void Scheduler::run_admission_pass(TimeNs now) {
  if (waiting_.empty()) return;
  const bool full = running_count() >= config_.max_num_seqs && !may_preempt();
  pass_end_ = full ? AdmissionResult::NoSpace : AdmissionResult::Policy;
  if (full) return;
  refused_.clear();
  if (admissions_left_ <= 0) {
    if (!mode_admits_) return;  // else it is the policy's doing
    begin_admission();
    if (tokens_left_ > 0) check_starvation(now);
    return;
  }
  update_view();
  rank_everybody();
  begin_admission();

  std::array<bool, kAdmissionResultCount> seen{};
  int32_t passes_left = std::numeric_limits<int32_t>::max();  // until somebody refused has been passed often enough
  while (!waiting_.empty() && admissions_left_ > 0 && passes_left > 0 &&
         refused_.size() < static_cast<size_t>(limits::kSkipAheadMax)) {
    Sequence& sequence = *waiting_.sequences().front();
    const AdmissionResult result = consider(sequence, now);
    ++stats_.admissions[static_cast<size_t>(result)];
    if (!std::exchange(seen[static_cast<size_t>(result)], true)) {
      ++stats_.admission_steps[static_cast<size_t>(result)];
    }
    if (result == AdmissionResult::Accepted) {
      for (const PassedOver& one : refused_) {
        if (waits_for_others(one.result)) ++one.sequence->passed_count;
      }
      --passes_left;
      continue;
    }
    if (sequence.state == SequenceState::Finished) continue;  // rejected
    pass_end_ = result;
    if (result == AdmissionResult::NoSpace || result == AdmissionResult::NoTokenBudget ||
        result == AdmissionResult::NoInputBudget) {
      break;
    }
    note_refusal(sequence, result);
    refused_.push_back({waiting_.pop(), result});
    if (waits_for_others(result)) passes_left = std::min(passes_left, limits::kSkipAheadMax - sequence.passed_count);
  }
  if (waiting_.empty()) pass_end_ = AdmissionResult::Accepted;
  // The last first: in a line each goes back to the front at once.
  for (size_t i = refused_.size(); i-- > 0;) waiting_.push(refused_[i].sequence);
  // Who waits because prompts before it use up a share that the policy gives them is in a queue, not starved.
  const bool prompts_move =
      limits_.prefill_tokens > 0 && (prefill_tokens_left_ == 0 || pass_end_ == AdmissionResult::NoInputBudget);
  if (tokens_left_ > 0 && !prompts_move) check_starvation(now);
}

void Scheduler::note_refusal(const Sequence& sequence, AdmissionResult result) {
  if (trace_ == nullptr) return;
  Refusal refusal{.sequence = sequence.id, .result = result};
  if (result == AdmissionResult::OutOfMemory) {
    refusal.wanted_blocks = blocks_for(sequence.known_token_count()) - static_cast<int32_t>(matched_.size());
    refusal.available_blocks = blocks_.available_count() - blocks_.stored_among(matched_);
  }
  refusals_.push_back(refusal);
}

// KV tokens by which admission expects a sequence to grow: all it may produce, within reason (SGLang's clip). With a
// sliding window it holds the window and a block more at most.
int32_t Scheduler::expected_growth(const Sequence& sequence) const {
  const int32_t known = sequence.known_token_count();
  const int32_t output = std::min(sequence.token_limit - known, limits::kNewTokensEstimateMax);
  if (config_.sliding_window == 0) return output;
  return std::clamp(config_.sliding_window + blocks_.block_token_count() - known, 0, output);
}

void Scheduler::begin_admission() {
  int64_t expected = 0;
  computing_.clear();
  states_to_come_.clear();
  adapters_.clear();
  for (const Sequence* sequence : running_) {
    note_adapter(*sequence);
    expected += expected_growth(*sequence);
    note_computing(*sequence);
  }
  reserved_tokens_ = static_cast<int64_t>(std::ceil(limits_.reserve_ratio * static_cast<double>(expected)));
}

// A prompt in progress will compute its first block that is not published in a later step; whoever wants the same block
// then finds it, instead of computing it too (TensorRT-LLM's beneficialToSkip).
void Scheduler::note_computing(const Sequence& sequence) {
  if (config_.has_state) return note_states_to_come(sequence);
  if (sequence.remaining_token_count() == 0) return;
  const auto next = static_cast<size_t>(sequence.published_block_count);
  if (next < sequence.keys.size()) computing_.push_back(sequence.keys[next]);
}

void Scheduler::note_adapter(const Sequence& sequence) {
  const uint32_t adapter = sequence.adapter;
  if (adapter != 0 && std::ranges::find(adapters_, adapter) == adapters_.end()) adapters_.push_back(adapter);
}

bool Scheduler::has_adapter_place(const Sequence& sequence) const {
  if (sequence.request.adapter == 0 || config_.max_loras == 0) return true;
  return static_cast<int32_t>(adapters_.size()) < config_.max_loras ||
         std::ranges::find(adapters_, sequence.request.adapter) != adapters_.end();
}

bool Scheduler::is_being_computed(PrefixKey key) const {
  // Where a batch is fixed at its start, whoever waits for a block misses the batch.
  if (config_.batching == BatchingMode::Static || config_.batching == BatchingMode::Dynamic) return false;
  return std::ranges::find(computing_, key) != computing_.end();
}

Scheduler::Room Scheduler::room() const {
  return {running_count(), blocks_.available_count() - blocks_.stored_among(matched_), reserved_tokens_};
}

bool Scheduler::has_room_for(const Sequence& sequence, int32_t wanted_blocks, const Room& room) const {
  if (wanted_blocks > room.available) return false;
  if (room.running == 0) return true;  // somebody must run, whatever the future holds
  const int64_t width = blocks_.block_token_count();
  const auto headroom = static_cast<int64_t>(std::ceil(config_.kv_headroom * blocks_.pool().block_count()));
  const int64_t available = room.available - headroom;
  if (limits_.reserve_ratio == 0.0) return wanted_blocks <= available;
  return wanted_blocks * width + expected_growth(sequence) + width < available * width - room.reserved_tokens;
}

AdmissionResult Scheduler::consider(Sequence& sequence, TimeNs now) {
  const bool lacks_adapter = !has_adapter_place(sequence);
  if (lacks_adapter) {
    find_less_important(sequence);
    if (adapter_to_give_up() == 0) return AdmissionResult::NoAdapter;
  }
  const bool full = running_count() >= config_.max_num_seqs;
  if (full && !may_preempt()) return AdmissionResult::NoSpace;
  if (tokens_left_ == 0 && !full) return AdmissionResult::NoTokenBudget;  // who gives its row gives its token too
  if (prefill_tokens_left_ == 0) return AdmissionResult::NoInputBudget;
  // Its ids on the device lie in its old row; a step that preempts admits nobody, so they have been read by now.
  INFLIGHT_CHECK(sequence.unread_token_count == 0);
  const int32_t known = sequence.known_token_count();
  const auto width = static_cast<size_t>(blocks_.block_token_count());
  const size_t whole = sequence.skippable_block_count(blocks_.block_token_count());
  matched_.clear();
  host_match_.clear();
  state_match_ = {};
  matched_block_count_ = 0;
  // One that was swapped out behind a sliding window comes back as it was: of what may be stored it needs nothing.
  if (!match_first_choice(sequence) && sequence.released_block_count == 0) {
    // Tokens of which more than K and V is wanted are computed, whatever is stored.
    const auto skippable = sequence.wants_prompt_logprobs()
                               ? std::min(whole, static_cast<size_t>(sequence.prompt_logprob_count) / width)
                           : sequence.request.pooling == Pooling::Mean ? 0
                                                                       : whole;
    blocks_.match(sequence.request.cache_salt, std::span(sequence.keys).first(skippable), sequence.tokens, matched_);
    matched_.resize(blocks_.usable_count(matched_));
    if (config_.has_state) {
      match_state();
      if (is_state_to_come(sequence, skippable)) return AdmissionResult::NotReady;
    } else if (matched_.size() < skippable && is_being_computed(sequence.keys[matched_.size()])) {
      return AdmissionResult::NotReady;
    }
    match_host_tier(sequence, skippable);
  }
  const int32_t wanted = blocks_for(known) - static_cast<int32_t>(matched_.size()) - sequence.released_block_count;
  const size_t found = std::max(matched_.size(), host_match_.size());
  const int32_t computed =
      forked_from_ != nullptr ? known - 1 : std::max(static_cast<int32_t>(found * width), sequence.swapped_token_count);
  int32_t count = std::min({known - computed, limits_.chunk, std::max(tokens_left_, 1), prefill_tokens_left_});
  if (count == 0) return AdmissionResult::NoInputBudget;
  if (computed + count < known && partial_prefills_full()) return AdmissionResult::NoInputBudget;
  const Decision decision = ask_policy(sequence, wanted, computed, count);
  if (decision == Decision::Reject) finish(sequence, FinishReason::Error, FinishCause::RejectedByPolicy, now);
  if (decision != Decision::Admit && decision != Decision::Preempt) return AdmissionResult::Policy;
  // Last, because it may preempt: nothing may refuse the sequence afterwards.
  if (lacks_adapter || full || !has_room_for(sequence, wanted, room())) {
    if (decision == Decision::Preempt) {
      ask_policy_for_victims(sequence, wanted);
    } else {
      find_less_important(sequence);
    }
    if (!make_room_for(sequence, wanted, now)) {
      return lacks_adapter ? AdmissionResult::NoAdapter
             : full        ? AdmissionResult::NoSpace
                           : AdmissionResult::OutOfMemory;
    }
  }
  admit(sequence, wanted, computed, count, now);
  return AdmissionResult::Accepted;
}

// Into host_match_: the sequence's prefix in the host tier, at most `most` blocks, if copying what matched_ lacks of it
// back takes no longer than computing it.
void Scheduler::match_host_tier(const Sequence& sequence, size_t most) {
  if (host_tier_ == nullptr || sequence.swapped_token_count > 0 || matched_.size() >= most) return;
  host_tier_->match(sequence.request.cache_salt, std::span(sequence.keys).first(most), sequence.tokens, host_match_);
  const int32_t width = blocks_.block_token_count();
  const auto stored = static_cast<int32_t>(matched_.size()), found = static_cast<int32_t>(host_match_.size());
  const int32_t count = (found - stored) * width;
  const bool pays =
      found > stored &&
      latency_model_.estimate({.swapped_blocks = found - stored}) <=
          latency_model_.estimate({.prefill_tokens = count, .prefill_pairs = attended_tokens(stored * width, count)});
  if (!pays) host_match_.clear();
}

// As many prompts will be in progress after this step as may be.
bool Scheduler::partial_prefills_full() const {
  if (config_.max_num_partial_prefills == 0) return false;
  const auto partial = [](const Sequence* sequence) {
    const int32_t left = static_cast<int32_t>(sequence->tokens.size()) - sequence->computed_token_count;
    return left > 1 || (left == 1 && sequence->output_token_count() == 0);  // else it decodes
  };
  return std::ranges::count_if(running_, partial) >= config_.max_num_partial_prefills;
}

bool Scheduler::may_preempt() const {
  return config_.priority_preemption_threshold.has_value() || (policy_->preempts() && !overrules_policy_);
}

Decision Scheduler::ask_policy(const Sequence& sequence, int32_t wanted_blocks, int32_t computed_token_count,
                               int32_t& token_count) {
  if (!policy_->decides_admission() || overrules_policy_) return Decision::Admit;
  const int32_t end = computed_token_count + token_count;
  const Candidate candidate{.sequence = &sequence,
                            .cached_tokens = computed_token_count,
                            .uncached_tokens = sequence.known_token_count() - computed_token_count,
                            .blocks_now = std::max(0, blocks_for(end) - static_cast<int32_t>(matched_.size())),
                            .blocks_full = wanted_blocks};
  Admission admission{.decision = Decision::Admit, .max_tokens = token_count};
  update_view();
  policy_->admit(view_, candidate, admission);
  if (admission.decision == Decision::Stop) admissions_left_ = 0;
  token_count = std::clamp(admission.max_tokens, 1, token_count);
  return admission.decision;
}

// Every 64 steps: the first by arrival waits too long, though there are a row, a place for its adapter and room for it:
// the policy refuses it, or looks at others for so long that it is not looked at.
void Scheduler::check_starvation(TimeNs now) {
  constexpr uint64_t kInterval = 64;
  if (plan_.step % kInterval != 0 || waiting_.empty() || running_count() >= config_.max_num_seqs) return;
  const auto arrival = [](const Sequence* sequence) { return sequence->request.id; };
  const Sequence& first = **std::ranges::min_element(waiting_.sequences(), {}, arrival);
  if (now - first.queued_time < limits::kStarvationNs || !has_adapter_place(first)) return;
  const auto looked_at = std::ranges::find(refused_, &first, &PassedOver::sequence);
  if (looked_at != refused_.end() && looked_at->result != AdmissionResult::Policy) return;
  // Room as admission counts it: what is kept free for running sequences is not the policy's doing.
  matched_.clear();
  if (has_room_for(first, blocks_for(first.known_token_count()), room())) {
    policy_->on_liveness_fault(LivenessFault::Starvation);
  }
}

void Scheduler::admit(Sequence& sequence, int32_t wanted_blocks, int32_t computed_token_count, int32_t token_count,
                      TimeNs now) {
  const int32_t known = sequence.known_token_count();
  leave_waiting(sequence);
  // Once a request: neither its further choices nor its return after a preemption count.
  if (!sequence.request_has_begun()) blocks_.note_hits(matched_, sequence.request.priority);
  blocks_.share(matched_);
  sequence.block_table.assign(static_cast<size_t>(sequence.released_block_count), kNoBlock);
  sequence.block_table.insert(sequence.block_table.end(), matched_.begin(), matched_.end());
  const auto held = static_cast<int32_t>(sequence.block_table.size());
  sequence.published_block_count = std::min(held, shareable_block_count_);
  if (!host_match_.empty()) host_tier_->pin(host_match_);  // before anything is evicted for it
  sequence.computed_token_count = computed_token_count;
  if (blocks_.has_local_slots()) begin_slots(sequence);
  const bool extended = blocks_.try_extend(sequence.block_table, wanted_blocks);
  INFLIGHT_CHECK(extended);
  for (auto i = static_cast<size_t>(held); i < sequence.host_table.size(); ++i) {
    plan_.swap_in.push_back({sequence.block_table[i], sequence.host_table[i]});
    ++stats_.swapped_in_blocks;
  }
  for (size_t i = matched_.size(); i < host_match_.size(); ++i) {
    plan_.swap_in.push_back({sequence.block_table[i], host_match_[i]});
    ++stats_.restored_blocks;
  }
  release_host_blocks(sequence);
  if (forked_from_ != nullptr) copy_from_first_choice(sequence);
  sequence.row = free_rows_.back();
  free_rows_.pop_back();
  if (config_.has_state) begin_states(sequence);
  running_.push_back(&sequence);
  sequence.admission_step = plan_.step;
  --admissions_left_;
  if (batch_places_ > 0) --batch_places_;
  if (sequence.state == SequenceState::Waiting) {
    sequence.first_scheduled_time = now;
    sequence.prefix_hit_token_count = computed_token_count;
    stats_.prompt_tokens += sequence.prompt_token_count;
    stats_.cached_tokens += computed_token_count;
    if (!host_match_.empty()) {
      stats_.host_cached_tokens += computed_token_count - held * blocks_.block_token_count();
    }
    record(EventType::Admit, sequence, now, known - computed_token_count, computed_token_count);
  } else {
    const int32_t again = std::max(0, sequence.lost_token_count - computed_token_count);
    sequence.recomputed_token_count += again;
    stats_.recomputed_tokens += again;
    record(EventType::Resume, sequence, now, known - computed_token_count, computed_token_count);
  }
  sequence.state = SequenceState::Running;
  if (sequence.remaining_token_count() > 1) ++view_.prefilling_count;
  schedule(sequence, token_count);
  publish_full_blocks(sequence);
  note_computing(sequence);
  note_adapter(sequence);
  if (limits_.reserve_ratio > 0.0) reserved_tokens_ += expected_growth(sequence) + blocks_.block_token_count();
}

}  // namespace inflight
