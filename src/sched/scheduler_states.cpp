// SPDX-License-Identifier: Apache-2.0
// Sequences that have a state besides K and V, which lies in their row. A prefix's blocks can be shared up to any of
// them, its state only where somebody left a copy (cache/kept_states.h). A sequence leaves one
//   - where the prefix that it shares with others ends: who comes next with that prefix begins there;
//   - behind the last whole block that ends kTailTokens before its newest token: who repeats the request, or goes on
//     from it, begins there. The last tokens of a chat's prompt, by which it asks for an answer, are not in the next;
//   - behind each whole block of its output, in the place of the one before: a next turn with the answer in it begins
//     behind the last of these.
// Blocks between its own beginning and the first of these points are computed again, though their K and V were found.
// A state is there for the steps after the one that computes it; who could begin with one that is on its way waits.
#include <algorithm>
#include <memory>
#include <utility>

#include "sched/scheduler.h"

namespace inflight {
namespace {

constexpr int32_t kTailTokens = 16;

}  // namespace

// Of matched_, what is before the last kept state.
void Scheduler::match_state() {
  matched_block_count_ = static_cast<int32_t>(matched_.size());
  state_match_ = kept_states_.find(matched_, plan_.step);
  matched_.resize(static_cast<size_t>(state_match_.block_count));
}

void Scheduler::begin_states(Sequence& sequence) {
  if (sequence.states == nullptr) sequence.states = std::make_unique<SequenceStates>();
  SequenceStates& states = *sequence.states;
  states.from = state_match_.place;
  states.points.clear();
  if (states.from >= 0) kept_states_.use(states.from, plan_.step);
  if (!blocks_.prefix_caching()) return;
  const auto before_tail = static_cast<int32_t>(sequence.tokens.size()) - 1 - kTailTokens;
  const auto skippable = static_cast<int32_t>(sequence.skippable_block_count(blocks_.block_token_count()));
  const int32_t last = std::clamp(before_tail / blocks_.block_token_count(), 0, skippable);
  for (const int32_t count : {matched_block_count_, last}) {
    const int32_t before = states.points.empty() ? state_match_.block_count : states.points.back().block_count;
    if (count > before) states.points.push_back({.block_count = count});
  }
}

void Scheduler::add_state_moves(Sequence& sequence, BatchEntry& entry) {
  SequenceStates& states = *sequence.states;
  StateMoves& moves = states.moves;
  moves = {.from = std::exchange(states.from, -1)};
  const int32_t begin = entry.computed_token_count, end = entry.context_token_count();
  const int32_t width = blocks_.block_token_count();
  std::erase_if(states.points, [&](SequenceStates::Point& point) {
    const int32_t position = point.block_count * width;
    if (position <= begin || position > end) return false;
    const auto place = kept_states_.take(plan_.step);
    if (!place) return true;
    point.place = *place;
    point.step = plan_.step;
    moves.kept[static_cast<size_t>(moves.kept_count++)] = {.token_count = position - begin, .place = *place};
    return false;
  });
  const bool fills_block = end / width > begin / width;
  if (begin >= sequence.prompt_token_count && fills_block && moves.kept_count == 0) leave_output_state(sequence, entry);
  if (moves.from >= 0 || moves.kept_count > 0) entry.states = &moves;
}

// REQUIRES: the entry computes nothing but output tokens, among them the last one of a block.
void Scheduler::leave_output_state(Sequence& sequence, const BatchEntry& entry) {
  if (!blocks_.prefix_caching()) return;
  std::vector<SequenceStates::Point>& points = sequence.states->points;
  const auto kept = std::ranges::find_if(points, [](const auto& point) { return point.of_output && point.kept; });
  const auto block_of = [&](const auto& point) {
    return sequence.block_table[static_cast<size_t>(point.block_count) - 1];
  };
  const auto place =
      kept != points.end() ? kept_states_.take_that_of(block_of(*kept), plan_.step) : kept_states_.take(plan_.step);
  if (kept != points.end()) points.erase(kept);
  if (!place) return;
  const int32_t width = blocks_.block_token_count(), count = entry.context_token_count() / width;
  points.push_back({.block_count = count, .place = *place, .step = plan_.step, .of_output = true});
  StateMoves& moves = sequence.states->moves;
  moves.kept.at(static_cast<size_t>(moves.kept_count++)) = {.token_count = count * width - entry.computed_token_count,
                                                            .place = *place};
}

// The sequence's last published block is in the tree: the state behind it can be found, if it is one of those kept.
void Scheduler::keep_states(Sequence& sequence) {
  for (SequenceStates::Point& point : sequence.states->points) {
    if (point.place < 0 || point.kept || point.block_count != sequence.published_block_count) continue;
    kept_states_.keep(point.place, sequence.block_table[static_cast<size_t>(point.block_count) - 1]);
    point.kept = true;
  }
}

void Scheduler::drop_states(Sequence& sequence) {
  for (const SequenceStates::Point& point : sequence.states->points) {
    if (point.place >= 0 && !point.kept) kept_states_.give_back(point.place);
  }
  sequence.states->points.clear();
  sequence.states->from = -1;
}

void Scheduler::note_states_to_come(const Sequence& sequence) {
  for (const SequenceStates::Point& point : sequence.states->points) {
    if (point.of_output || (point.kept && point.step < plan_.step)) continue;
    states_to_come_.push_back({sequence.keys[static_cast<size_t>(point.block_count) - 1], point.block_count});
  }
}

bool Scheduler::is_state_to_come(const Sequence& sequence, size_t skippable) const {
  // Where a batch is fixed at its start, whoever waits misses the batch.
  if (config_.batching == BatchingMode::Static || config_.batching == BatchingMode::Dynamic) return false;
  return std::ranges::any_of(states_to_come_, [&](const StateToCome& state) {
    const auto count = static_cast<size_t>(state.block_count);
    return count <= skippable && state.block_count > state_match_.block_count && sequence.keys[count - 1] == state.key;
  });
}

}  // namespace inflight
