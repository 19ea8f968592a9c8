// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_watch.h"

#include <algorithm>

#include "base/error.h"

namespace inflight {

PrefixWatch::PrefixWatch(const KvBlocks& blocks)
    : blocks_(blocks), ends_at_block_(static_cast<size_t>(blocks.pool().block_count()), -1) {}

bool PrefixWatch::wants_more(const Sequence& sequence) const {
  return sequence.stored_prefix_block_count < links_[static_cast<size_t>(sequence.slot)].wanted;
}

std::optional<BlockId> PrefixWatch::find_next(const Sequence& sequence) const {
  const auto width = static_cast<size_t>(blocks_.block_token_count());
  const auto next = static_cast<size_t>(sequence.stored_prefix_block_count);
  return blocks_.tree().find({sequence.keys[next], sequence.request.cache_salt, sequence.stored_prefix_end,
                              std::span<const TokenId>(sequence.tokens).subspan(next * width, width)});
}

int32_t& PrefixWatch::end_head(const Sequence& sequence) {
  const BlockId end = sequence.stored_prefix_end;
  return end == kNoBlock ? ends_at_root_ : ends_at_block_[static_cast<size_t>(end)];
}

void PrefixWatch::link(Sequence& sequence) {
  Links& links = links_[static_cast<size_t>(sequence.slot)];
  const auto push = [&](int32_t& head, int32_t Links::* next, int32_t Links::* previous) {
    links.*next = head;
    links.*previous = -1;
    if (head >= 0) links_[static_cast<size_t>(head)].*previous = sequence.slot;
    head = sequence.slot;
  };
  push(end_head(sequence), &Links::next_at_end, &Links::previous_at_end);
  if (!wants_more(sequence)) return;
  const PrefixKey key = sequence.keys[static_cast<size_t>(sequence.stored_prefix_block_count)];
  push(wanting_.try_emplace(key, -1).first->second, &Links::next_wanting, &Links::previous_wanting);
}

void PrefixWatch::unlink(Sequence& sequence) {
  Links& links = links_[static_cast<size_t>(sequence.slot)];
  const auto take = [&](int32_t& head, int32_t Links::* next, int32_t Links::* previous) {
    if (links.*previous >= 0) {
      links_[static_cast<size_t>(links.*previous)].*next = links.*next;
    } else {
      head = links.*next;
    }
    if (links.*next >= 0) links_[static_cast<size_t>(links.*next)].*previous = links.*previous;
  };
  take(end_head(sequence), &Links::next_at_end, &Links::previous_at_end);
  if (!wants_more(sequence)) return;
  const auto wanting = wanting_.find(sequence.keys[static_cast<size_t>(sequence.stored_prefix_block_count)]);
  take(wanting->second, &Links::next_wanting, &Links::previous_wanting);
  if (wanting->second < 0) wanting_.erase(wanting);
}

void PrefixWatch::advance(Sequence& sequence) {
  while (wants_more(sequence)) {
    const auto next = find_next(sequence);
    if (!next) return;
    sequence.stored_prefix_end = *next;
    ++sequence.stored_prefix_block_count;
  }
}

void PrefixWatch::add(Sequence& sequence) {
  const auto slot = static_cast<size_t>(sequence.slot);
  if (slot >= links_.size()) links_.resize(slot + 1);
  INFLIGHT_CHECK(links_[slot].sequence == nullptr);
  links_[slot].sequence = &sequence;
  links_[slot].wanted = static_cast<int32_t>(sequence.skippable_block_count(blocks_.block_token_count()));
  sequence.stored_prefix_block_count = 0;
  sequence.stored_prefix_end = kNoBlock;
  advance(sequence);
  link(sequence);
}

void PrefixWatch::remove(Sequence& sequence) {
  const auto slot = static_cast<size_t>(sequence.slot);
  if (slot >= links_.size() || links_[slot].sequence == nullptr) return;
  unlink(sequence);
  links_[slot].sequence = nullptr;
}

void PrefixWatch::clear() {
  links_.clear();
  wanting_.clear();
  std::ranges::fill(ends_at_block_, -1);
  ends_at_root_ = -1;
}

void PrefixWatch::on_insert(BlockId block) {
  const auto wanting = wanting_.find(blocks_.tree().node(block).key);
  if (wanting == wanting_.end()) return;
  moving_.clear();
  for (int32_t slot = wanting->second; slot >= 0; slot = links_[static_cast<size_t>(slot)].next_wanting) {
    moving_.push_back(links_[static_cast<size_t>(slot)].sequence);
  }
  for (Sequence* const sequence : moving_) {
    if (find_next(*sequence) != block) continue;  // equal keys, other content
    unlink(*sequence);
    advance(*sequence);
    link(*sequence);
  }
}

void PrefixWatch::on_evict(BlockId block) {
  const int32_t first = ends_at_block_[static_cast<size_t>(block)];
  if (first < 0) return;
  moving_.clear();
  for (int32_t slot = first; slot >= 0; slot = links_[static_cast<size_t>(slot)].next_at_end) {
    moving_.push_back(links_[static_cast<size_t>(slot)].sequence);
  }
  // Leaves go first, so the parent is still there; the node keeps naming it.
  const BlockId parent = blocks_.tree().node(block).parent;
  for (Sequence* const sequence : moving_) {
    unlink(*sequence);
    sequence->stored_prefix_end = parent;
    --sequence->stored_prefix_block_count;
    link(*sequence);
  }
}

void PrefixWatch::check_invariants() const {
  std::vector<BlockId> matched;
  for (const Links& links : links_) {
    if (links.sequence == nullptr) continue;
    const Sequence& sequence = *links.sequence;
    matched.clear();
    blocks_.match(sequence.request.cache_salt, std::span(sequence.keys).first(static_cast<size_t>(links.wanted)),
                  sequence.tokens, matched);
    INFLIGHT_CHECK(static_cast<int32_t>(matched.size()) == sequence.stored_prefix_block_count);
    INFLIGHT_CHECK(sequence.stored_prefix_end == (matched.empty() ? kNoBlock : matched.back()));
  }
}

}  // namespace inflight
