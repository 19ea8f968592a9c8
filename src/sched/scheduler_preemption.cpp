// SPDX-License-Identifier: Apache-2.0
// Taking blocks from running sequences: who, how, and how much.
//
// Why everybody finishes (I5). Out of blocks: the victim is never running_.front() unless that is the only one, so the
// oldest running sequence computes a token in every step until it ends, then the next becomes the oldest; a step that
// preempts admits nobody, and alone a sequence always fits (max_model_len <= pool). By priority: the victim is strictly
// less important than who replaces it, so no two can replace each other in turn.
#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "sched/scheduler.h"

namespace inflight {

Sequence& Scheduler::choose_victim(const Need& need) {
  update_view();
  victims_.clear();
  policy_->pick_victims(view_, need, victims_);
  for (Sequence* const victim : victims_) {
    if (victim != running_.front()) return *victim;
  }
  return victim_by_rule();
}

Sequence& Scheduler::victim_by_rule() {
  // Ties go to the last admitted: the comparison is strict and the search begins at the back.
  const auto best = [this](auto&& better) -> Sequence& {
    Sequence* victim = running_.back();
    for (size_t i = running_.size() - 1; i-- > 1;) {
      if (better(*running_[i], *victim)) victim = running_[i];
    }
    return *victim;
  };
  using S = const Sequence&;
  switch (config_.preempt_victim) {
    case VictimRule::LastAdmitted:
      break;
    case VictimRule::LowestPriority:
      return best([](S a, S b) { return a.request.priority > b.request.priority; });
    case VictimRule::FewestOutput:
      return best([](S a, S b) {
        if (a.output_token_count() != b.output_token_count()) return a.output_token_count() < b.output_token_count();
        return a.prompt_token_count > b.prompt_token_count;
      });
    case VictimRule::MostFreeable:
      return best(
          [this](S a, S b) { return blocks_.freeable_count(a.block_table) > blocks_.freeable_count(b.block_table); });
    case VictimRule::Cheapest:
      return best([this](S a, S b) { return cost_of_losing(a) < cost_of_losing(b); });
  }
  return *running_.back();
}

// Time to compute what the victim loses, beside other work of a step; 0 while nothing is known of the machine.
TimeNs Scheduler::recompute_time(const Sequence& victim) const {
  const int32_t count = victim.computed_token_count;
  return latency_model_.estimate({.prefill_tokens = count, .prefill_pairs = attended_tokens(0, count)}) -
         latency_model_.estimate({});
}

// To host memory and back.
TimeNs Scheduler::swap_time(const Sequence& victim) const {
  const int32_t blocks = blocks_for(victim.computed_token_count) - victim.released_block_count;
  return latency_model_.estimate({.swapped_blocks = 2 * blocks}) - latency_model_.estimate({});
}

// Time to bring the victim back, for each block that losing it frees.
double Scheduler::cost_of_losing(const Sequence& victim) const {
  const auto freeable = static_cast<double>(std::max(blocks_.freeable_count(victim.block_table), 1));
  if (latency_model_.observation_count() == 0) return victim.computed_token_count / freeable;
  return static_cast<double>(swaps(victim) ? swap_time(victim) : recompute_time(victim)) / freeable;
}

// Copying pays when there and back is faster than computing again. Published blocks may still be stored when the
// sequence comes back, but who is preempted for lack of blocks cannot count on it.
bool Scheduler::swaps(const Sequence& victim) const {
  const int32_t blocks = blocks_for(victim.computed_token_count) - victim.released_block_count;
  if (config_.preempt == PreemptMode::Recompute || blocks == 0 || blocks > host_pool_.free_count()) return false;
  return config_.preempt == PreemptMode::Swap || swap_time(victim) < recompute_time(victim);
}

void Scheduler::swap_out(Sequence& victim) {
  victim.swapped_token_count = victim.computed_token_count;
  const auto count = static_cast<size_t>(blocks_for(victim.computed_token_count));
  const auto released = static_cast<size_t>(victim.released_block_count);
  victim.host_table.assign(released, kNoBlock);
  for (size_t i = released; i < count; ++i) {
    const auto host = host_pool_.try_take();
    INFLIGHT_CHECK(host.has_value());
    victim.host_table.push_back(*host);
    plan_.swap_out.push_back({victim.block_table[i], *host});
  }
  stats_.swapped_out_blocks += static_cast<int64_t>(count - released);
}

void Scheduler::preempt(Sequence& victim, bool for_another, TimeNs now) {
  unschedule(victim);
  PreemptedOutput note{.request = victim.request.id,
                       .sequence = victim.id,
                       .lost_tokens = victim.computed_token_count,
                       .blocks_used_before = blocks_.pool().referenced_count(),
                       .for_another = for_another};
  if (swaps(victim)) swap_out(victim);
  if (!victim.host_table.empty()) {
    note.swapped_blocks = static_cast<int32_t>(victim.host_table.size()) - victim.released_block_count;
  }
  victim.lost_token_count = victim.computed_token_count;
  if (victim.remaining_token_count() > 1) --view_.prefilling_count;
  leave_running(victim);
  std::erase(running_, &victim);
  note.blocks_used_after = blocks_.pool().referenced_count();
  output_.preempted.push_back(note);
  if (trace_ != nullptr) preemptions_.push_back({victim.id, note.lost_tokens, note.swapped_blocks});
  victim.state = SequenceState::Preempted;
  ++victim.preemption_count;
  ++stats_.preemptions;
  stats_.preemptions_for_others += for_another;
  begin_waiting(victim, now);
  record(EventType::Preempt, victim, now, victim.lost_token_count);
}

// Who is admitted or computes part of its prompt in this very plan stays: others may already build on the blocks that
// it has published. So does whose block is being copied.
bool Scheduler::may_leave_plan(const Sequence& sequence) const {
  if (sequence.admission_step == plan_.step || sequence.fork_step == plan_.step) return false;
  const auto place = std::ranges::find(scheduled_, &sequence);
  return place == scheduled_.end() ||
         plan_.entries[static_cast<size_t>(place - scheduled_.begin())].phase == Phase::Decode;
}

// Into victims_: running sequences that are less important than the candidate by more than the threshold, least
// important and last admitted first.
void Scheduler::find_less_important(const Sequence& candidate) {
  victims_.clear();
  if (!config_.priority_preemption_threshold) return;
  for (size_t i = running_.size(); i-- > 0;) {
    const int64_t difference = int64_t{running_[i]->request.priority} - candidate.request.priority;
    if (difference > *config_.priority_preemption_threshold) victims_.push_back(running_[i]);
  }
  std::ranges::stable_sort(victims_, std::ranges::greater{}, [](const Sequence* s) { return s->request.priority; });
}

// Into victims_: whom the policy gives up for the candidate. The oldest running sequence is not its to give (I5).
void Scheduler::ask_policy_for_victims(const Sequence& candidate, int32_t wanted_blocks) {
  update_view();
  victims_.clear();
  policy_->pick_victims(view_, {.reason = NeedReason::Priority, .blocks = wanted_blocks, .sequence = &candidate},
                        victims_);
  std::erase(victims_, running_.front());
}

// The adapter whose running sequences are all among victims_; of several the one that is given up first in their order.
// 0: none is.
uint32_t Scheduler::adapter_to_give_up() const {
  if (victims_.empty() || static_cast<int32_t>(adapters_.size()) > config_.max_loras) return 0;
  std::vector<int64_t> left;  // by adapters_: running sequences that are not given up
  for (const uint32_t adapter : adapters_) left.push_back(std::ranges::count(running_, adapter, &Sequence::adapter));
  for (const Sequence* victim : victims_) {
    const auto place = std::ranges::find(adapters_, victim->adapter);
    if (place != adapters_.end() && --left[static_cast<size_t>(place - adapters_.begin())] == 0) return *place;
  }
  return 0;
}

// Frees an adapter's place, a row and a token, and room for `candidate`, whatever it lacks, at the cost of as few of
// victims_ as are needed, in their order. False, and nothing is done, when all of them would not be enough.
bool Scheduler::make_room_for(const Sequence& candidate, int32_t wanted_blocks, TimeNs now) {
  std::erase_if(victims_, [this](const Sequence* victim) { return !may_leave_plan(*victim); });
  size_t of_adapter = 0;  // of victims_, the first
  if (!has_adapter_place(candidate)) {
    const uint32_t adapter = adapter_to_give_up();
    if (adapter == 0) return false;
    const auto others = std::ranges::stable_partition(
        victims_, [adapter](const Sequence* victim) { return victim->adapter == adapter; });
    of_adapter = victims_.size() - others.size();
  }
  // A victim's blocks that the candidate shares stay in use.
  const auto freed_by = [this](const Sequence& victim) {
    const auto table = std::span(victim.block_table);
    const auto own = std::ranges::mismatch(table, matched_).in1;
    return blocks_.freeable_count(std::span(own, table.end()));
  };
  Room room = this->room();
  int32_t tokens = tokens_left_;
  size_t count = 0;
  const auto enough = [&] {
    return count >= of_adapter && room.running < config_.max_num_seqs && tokens > 0 &&
           has_room_for(candidate, wanted_blocks, room);
  };
  while (!enough()) {
    if (count == victims_.size()) return false;
    const Sequence& victim = *victims_[count++];
    --room.running;
    room.available += freed_by(victim);
    room.reserved_tokens -= static_cast<int64_t>(limits_.reserve_ratio * expected_growth(victim));
    tokens += std::ranges::find(scheduled_, &victim) != scheduled_.end();
  }
  reserved_tokens_ = room.reserved_tokens;
  for (size_t i = 0; i < count; ++i) preempt(*victims_[i], true, now);
  adapters_.clear();
  for (const Sequence* sequence : running_) note_adapter(*sequence);
  return true;
}

}  // namespace inflight
