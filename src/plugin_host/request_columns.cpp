// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/request_columns.h"

#include <algorithm>

namespace inflight {
namespace {

uint32_t state_of(const Sequence& sequence) {
  switch (sequence.state) {
    case SequenceState::Running:
      return sequence.remaining_token_count() > 1 ? INFLIGHT_REQUEST_PREFILL : INFLIGHT_REQUEST_DECODE;
    case SequenceState::Preempted:
      return INFLIGHT_REQUEST_PREEMPTED;
    default:
      return INFLIGHT_REQUEST_WAITING;
  }
}

}  // namespace

std::optional<uint32_t> stored_parent(const KvBlocks& blocks, uint32_t unit) {
  if (unit >= static_cast<uint32_t>(blocks.pool().block_count())) return std::nullopt;
  const RadixNode& node = blocks.tree().node(static_cast<BlockId>(unit));
  if (!node.stored()) return std::nullopt;
  return node.parent != kNoBlock ? to_count(to_integer(node.parent)) : INFLIGHT_UNIT_ROOT;
}

template <typename T, typename Get>
const T* RequestColumns::column(std::vector<T>& storage, Get&& get) {
  storage.resize(sequences_.size());
  for (size_t i = begin_; i < end_; ++i) storage[i] = get(*sequences_[i]);
  return storage.data();
}

void RequestColumns::fill(std::span<Sequence* const> sequences, uint32_t columns, const KvBlocks& blocks) {
  constexpr size_t kRows = 32;  // so many sequences stay in the first cache while all their columns are read
  sequences_.assign(sequences.begin(), sequences.end());
  rows_are_known_ = false;
  view_ = {};
  view_.struct_size = sizeof(view_);
  view_.count = static_cast<uint32_t>(sequences.size());
  view_.columns = columns;
  begin_ = 0;
  do {  // also for no rows: a column that was asked for is there
    end_ = std::min(begin_ + kRows, sequences_.size());
    fill_rows(columns, blocks);
    begin_ = end_;
  } while (begin_ < sequences_.size());
}

std::optional<size_t> RequestColumns::row_of(uint32_t slot) const {
  if (!rows_are_known_) {
    for (uint32_t row = 0; row < view_.count; ++row) {
      if (slot_[row] >= row_of_slot_.size()) row_of_slot_.resize(size_t{slot_[row]} + 1);
      row_of_slot_[slot_[row]] = row;
    }
    rows_are_known_ = true;
  }
  if (slot >= row_of_slot_.size()) return std::nullopt;
  const uint32_t row = row_of_slot_[slot];
  if (row >= view_.count || slot_[row] != slot) return std::nullopt;
  return row;
}

void RequestColumns::fill_rows(uint32_t columns, const KvBlocks& blocks) {
  using S = const Sequence&;
  view_.id = column(id_, [](S s) { return to_integer(s.id); });
  view_.slot = column(slot_, [](S s) { return to_count(s.slot); });
  if ((columns & INFLIGHT_COLUMN_STATE) != 0) view_.state = column(state_, state_of);
  if ((columns & INFLIGHT_COLUMN_PRIORITY) != 0) {
    view_.priority = column(priority_, [](S s) { return s.request.priority; });
  }
  if ((columns & INFLIGHT_COLUMN_TENANT) != 0) view_.tenant = column(tenant_, [](S s) { return s.request.tenant; });
  if ((columns & INFLIGHT_COLUMN_TIMES) != 0) {
    view_.arrival_ns = column(arrival_, [](S s) { return s.request.arrival; });
    view_.queued_ns = column(queued_, [](S s) { return s.queued_time; });
    view_.first_token_ns = column(first_token_, [](S s) { return s.first_token_time; });
    view_.last_token_ns = column(last_token_, [](S s) { return s.last_token_time; });
  }
  if ((columns & INFLIGHT_COLUMN_DEADLINES) != 0) {
    view_.ttft_deadline_ns = column(ttft_deadline_, [](S s) { return s.request.ttft_deadline; });
    view_.next_token_deadline_ns = column(next_deadline_, [](S s) {
      const bool none = s.request.itl_target == kNoDeadline || s.last_token_time == kNotYet;
      return none ? kNoDeadline : s.last_token_time + s.request.itl_target;
    });
    view_.e2e_deadline_ns = column(e2e_deadline_, [](S s) { return s.request.e2e_deadline; });
  }
  if ((columns & INFLIGHT_COLUMN_LENGTHS) != 0) {
    view_.prompt_tokens = column(prompt_tokens_, [](S s) { return to_count(s.prompt_token_count); });
    view_.output_tokens = column(output_tokens_, [](S s) { return to_count(s.output_token_count()); });
    view_.max_output_tokens =
        column(max_output_tokens_, [](S s) { return to_count(s.token_limit - s.prompt_token_count); });
    view_.computed_tokens = column(computed_tokens_, [](S s) { return to_count(s.computed_token_count); });
  }
  if ((columns & INFLIGHT_COLUMN_CACHED) != 0) {
    const int32_t width = blocks.block_token_count();
    view_.cached_tokens = column(cached_tokens_, [width](S s) {
      const bool running = s.state == SequenceState::Running;
      return to_count(running ? s.prefix_hit_token_count : s.stored_prefix_block_count * width);
    });
    view_.cached_unit = column(cached_unit_, [](S s) {
      const bool any = s.state != SequenceState::Running && s.stored_prefix_end != kNoBlock;
      return any ? to_count(to_integer(s.stored_prefix_end)) : INFLIGHT_UNIT_ROOT;
    });
  }
  if ((columns & INFLIGHT_COLUMN_BLOCKS) != 0) {
    view_.blocks_held = column(blocks_held_, [](S s) { return to_count(s.held_block_count()); });
    view_.blocks_freeable =
        column(blocks_freeable_, [&blocks](S s) { return to_count(blocks.freeable_count(s.block_table)); });
  }
  if ((columns & INFLIGHT_COLUMN_PREDICTED) != 0) {
    view_.predicted_output_tokens = column(predicted_, [](S s) { return to_count(s.predicted_output_tokens); });
  }
  if ((columns & INFLIGHT_COLUMN_PREEMPTIONS) != 0) {
    view_.preemptions = column(preemptions_, [](S s) { return to_count(s.preemption_count); });
    view_.recomputed_tokens = column(recomputed_, [](S s) { return to_count(s.recomputed_token_count); });
  }
  if ((columns & INFLIGHT_COLUMN_GROUPS) != 0) {
    view_.prefix_group =
        column(prefix_group_, [](S s) { return s.keys.empty() ? root_key(s.request.cache_salt) : s.keys.front(); });
    view_.adapter = column(adapter_, [](S s) { return s.request.adapter; });
  }
}

}  // namespace inflight
