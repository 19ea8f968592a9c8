// SPDX-License-Identifier: Apache-2.0
// Several answers to one prompt (n, best_of): each is a sequence of its own; only the first computes the prompt.
//
// The further choices are held until the first has its first token. Then they wait like any other sequence, and who is
// admitted while the first still runs shares its whole prompt blocks and copies the partly filled one (copy-on-write:
// the first goes on writing into it). What is left to compute is the prompt's last token, for its logits: the choice's
// own first draw. When the first choice is gone or preempted by then, or the model has states, which are not in blocks,
// they find the prompt as anybody would: in the radix tree, or by computing it.
//
// Half-open ranges of a forked choice's tokens, P = prompt tokens, w = blocks before the one of token P - 1:
//   [0, w * B)       in blocks shared with the first choice
//   [w * B, P - 1)   copied into a block of its own before the step's tokens are computed
//   [P - 1, P)       computed again in the same step, with the same bits
#include <algorithm>
#include <limits>

#include "sched/scheduler.h"

namespace inflight {

Sequence& Scheduler::add_choice(const Request& request, std::span<const TokenId> prompt, int32_t choice) {
  Sequence& sequence = *take_slot();
  sequence.id = static_cast<SequenceId>(next_sequence_id_++);
  sequence.choice = choice;
  sequence.prompt_token_count = static_cast<int32_t>(prompt.size());
  // A prompt that nothing comes after may fill the context, and is below its limit all the same.
  const int64_t context = int64_t{config_.max_model_len} + (request.pooling != Pooling::None ? 1 : 0);
  sequence.token_limit =
      static_cast<int32_t>(std::min(int64_t{sequence.prompt_token_count} + request.sampling.max_tokens, context));
  sequence.tokens.reserve(static_cast<size_t>(sequence.token_limit));
  sequence.tokens.assign(prompt.begin(), prompt.end());
  sequence.block_table.reserve(static_cast<size_t>(blocks_for(sequence.token_limit)));
  sequence.request = request;
  sequence.request.sampling.seed = choice_seed(request.sampling.seed, choice);
  if (choice > 0) {
    sequence.request.sampling.prompt_logprobs = -1;  // the first one tells
    sequence.state = SequenceState::Held;
    ++held_count_;
  } else {
    sequence.state = SequenceState::Waiting;
  }
  sequence.draft_limit = config_.num_speculative_tokens;
  sequence.adapter = request.adapter;
  sequence.pools = request.pooling != Pooling::None;
  sequence.may_stop = !request.end_tokens.empty() || !request.sampling.stop_token_ids.empty();
  const bool filtered = request.is_filtered_throughout();
  sequence.filtered_from = filtered ? 0 : std::numeric_limits<int32_t>::max();
  sequence.may_need_host = filtered || request.has_token_filter || request.sampling.needs_logits();
  sequence.plain = !sequence.pools && !sequence.may_need_host && !request.sampling.changes_logits(0) &&
                   sequence.request.sampling.prompt_logprobs < 0;
  if (blocks_.prefix_caching()) {
    const auto width = static_cast<size_t>(blocks_.block_token_count());
    const auto most = static_cast<size_t>(shareable_block_count_);
    sequence.keys.reserve(std::min(static_cast<size_t>(sequence.token_limit) / width, most));
    PrefixKey key = root_key(request.cache_salt);
    for (size_t end = width; end <= prompt.size() && sequence.keys.size() < most; end += width) {
      key = child_key(key, prompt.subspan(end - width, width));
      sequence.keys.push_back(key);
    }
  }
  ++stats_.requests_added;
  return sequence;
}

void Scheduler::unlink_choice(Sequence& sequence) {
  const auto found = slot_of_request_.find(to_integer(sequence.request.id));
  int32_t* link = &found->second;
  while (*link != sequence.slot) link = &slots_[static_cast<size_t>(*link)]->next_choice_slot;
  *link = sequence.next_choice_slot;
  sequence.next_choice_slot = -1;
  if (found->second < 0) slot_of_request_.erase(found);
}

// Null when it has left.
Sequence* Scheduler::first_choice_of(const Sequence& sequence) {
  Sequence& head = *slots_[static_cast<size_t>(slot_of_request_.at(to_integer(sequence.request.id)))];
  return head.choice == 0 ? &head : nullptr;
}

void Scheduler::release_held_choices(const Sequence& first, TimeNs now) {
  for (int32_t slot = first.next_choice_slot; slot >= 0; slot = slots_[static_cast<size_t>(slot)]->next_choice_slot) {
    Sequence& choice = *slots_[static_cast<size_t>(slot)];
    if (choice.state != SequenceState::Held) continue;
    --held_count_;
    choice.state = SequenceState::Waiting;
    begin_waiting(choice, now);
    record(EventType::Arrive, choice, now, choice.request.tenant, choice.prompt_token_count);
  }
}

// Into matched_: the prompt's blocks before that of its last token, as the first choice holds them. False: it cannot be
// forked, now or any more.
bool Scheduler::match_first_choice(const Sequence& sequence) {
  forked_from_ = nullptr;
  if (sequence.choice == 0 || sequence.state != SequenceState::Waiting || config_.has_state) return false;
  Sequence* const first = first_choice_of(sequence);
  // One that comes back in this very step may share blocks that another sequence computes in it: too late to copy them.
  if (first == nullptr || first->state != SequenceState::Running || first->admission_step == plan_.step) return false;
  // Blocks are copied before the step computes anything. A first choice that was preempted may be behind again.
  const auto place = std::ranges::find(scheduled_, first);
  const int32_t computed = place == scheduled_.end()
                               ? first->computed_token_count
                               : plan_.entries[static_cast<size_t>(place - scheduled_.begin())].computed_token_count;
  if (computed < sequence.prompt_token_count - 1) return false;
  const int32_t whole = (sequence.prompt_token_count - 1) / blocks_.block_token_count();
  if (first->released_block_count > 0) return false;  // a sliding window has left part of the prompt behind
  if (blocks_.has_local_slots() && first->slots_begin > blocks_.first_local_block(sequence.prompt_token_count - 1)) {
    return false;  // and so have its local layers
  }
  if (blocks_.prefix_caching() && first->published_block_count < whole) return false;
  matched_.assign(first->block_table.begin(), first->block_table.begin() + whole);
  forked_from_ = first;
  first->fork_step = plan_.step;  // nobody takes its blocks before they are copied
  return true;
}

// Its own block for the prompt's last tokens is filled from the first choice's.
void Scheduler::copy_from_first_choice(Sequence& sequence) {
  const auto whole = static_cast<size_t>((sequence.prompt_token_count - 1) / blocks_.block_token_count());
  if (static_cast<int32_t>(whole) * blocks_.block_token_count() == sequence.prompt_token_count - 1) return;
  plan_.copies.push_back({.from = forked_from_->block_table[whole], .to = sequence.block_table[whole]});
}

}  // namespace inflight
