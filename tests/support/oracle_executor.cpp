// SPDX-License-Identifier: Apache-2.0
#include "support/oracle_executor.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"

namespace inflight::test {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

uint64_t extend_hash(uint64_t hash, TokenId token) { return mix(hash, static_cast<uint64_t>(token) + 1); }

}  // namespace

TokenId oracle_next_token(const std::vector<TokenId>& tokens, int32_t vocabulary_size, uint64_t seed) {
  uint64_t hash = 77 + seed;
  for (const TokenId token : tokens) hash = extend_hash(hash, token);
  return static_cast<TokenId>(mix(hash, 5) % static_cast<uint64_t>(vocabulary_size));
}

OracleExecutor::OracleExecutor(const Options& options, std::function<SequenceTruth&(SequenceId)> truth,
                               ManualClock* clock)
    : options_(options),
      truth_(std::move(truth)),
      clock_(clock),
      slots_(static_cast<size_t>(options.block_count) * static_cast<size_t>(options.block_token_count)),
      host_slots_(static_cast<size_t>(options.host_block_count) * static_cast<size_t>(options.block_token_count)),
      local_slots_(static_cast<size_t>(options.local_slots) * static_cast<size_t>(options.block_token_count)),
      states_(options.has_state ? static_cast<size_t>(options.row_count + options.kept_states) : 0),
      row_tokens_(static_cast<size_t>(options.row_count), -1),
      tops_(kTopCount * limits::kDraftTokensMax, {7, -0.5F}) {}

OracleExecutor::Slot& OracleExecutor::slot_of(const BatchEntry& entry, int32_t position) {
  const int32_t width = options_.block_token_count;
  const BlockId block = entry.block_table[static_cast<size_t>(position / width)];
  const int32_t index = to_integer(block) * width + position % width;
  INFLIGHT_CHECK(to_integer(block) >= 0 && to_integer(block) < options_.block_count);
  return slots_[static_cast<size_t>(index)];
}

// As the plan that is being run names its slot.
std::span<OracleExecutor::Slot> OracleExecutor::local_block(BlockId block) {
  const int32_t slot = last_plan_.local_slots[static_cast<size_t>(block)];
  INFLIGHT_CHECK(slot >= 0 && slot < options_.local_slots);
  const auto width = static_cast<size_t>(options_.block_token_count);
  return std::span(local_slots_).subspan(static_cast<size_t>(slot) * width, width);
}

OracleExecutor::Slot& OracleExecutor::local_slot_of(const BatchEntry& entry, int32_t position) {
  const int32_t width = options_.block_token_count;
  return local_block(entry.block_table[static_cast<size_t>(position / width)])[static_cast<size_t>(position % width)];
}

void OracleExecutor::move_blocks(const BatchPlan& plan) {
  const auto width = static_cast<size_t>(options_.block_token_count);
  const auto block = [width](std::vector<Slot>& slots, BlockId id) {
    return std::span(slots).subspan(static_cast<size_t>(id) * width, width);
  };
  for (const SwapCopy& copy : plan.swap_out) {
    INFLIGHT_CHECK(copy.device != kNoBlock && copy.host != kNoBlock);
    std::ranges::copy(block(slots_, copy.device), block(host_slots_, copy.host).begin());
  }
  for (const SwapCopy& copy : plan.swap_in) {
    std::ranges::copy(block(host_slots_, copy.host), block(slots_, copy.device).begin());
  }
  for (const BlockCopy& copy : plan.copies) {
    INFLIGHT_CHECK(copy.from != copy.to);
    ++copied_block_count_;
    std::ranges::copy(block(slots_, copy.from), block(slots_, copy.to).begin());
    if (options_.local_slots > 0) std::ranges::copy(local_block(copy.from), local_block(copy.to).begin());
  }
}

// Each begins with the state of its tokens so far, from a place that no entry of the step overwrites.
void OracleExecutor::check_states(const BatchPlan& plan) const {
  std::set<int32_t> left;
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(entry.states == nullptr || options_.has_state);
    for (int32_t i = 0; entry.states != nullptr && i < entry.states->kept_count; ++i) {
      const StateMoves::Kept& kept = entry.states->kept.at(static_cast<size_t>(i));
      INFLIGHT_CHECK(left.insert(kept.place).second && kept.place >= 0 && kept.place < options_.kept_states);
      INFLIGHT_CHECK(kept.token_count > (i > 0 ? entry.states->kept.at(static_cast<size_t>(i) - 1).token_count : 0));
      INFLIGHT_CHECK(kept.token_count <= entry.scheduled_token_count);
    }
  }
  for (const BatchEntry& entry : plan.entries) {
    const SequenceTruth& truth = truth_(entry.sequence);
    uint64_t hash = truth.salt;
    for (int32_t i = 0; i < entry.computed_token_count; ++i) {
      hash = extend_hash(hash, truth.tokens[static_cast<size_t>(i)]);
    }
    const int32_t place = entry.states != nullptr ? entry.states->from : -1;
    INFLIGHT_CHECK(!left.contains(place));
    const size_t slot = static_cast<size_t>(place >= 0 ? options_.row_count + place : entry.row);
    INFLIGHT_CHECK((place < 0 && entry.computed_token_count == 0) || states_.at(slot) == hash);
  }
}

