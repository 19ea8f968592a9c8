// SPDX-License-Identifier: Apache-2.0
// The life of a request in the scheduler: add, commit, finish, cancel. Planning is in scheduler_plan.cpp.
#include "sched/scheduler.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "cache/adapter_salt.h"

namespace inflight {

const char* to_string(AdmissionResult result) {
  constexpr std::array<const char*, kAdmissionResultCount> kNames = {
      "ACCEPTED",      "NO_SPACE",   "NO_TOKEN_BUDGET", "NO_INPUT_BUDGET",
      "OUT_OF_MEMORY", "NO_ADAPTER", "NOT_READY",       "POLICY"};
  return kNames[static_cast<size_t>(result)];
}

const char* to_string(FinishCause cause) {
  switch (cause) {
    case FinishCause::None:
      return "";
    case FinishCause::NoFiniteLogits:
      return "the model gave no finite logits";
    case FinishCause::RejectedByPolicy:
      return "the scheduling policy rejected the request";
    case FinishCause::FilterFailed:
      return "the grammar is too ambiguous to be followed: a text can be read in too many ways";
  }
  return "";
}

namespace {

int32_t shareable_block_count(const SchedulerConfig& config, const KvBlocks& blocks) {
  if (!blocks.prefix_caching()) return 0;
  return (config.sliding_window > 0 ? config.sliding_window : limits::kContextTokensMax) / blocks.block_token_count();
}

// What goes with local slots, and whether there are enough of them: recorded settings may be anything.
void check_slots(const SchedulerConfig& config, const KvBlocks& blocks) {
  const int32_t needed = std::min(config.local_slots_needed(blocks.local_window(), blocks.block_token_count()),
                                  blocks.pool().block_count());
  const int32_t slots = blocks.local_slots().slot_count();
  if (slots < needed || blocks.local_window() < 1 || config.sliding_window > 0 || config.has_state ||
      config.host_blocks > 0 || config.host_cache_blocks > 0) {
    fail(
        ErrorCode::InvalidArgument,
        "local_slots is {}, allowed: {} to kv_blocks, with local_window (is {}), without sliding_window, states and KV "
        "blocks in host memory",
        slots, needed, blocks.local_window());
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, KvBlocks& blocks, SchedulePolicy& policy)
    : config_(config),
      capacity_(config),
      windows_(config.windows(blocks.local_window())),
      shareable_block_count_(shareable_block_count(config, blocks)),
      blocks_(blocks),
      policy_(&policy),
      kept_states_(config.has_state ? blocks.pool().block_count() : 0, config.kept_states),
      new_token_ratio_(config.schedule_conservativeness),
      prefix_watch_(blocks),
      host_pool_(config.host_blocks, std::nullopt) {
  config_.validate(int64_t{blocks.pool().block_count()} * blocks.block_token_count());
  if (blocks.has_local_slots()) check_slots(config, blocks);
  const auto rows = static_cast<size_t>(config_.max_num_seqs);
  for (int32_t row = config_.max_num_seqs - 1; row >= 0; --row) free_rows_.push_back(row);
  running_.reserve(rows);
  prefilling_.reserve(rows);
  plan_.entries.reserve(rows);
  output_.tokens.reserve(rows);
  output_.finished.reserve(rows);
  refused_.reserve(static_cast<size_t>(limits::kSkipAheadMax) + 1);
  for (Submitted& submitted : submitted_) {
    submitted.sampled.reserve(rows);
    submitted.told.reserve(rows);
  }
  if (config.host_cache_blocks > 0 && blocks.prefix_caching()) {
    host_tier_ = std::make_unique<HostTier>(blocks, config.host_cache_blocks, config.host_blocks);
    blocks_.add_observer(*host_tier_);
  }
  if (config.has_state) blocks_.add_observer(kept_states_);
  watch_prefixes_if_wanted();
}

Scheduler::~Scheduler() {
  blocks_.remove_observer(kept_states_);
  blocks_.remove_observer(prefix_watch_);
  if (host_tier_) blocks_.remove_observer(*host_tier_);
}

void Scheduler::watch_prefixes_if_wanted() {
  watches_prefixes_ = policy_->looks_at_prefixes();
  blocks_.remove_observer(prefix_watch_);
  if (watches_prefixes_) blocks_.add_observer(prefix_watch_);
  prefix_watch_.clear();
  if (!watches_prefixes_) return;
  for (Sequence* sequence : waiting_.sequences()) prefix_watch_.add(*sequence);
  for (Sequence* sequence : unranked_) prefix_watch_.add(*sequence);
}

void Scheduler::begin_waiting(Sequence& sequence, TimeNs now) {
  sequence.predicted_output_tokens =
      output_estimator_.estimate(sequence.request.tenant, sequence.request.predicted_output_tokens,
                                 sequence.token_limit - sequence.prompt_token_count);
  sequence.queued_time = now;
  if (!sequence.request_has_begun()) queued_token_count_ += sequence.prompt_token_count;
  unranked_.push_back(&sequence);
  if (watches_prefixes_) prefix_watch_.add(sequence);
}

void Scheduler::reconfigure(const SchedulerConfig& config) {
  config.validate(int64_t{blocks_.pool().block_count()} * blocks_.block_token_count());
  const auto within = [](const char* name, int64_t value, int64_t capacity) {
    if (value > capacity) {
      fail(ErrorCode::InvalidArgument, "{} is {}, allowed: at most {}, as the engine was made", name, value, capacity);
    }
  };
  within("max_num_seqs", config.max_num_seqs, capacity_.max_num_seqs);
  within("max_num_batched_tokens", config.max_num_batched_tokens, capacity_.max_num_batched_tokens);
  within("max_model_len", config.max_model_len, capacity_.max_model_len);
  within("max_requests", config.max_requests, capacity_.max_requests);
  INFLIGHT_CHECK(config.sliding_window == capacity_.sliding_window && config.local_share == capacity_.local_share);
  INFLIGHT_CHECK(config.num_speculative_tokens == capacity_.num_speculative_tokens);
  INFLIGHT_CHECK(config.host_cache_blocks == capacity_.host_cache_blocks);
  INFLIGHT_CHECK(config.has_state == capacity_.has_state && config.kept_states == capacity_.kept_states);
  if (config.schedule_conservativeness != config_.schedule_conservativeness) {
    new_token_ratio_ = NewTokenRatio(config.schedule_conservativeness);
  }
  config_ = config;
}

void Scheduler::begin_call(TimeNs now) {
  blocks_.set_time(now, static_cast<uint64_t>(stats_.steps));
  wanted_events_ = policy_->wanted_events();
}

void Scheduler::reset_prefix_cache(TimeNs now) {
  begin_call(now);
  blocks_.clear_stored();
  if (host_tier_) host_tier_->clear();  // of what it has just been given, too
  if (wants(EventType::CacheReset)) events_.push_back({EventType::CacheReset, 0, 0, now, 0, 0, 0});
}

Sequence* Scheduler::take_slot() {
  if (free_slots_.empty()) {
    INFLIGHT_CHECK(slots_.size() < static_cast<size_t>(config_.max_requests));
    const size_t place = slots_.size() % kSlotsTogether;
    if (place == 0) slot_storage_.push_back(std::make_unique<Sequence[]>(kSlotsTogether));
    slots_.push_back(&slot_storage_.back()[place]);
    slots_.back()->slot = static_cast<int32_t>(slots_.size()) - 1;
    return slots_.back();
  }
  Sequence* const sequence = slots_[static_cast<size_t>(free_slots_.back())];
  free_slots_.pop_back();
  // A slot keeps its vectors' memory; everything else starts anew.
  Sequence fresh;
  fresh.slot = sequence->slot;
  fresh.tokens.swap(sequence->tokens);
  fresh.block_table.swap(sequence->block_table);
  fresh.keys.swap(sequence->keys);
  fresh.host_table.swap(sequence->host_table);
  fresh.guessed.swap(sequence->guessed);
  fresh.tokens.clear();
  fresh.keys.clear();
  fresh.guessed.clear();
  *sequence = std::move(fresh);
  return sequence;
}

int32_t Scheduler::add(Request request, TimeNs now) {
  wanted_events_ = policy_->wanted_events();
  const auto prompt_count = static_cast<int32_t>(request.prompt.size());
  INFLIGHT_CHECK(prompt_count >= 1 &&
                 prompt_count <= prompt_tokens_max(config_.max_model_len, request.pooling == Pooling::None));
  std::vector<TokenId> prompt;
  prompt.swap(request.prompt);
  const uint64_t given_salt = request.cache_salt;
  request.cache_salt = adapter_salt(given_salt, request.adapter);
  Sequence& first = add_choice(request, prompt, 0);
  const bool added = slot_of_request_.emplace(to_integer(request.id), first.slot).second;
  INFLIGHT_CHECK(added);
  Sequence* last = &first;
  for (int32_t choice = 1; choice < request.sampling.choice_count(); ++choice) {
    Sequence& next = add_choice(request, prompt, choice);
    last->next_choice_slot = next.slot;
    last = &next;
  }
  if (trace_ != nullptr) {  // with the salt as given: a replay comes through here again
    const uint64_t own_salt = std::exchange(first.request.cache_salt, given_salt);
    trace_->on_add(first.id, first.request, first.tokens, now);
    first.request.cache_salt = own_salt;
  }
  begin_waiting(first, now);
  record(EventType::Arrive, first, now, first.request.tenant, first.prompt_token_count);
  return first.slot;
}

bool Scheduler::cancel(RequestId request, FinishReason reason, TimeNs now) {
  begin_call(now);
  auto found = slot_of_request_.find(to_integer(request));
  if (found == slot_of_request_.end()) return false;
  if (trace_ != nullptr) trace_->on_cancel(slots_[static_cast<size_t>(found->second)]->id, true, reason, now);
  while (found != slot_of_request_.end()) {
    finish(*slots_[static_cast<size_t>(found->second)], reason, FinishCause::None, now);
    found = slot_of_request_.find(to_integer(request));
  }
  close_up_running();
  return true;
}

bool Scheduler::cancel_choice(RequestId request, int32_t choice, FinishReason reason, TimeNs now) {
  begin_call(now);
  const auto found = slot_of_request_.find(to_integer(request));
  if (found == slot_of_request_.end()) return false;
  for (int32_t slot = found->second; slot >= 0; slot = slots_[static_cast<size_t>(slot)]->next_choice_slot) {
    Sequence& sequence = *slots_[static_cast<size_t>(slot)];
    if (sequence.choice != choice) continue;
    if (trace_ != nullptr) trace_->on_cancel(sequence.id, false, reason, now);
    finish(sequence, reason, FinishCause::None, now);
    close_up_running();
    return true;
  }
  return false;
}

void Scheduler::leave_waiting(Sequence& sequence) {
  sequence.passed_count = 0;
  if (!sequence.request_has_begun()) queued_token_count_ -= sequence.prompt_token_count;
  prefix_watch_.remove(sequence);
  const auto unranked = std::ranges::find(unranked_, &sequence);
  if (unranked != unranked_.end()) {
    unranked_.erase(unranked);
  } else {
    waiting_.remove(&sequence);
  }
}

// Its place in running_ is still to be closed.
void Scheduler::leave_running(Sequence& sequence) {
  free_rows_.push_back(sequence.row);
  if (config_.has_state) drop_states(sequence);
  if (blocks_.has_local_slots()) let_go_of_slots(sequence);
  blocks_.release(sequence.block_table);
  sequence.published_block_count = 0;
  sequence.computed_token_count = 0;
  if (sequence.host_table.empty()) sequence.released_block_count = 0;  // else it comes back as it was
}

// Takes out all that have ended, at once: in order of admission, each one alone would move all behind it.
void Scheduler::close_up_running() {
  std::erase_if(running_, [](const Sequence* sequence) { return sequence->state == SequenceState::Finished; });
}

// Whoever calls it for a running sequence closes up afterwards.
void Scheduler::finish(Sequence& sequence, FinishReason reason, FinishCause cause, TimeNs now) {
  if (sequence.state == SequenceState::Running) {
    leave_running(sequence);
  } else if (sequence.state == SequenceState::Held) {
    --held_count_;
  } else {
    leave_waiting(sequence);
    release_host_blocks(sequence);
  }
  sequence.state = SequenceState::Finished;
  if (sequence.choice == 0) release_held_choices(sequence, now);
  unlink_choice(sequence);
  if (trace_ != nullptr) trace_->on_finish(sequence.id, reason, now);
  const EventType type = cause == FinishCause::RejectedByPolicy ? EventType::Reject
                         : reason == FinishReason::Abort        ? EventType::Abort
                                                                : EventType::Finish;
  record(type, sequence, now, sequence.prompt_token_count, sequence.output_token_count());
  output_.finished.push_back({sequence.request.id, sequence.slot, reason, cause, sequence.id});
  sequence.id = {};  // results on their way to it find nobody
  free_slots_.push_back(sequence.slot);
  switch (reason) {
    case FinishReason::Abort:
      ++stats_.requests_aborted;
      break;
    case FinishReason::Error:
      ++stats_.requests_failed;
      break;
    default:
      ++stats_.requests_finished;
      if (!sequence.pools) output_estimator_.on_finish(sequence.request.tenant, sequence.output_token_count());
  }
}

// Its host blocks may be read by the plan that is being made: they can be written from the next plan on.
void Scheduler::release_host_blocks(Sequence& sequence) {
  std::ranges::copy_if(sequence.host_table, std::back_inserter(host_blocks_to_free_),
                       [](BlockId block) { return block != kNoBlock; });
  sequence.host_table.clear();
  sequence.swapped_token_count = 0;
}

[[gnu::always_inline]] inline bool Scheduler::has_full_block(const Sequence& sequence) const {
  const int32_t usable = std::min(sequence.computed_token_count, static_cast<int32_t>(sequence.tokens.size()));
  return (sequence.published_block_count + 1) * blocks_.block_token_count() <= usable &&
         sequence.published_block_count < shareable_block_count_;
}

KvBlocks::FullBlock Scheduler::next_full_block(Sequence& sequence) {
  const auto width = static_cast<size_t>(blocks_.block_token_count());
  const auto i = static_cast<size_t>(sequence.published_block_count);
  const auto tokens = std::span<const TokenId>(sequence.tokens).subspan(i * width, width);
  const uint64_t salt = sequence.request.cache_salt;
  if (sequence.keys.size() == i) {
    sequence.keys.push_back(child_key(i == 0 ? root_key(salt) : sequence.keys.back(), tokens));
  }
  const BlockId parent = i > 0 ? sequence.block_table[i - 1] : kNoBlock;
  return {.index = sequence.published_block_count,
          .content = {sequence.keys[i], salt, parent, tokens},
          .owner = {.priority = sequence.request.priority, .tenant = sequence.request.tenant}};
}

[[gnu::flatten]] void Scheduler::publish_full_blocks(Sequence& sequence) {
  while (has_full_block(sequence)) {
    constexpr size_t kAhead = 6;
    const size_t ahead = static_cast<size_t>(sequence.published_block_count) + kAhead;
    if (ahead < sequence.keys.size() && ahead < sequence.block_table.size()) {
      blocks_.prefetch_publish(sequence.block_table[ahead], sequence.keys[ahead]);
    }
    if (!blocks_.try_publish(sequence.block_table, next_full_block(sequence))) return;
    ++sequence.published_block_count;
    if (config_.has_state) keep_states(sequence);
  }
}

void Scheduler::publish_or_adopt_full_blocks(Sequence& sequence) {
  while (has_full_block(sequence)) {
    const KvBlocks::FullBlock full = next_full_block(sequence);
    const bool holds_slot = full.index >= sequence.slots_begin && full.index < sequence.slots_end;
    if (!blocks_.try_publish(sequence.block_table, full)) blocks_.adopt_twin(sequence.block_table, full, holds_slot);
    ++sequence.published_block_count;
    if (config_.has_state) keep_states(sequence);
  }
}

namespace {

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// Why the sequence ends with the token that was just appended; None: it goes on.
FinishReason finish_reason_of(const Sequence& sequence) {
  if (sequence.may_stop) {
    const TokenId token = sequence.tokens.back();
    const SamplingParams& sampling = sequence.request.sampling;
    if (!sampling.ignore_eos && contains(sequence.request.end_tokens, token)) return FinishReason::Stop;
    if (contains(sampling.stop_token_ids, token)) return FinishReason::Stop;
  }
  const bool full = static_cast<int32_t>(sequence.tokens.size()) >= sequence.token_limit;
  return full ? FinishReason::Length : FinishReason::None;
}

}  // namespace

void Scheduler::commit(const StepResult& result, TimeNs now) {
  begin_call(now);
  if (trace_ != nullptr) trace_->on_commit(result, now);
  INFLIGHT_CHECK(submitted_count_ > 0);
  Submitted& submitted = submitted_[submitted_first_];
  INFLIGHT_CHECK(result.step == submitted.step && result.sampled.size() == submitted.sampled.size());
  submitted_first_ = (submitted_first_ + 1) % submitted_.size();
  --submitted_count_;

  const size_t ended_before = output_.finished.size(), tokens_before = output_.tokens.size();
  commit_prompt_logprobs(result, submitted);
  const SampledRow* row = submitted.sampled.data();
  for (const SampledToken& sampled : result.sampled) {
    const auto [sequence, id] = *row++;
    if (sequence->id != id) continue;  // it left while the step ran
    INFLIGHT_CHECK(sampled.sequence == id && sequence->unread_token_count > 0);
    --sequence->unread_token_count;
    commit_token(*sequence, sampled, now);
  }
  stats_.output_tokens += static_cast<int64_t>(output_.tokens.size() - tokens_before);
  commit_pooled(result, submitted, now);
  if (output_.finished.size() > ended_before) close_up_running();
  view_.last_step_duration = result.duration;
  view_.last_prefill_tokens = submitted.work.prefill_tokens;
  view_.last_decode_sequences = submitted.work.decode_sequences;
  latency_model_.observe(submitted.work, result.duration);
  if (wants(EventType::Step)) {
    events_.push_back(
        {EventType::Step, 0, 0, now, submitted.work.prefill_tokens, submitted.work.decode_sequences, result.duration});
  }
}

[[gnu::always_inline]] inline void Scheduler::commit_token(Sequence& sequence, const SampledToken& sampled,
                                                           TimeNs now) {
  if (!sampled.valid) {
    const FinishCause cause = sampled.filter_failed ? FinishCause::FilterFailed : FinishCause::NoFiniteLogits;
    finish(sequence, FinishReason::Error, cause, now);
    return;
  }
  INFLIGHT_CHECK(sampled.forced.empty() || sequence.unread_token_count == 0);
  if (sampled.filter_wakes) {
    sequence.filter_wakes_at = sequence.output_token_count() + static_cast<int32_t>(sampled.further.size()) + 2;
    sequence.filtered_from = std::min(sequence.filtered_from, sequence.filter_wakes_at);
  }
  if (append_token(sequence, sampled, now)) return;
  if (config_.num_speculative_tokens > 0 && !sequence.guessed.empty() && commit_drafts(sequence, sampled, now)) return;
  for (const TokenId token : sampled.forced) {
    ++stats_.forced_tokens;
    if (append_token(sequence, {.token = token}, now)) return;
  }
}

// True: the sequence has ended with it.
[[gnu::always_inline]] inline bool Scheduler::append_token(Sequence& sequence, const SampledToken& sampled,
                                                           TimeNs now) {
  INFLIGHT_CHECK(sequence.tokens.size() < sequence.tokens.capacity());  // or entries of steps in flight lose theirs
  sequence.tokens.push_back(sampled.token);
  record(EventType::Tokens, sequence, now, 0, 1);
  sequence.last_token_time = now;
  TokenOutput& output = output_.tokens.emplace_back(
      TokenOutput{.slot = sequence.slot, .token = sampled.token, .logprob = sampled.logprob});
  if (!sampled.top_logprobs.empty()) {
    std::tie(output.top_first, output.top_count) = keep_top_logprobs(sampled.top_logprobs);
  }
  const bool first = sequence.first_token_time == kNotYet;
  const bool fills = sequence.state == SequenceState::Running && has_full_block(sequence);
  const FinishReason reason = finish_reason_of(sequence);
  if (first || fills || reason != FinishReason::None) follow_token(sequence, first, reason, now);
  return reason != FinishReason::None;
}

// What the token that was just appended brings about; most bring about nothing.
void Scheduler::follow_token(Sequence& sequence, bool first, FinishReason reason, TimeNs now) {
  if (first) {
    sequence.first_token_time = now;
    record(EventType::FirstToken, sequence, now);
  }
  if (sequence.state == SequenceState::Running) publish_or_adopt_full_blocks(sequence);
  if (first && sequence.choice == 0) release_held_choices(sequence, now);
  if (reason == FinishReason::None) return;
  output_.tokens.back().ends = true;
  finish(sequence, reason, FinishCause::None, now);
  output_.finished.back().stopped_by_token = reason == FinishReason::Stop;
}

// The tokens that follow the first one, which has been appended.   True: the sequence has ended with one of them.
bool Scheduler::commit_drafts(Sequence& sequence, const SampledToken& sampled, TimeNs now) {
  note_drafts(sequence, sampled);
  const size_t width = sampled.top_logprobs.size();
  for (size_t i = 0; i < sampled.further.size(); ++i) {
    ++sequence.computed_token_count;  // the token before it was a guess: its K and V are stored
    const SampledToken further{.token = sampled.further[i].token,
                               .logprob = sampled.further[i].logprob,
                               .top_logprobs = sampled.further_top_logprobs.subspan(i * width, width)};
    if (append_token(sequence, further, now)) return true;
  }
  return false;
}

// A simulated step brings no numbers; the request ends all the same.
void Scheduler::commit_pooled(const StepResult& result, const Submitted& submitted, TimeNs now) {
  for (const SampledRow& row : submitted.pooled) {
    Sequence& sequence = *row.sequence;
    if (sequence.id != row.id) continue;  // it left while the step ran
    const auto pooled = std::ranges::find(result.pooled, row.id, &PooledHidden::sequence);
    if (pooled != result.pooled.end()) {
      output_.embeddings.push_back({sequence.slot, {pooled->values.begin(), pooled->values.end()}});
    }
    sequence.last_token_time = now;
    const bool discards = sequence.request.pooling == Pooling::Discard;
    finish(sequence, discards ? FinishReason::Length : FinishReason::Stop, FinishCause::None, now);
  }
}

void Scheduler::commit_prompt_logprobs(const StepResult& result, const Submitted& submitted) {
  auto row = submitted.told.begin();  // in the same order
  for (const PromptLogprob& prompt : result.prompt_logprobs) {
    row = std::find_if(row, submitted.told.end(), [&](const SampledRow& one) { return one.id == prompt.sequence; });
    INFLIGHT_CHECK(row != submitted.told.end());
    Sequence& sequence = *row->sequence;
    if (sequence.id != row->id) continue;  // it left while the step ran
    const auto [top_first, top_count] = keep_top_logprobs(prompt.top_logprobs);
    output_.prompt_logprobs.push_back({sequence.slot, prompt.position, prompt.logprob, top_first, top_count});
  }
}

std::pair<int32_t, int32_t> Scheduler::keep_top_logprobs(std::span<const TokenLogprob> top) {
  if (top.empty()) return {};
  const auto first = static_cast<int32_t>(output_.top_logprobs.size());
  output_.top_logprobs.insert(output_.top_logprobs.end(), top.begin(), top.end());
  return {first, static_cast<int32_t>(top.size())};
}

void Scheduler::put_event(EventType type, const Sequence& sequence, TimeNs now, int64_t a, int64_t b, int64_t c) {
  events_.push_back({type, static_cast<uint32_t>(sequence.slot), to_integer(sequence.id), now, a, b, c});
}

void Scheduler::set_policy(SchedulePolicy& policy, TimeNs now) {
  if (!events_.empty()) policy_->on_events(events_);  // what happened until now concerns the old one
  events_.clear();
  hand_policy_to(policy);
  for (const auto& sequence : slots_) {
    if (sequence->state != SequenceState::Finished && sequence->state != SequenceState::Held) {
      const bool admitted = sequence->state != SequenceState::Waiting;
      record(EventType::Attach, *sequence, now, sequence->request.tenant, sequence->prompt_token_count,
             admitted ? sequence->output_token_count() : -1);
    }
  }
}

void Scheduler::hand_policy_to(SchedulePolicy& policy) {
  policy_ = &policy;
  wanted_events_ = policy.wanted_events();
  std::erase_if(events_, [this](const SchedulerEvent& event) { return !wants(event.type); });
  forget_ranks();
  watch_prefixes_if_wanted();
}

void Scheduler::hand_policy_back(SchedulePolicy& policy) {
  std::erase_if(events_, [](const SchedulerEvent& event) { return event.type == EventType::Attach; });
  hand_policy_to(policy);
}

void Scheduler::check_invariants() const {
  blocks_.check_invariants();
  prefix_watch_.check_invariants();
  if (host_tier_) host_tier_->check_invariants();
  kept_states_.check_invariants();
  int32_t states_on_their_way = 0;
  std::vector<int32_t> references(static_cast<size_t>(blocks_.pool().block_count()), 0);
  std::vector<int32_t> slot_holders(references.size());
  for (size_t i = 0; i < slot_holders.size(); ++i) {
    slot_holders[i] = blocks_.local_slots().holders(static_cast<BlockId>(i));
  }
  size_t live = 0;
  int32_t host_used = 0, held = 0;
  for (const auto& slot : slots_) {
    const Sequence& sequence = *slot;
    if (sequence.state == SequenceState::Finished) continue;
    ++live;
    const Sequence* choice = slots_[static_cast<size_t>(slot_of_request_.at(to_integer(sequence.request.id)))];
    while (choice != &sequence) choice = slots_.at(static_cast<size_t>(choice->next_choice_slot));
    held += sequence.state == SequenceState::Held;
    INFLIGHT_CHECK(sequence.computed_token_count <= sequence.known_token_count());
    INFLIGHT_CHECK(static_cast<int32_t>(sequence.tokens.size()) < sequence.token_limit);
    INFLIGHT_CHECK(sequence.unread_token_count >= 0 &&
                   sequence.unread_token_count <= static_cast<int32_t>(submitted_count_));
    if (!sequence.host_table.empty()) {
      host_used += static_cast<int32_t>(sequence.host_table.size()) - sequence.released_block_count;
    }
    const bool running = std::ranges::find(running_, &sequence) != running_.end();
    INFLIGHT_CHECK(running == (sequence.state == SequenceState::Running));
    INFLIGHT_CHECK(static_cast<int32_t>(sequence.host_table.size()) == blocks_for(sequence.swapped_token_count));
    if (!running) {
      INFLIGHT_CHECK(sequence.block_table.empty() && sequence.computed_token_count == 0);
      continue;
    }
    INFLIGHT_CHECK(static_cast<int32_t>(sequence.block_table.size()) >= blocks_for(sequence.computed_token_count));
    if (sequence.states) {
      states_on_their_way += static_cast<int32_t>(std::ranges::count_if(
          sequence.states->points, [](const auto& point) { return point.place >= 0 && !point.kept; }));
    }
    const auto released = static_cast<size_t>(sequence.released_block_count);
    INFLIGHT_CHECK(released == 0 || sequence.published_block_count == shareable_block_count_);
    INFLIGHT_CHECK(released == 0 || sequence.released_block_count >= shareable_block_count_);
    for (size_t i = released; i < sequence.block_table.size(); ++i) {
      ++references[static_cast<size_t>(sequence.block_table[i])];
      const bool published = i < static_cast<size_t>(sequence.published_block_count);
      INFLIGHT_CHECK(blocks_.tree().contains(sequence.block_table[i]) == published);
    }
    for (int32_t i = sequence.slots_begin; i < sequence.slots_end; ++i) {
      --slot_holders[static_cast<size_t>(sequence.block_table[static_cast<size_t>(i)])];
    }
  }
  INFLIGHT_CHECK(host_used + static_cast<int32_t>(host_blocks_to_free_.size()) == host_pool_.referenced_count());
  INFLIGHT_CHECK(live >= slot_of_request_.size() && held == held_count_);
  INFLIGHT_CHECK(static_cast<int32_t>(live) == waiting_count() + running_count() + held_count_);
  INFLIGHT_CHECK(kept_states_.taken_count() == states_on_their_way);
  INFLIGHT_CHECK(running_.size() + free_rows_.size() == static_cast<size_t>(capacity_.max_num_seqs));
  for (size_t i = 0; i < references.size(); ++i) {
    INFLIGHT_CHECK(references[i] == blocks_.pool().references(static_cast<BlockId>(i)) && slot_holders[i] == 0);
  }
}

}  // namespace inflight
