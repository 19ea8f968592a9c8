// SPDX-License-Identifier: Apache-2.0
// Layers that see the last tokens only. Where all do (a sliding window), blocks are given back when the window has
// passed them. Where some do (local layers), blocks stay for the others; what the local layers need lies in slots
// (cache/local_slots.h), which a sequence holds of the blocks from the first that its next token sees to the last that
// a step computes. Those behind the window are let go when the next plan begins, so that what is held does not grow
// with the sequences' lengths and a slot is always there (SchedulerConfig::local_slots_needed()).
#include <algorithm>

#include "core/attended_tokens.h"
#include "sched/scheduler.h"

namespace inflight {

// Blocks that no token from the next one on attends to. Published ones go together, when the last of them has passed: a
// table refers to every ancestor of its blocks (KvBlocks).
void Scheduler::release_passed_blocks(Sequence& sequence) {
  if (config_.sliding_window == 0) return;
  const int32_t first_seen = first_attended(sequence.computed_token_count, config_.sliding_window);
  const int32_t passed = first_seen / blocks_.block_token_count();
  if (passed <= std::max(sequence.released_block_count, shareable_block_count_ - 1)) return;
  if (sequence.published_block_count < shareable_block_count_) return;  // the host does not know its tokens yet
  blocks_.release_passed(sequence.block_table, sequence.released_block_count, passed);
  sequence.released_block_count = passed;
}

// It has just been given the blocks that it shares: of what its next token sees of them.
void Scheduler::begin_slots(Sequence& sequence) {
  sequence.slots_begin = blocks_.first_local_block(sequence.computed_token_count);
  sequence.slots_end = static_cast<int32_t>(sequence.block_table.size());
  blocks_.hold_slots(sequence.block_table, sequence.slots_begin, sequence.slots_end);
}

// A step computes the sequence's tokens up to so many.
void Scheduler::hold_slots(Sequence& sequence, int32_t token_count) {
  const int32_t end = blocks_for(token_count);
  if (end <= sequence.slots_end) return;
  blocks_.hold_slots(sequence.block_table, sequence.slots_end, end);
  sequence.slots_end = end;
}

// What is full is published first: else nobody could find it, and it would not be kept.
void Scheduler::let_go_of_passed_slots() {
  for (Sequence* const sequence : running_) {
    const int32_t passed = blocks_.first_local_block(sequence->computed_token_count);
    if (passed <= sequence->slots_begin) continue;
    if (blocks_.prefix_caching()) publish_or_adopt_full_blocks(*sequence);
    blocks_.let_go_of_slots(sequence->block_table, sequence->slots_begin, passed);
    sequence->slots_begin = passed;
  }
}

void Scheduler::let_go_of_slots(Sequence& sequence) {
  blocks_.let_go_of_slots(sequence.block_table, sequence.slots_begin, sequence.slots_end);
  sequence.slots_begin = sequence.slots_end = 0;
}

}  // namespace inflight