void OracleExecutor::leave_states(const BatchEntry& entry) {
  const auto hash_at = [&](int32_t position) { return slot_of(entry, position - 1).prefix_hash; };
  states_[static_cast<size_t>(entry.row)] = hash_at(entry.context_token_count());
  if (entry.states == nullptr) return;
  moved_state_count_ += entry.states->from >= 0;
  for (int32_t i = 0; i < entry.states->kept_count; ++i) {
    const StateMoves::Kept& kept = entry.states->kept.at(static_cast<size_t>(i));
    states_[static_cast<size_t>(options_.row_count + kept.place)] =
        hash_at(entry.computed_token_count + kept.token_count);
  }
}

void OracleExecutor::write(const BatchEntry& entry) {
  SequenceTruth& truth = truth_(entry.sequence);
  const int32_t begin = entry.computed_token_count, end = entry.context_token_count();
  INFLIGHT_CHECK(entry.scheduled_token_count >= 1 && begin >= 0);
  INFLIGHT_CHECK(static_cast<int32_t>(entry.tokens.size()) ==
                 entry.scheduled_token_count - (entry.input_on_device ? 1 : 0));
  INFLIGHT_CHECK(static_cast<int32_t>(entry.block_table.size()) >= div_ceil(end, options_.block_token_count));
  INFLIGHT_CHECK(static_cast<int32_t>(truth.tokens.size()) >= end - entry.draft_token_count);
  uint64_t hash = truth.salt;
  for (int32_t i = 0; i < begin; ++i) hash = extend_hash(hash, truth.tokens[static_cast<size_t>(i)]);
  for (int32_t i = begin; i < end; ++i) {
    const auto offset = static_cast<size_t>(i - begin);
    const TokenId token =
        offset < entry.tokens.size() ? entry.tokens[offset] : row_tokens_.at(static_cast<size_t>(entry.row));
    const bool guessed = i >= end - entry.draft_token_count;
    INFLIGHT_CHECK(guessed || token == truth.tokens[static_cast<size_t>(i)]);
    hash = extend_hash(hash, token);
    slot_of(entry, i) = {token, i, hash};
    if (options_.local_slots > 0) local_slot_of(entry, i) = {token, i, hash};
  }
  computed_token_count_ += entry.scheduled_token_count;
}

void OracleExecutor::check(const BatchEntry& entry) {
  const SequenceTruth& truth = truth_(entry.sequence);
  uint64_t hash = truth.salt;
  const int32_t window = options_.sliding_window;
  const int32_t first_seen = window > 0 ? std::max(entry.computed_token_count - window + 1, 0) : 0;
  const int32_t first_local = std::max(entry.computed_token_count - options_.local_window + 1, 0);
  for (int32_t i = 0; i < entry.sampled_position(); ++i) {
    const TokenId token = truth.tokens[static_cast<size_t>(i)];
    hash = extend_hash(hash, token);
    if (i < first_seen) continue;
    const Slot& slot = slot_of(entry, i);
    INFLIGHT_CHECK(slot.position == i && slot.token == token && slot.prefix_hash == hash);
    ++checked_slot_count_;
    if (options_.local_slots == 0 || i < first_local) continue;
    const Slot& local = local_slot_of(entry, i);
    INFLIGHT_CHECK(local.position == i && local.token == token && local.prefix_hash == hash);
  }
}

void OracleExecutor::tell_logprobs(const BatchEntry& entry, StepResult& result) {
  const int32_t first = entry.first_told_position(), end = first + entry.prompt_logprobs_wanted;
  INFLIGHT_CHECK(first > entry.computed_token_count && end <= entry.prompt_token_count);
  INFLIGHT_CHECK(end <= entry.context_token_count() + 1);
  for (int32_t p = first; p < end; ++p) {
    result.prompt_logprobs.push_back({.sequence = entry.sequence,
                                      .position = p,
                                      .logprob = -static_cast<float>(p),
                                      .top_logprobs = std::span(tops_).first(kTopCount)});
  }
}

// What the host knew of the sequence's tokens.
void OracleExecutor::check_history(const BatchEntry& entry) {
  const SequenceTruth& truth = truth_(entry.sequence);
  const std::span<const TokenId> known_tokens = entry.history->known_tokens;
  const size_t known = known_tokens.size();
  INFLIGHT_CHECK(known >= static_cast<size_t>(entry.prompt_token_count) && known <= truth.tokens.size());
  INFLIGHT_CHECK(std::ranges::equal(known_tokens, std::span(truth.tokens).first(known)));
  INFLIGHT_CHECK(!entry.needs_host() || std::ssize(known_tokens) == entry.sampled_position());
}

void OracleExecutor::submit(const BatchPlan& plan) {
  INFLIGHT_CHECK(!plan.empty());
  INFLIGHT_CHECK(results_.size() < static_cast<size_t>(kStepsInFlightMax));
  std::set<int32_t> rows;
  int32_t tokens = 0;
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(rows.insert(entry.row).second && entry.row >= 0 && entry.row < options_.row_count);
    tokens += entry.scheduled_token_count;
  }
  INFLIGHT_CHECK(tokens == plan.scheduled_token_count && tokens <= options_.token_budget);
  last_plan_ = plan;
  move_blocks(plan);
  if (options_.has_state) check_states(plan);
  for (const BatchEntry& entry : plan.entries) write(entry);
  for (const BatchEntry& entry : plan.entries) {
    if (options_.has_state) leave_states(entry);
  }
  for (const BatchEntry& entry : plan.entries) check(entry);

  StepResult result{.step = plan.step, .sampled = {}, .duration = 1000 + 10 * tokens};
  std::vector<TokenLogprob>& further = further_.emplace_back();
  further.reserve(static_cast<size_t>(tokens));  // spans point into it
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(!entry.needs_host() || (entry.samples && plan.read_before_next));
    INFLIGHT_CHECK(entry.history != nullptr || !entry.needs_host());
    if (entry.history != nullptr) check_history(entry);
    if (entry.prompt_logprobs_wanted > 0) tell_logprobs(entry, result);
    if (!entry.samples) continue;
    SequenceTruth& truth = truth_(entry.sequence);
    const auto token_at = [&](size_t position) {
      if (truth.tokens.size() == position) {
        truth.tokens.push_back(oracle_next_token(truth.tokens, options_.vocabulary_size, entry.sampling->seed));
      }
      return truth.tokens[position];
    };
    const auto context = static_cast<size_t>(entry.sampled_position());
    const TokenId token = token_at(context);
    INFLIGHT_CHECK(entry.draft_token_count == 0 || (entry.phase == Phase::Decode && !entry.input_on_device));
    INFLIGHT_CHECK(entry.draft_token_count == 0 || !entry.host_samples);
    INFLIGHT_CHECK(entry.draft_token_count <= options_.draft_tokens);
    const size_t begin = further.size();
    verify_drafts(entry.drafts(), token, further,
                  [&](size_t i) { return TokenLogprob{token_at(context + 1 + i), -1.0F}; });
    accepted_count_ += static_cast<int64_t>(further.size() - begin);
    // What the host has a part in is never read from the device.
    row_tokens_[static_cast<size_t>(entry.row)] = entry.needs_host() ? -1 : token;
    host_sampled_count_ += entry.needs_host();
    result.sampled.push_back({.sequence = entry.sequence,
                              .token = token,
                              .logprob = -1.0F,
                              .valid = true,
                              .further = std::span(further).subspan(begin)});
    if (entry.needs_host()) {
      const std::span<const TokenLogprob> tops = tops_;
      result.sampled.back().top_logprobs = tops.first(kTopCount);
      result.sampled.back().further_top_logprobs = tops.first(kTopCount * (further.size() - begin));
    }
  }
  INFLIGHT_CHECK(static_cast<int32_t>(result.sampled.size()) == plan.sampled_row_count);
  results_.push_back(std::move(result));
}

const StepResult& OracleExecutor::wait() {
  INFLIGHT_CHECK(!results_.empty());
  current_ = std::move(results_.front());
  results_.pop_front();
  current_further_ = std::move(further_.front());
  further_.pop_front();
  if (clock_ != nullptr) clock_->advance(current_.duration);
  return current_;
}

}  // namespace inflight::test
