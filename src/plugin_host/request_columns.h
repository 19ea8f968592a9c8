// SPDX-License-Identifier: Apache-2.0
// Sequences as the columns that a policy reads: structure of arrays, filled only as far as asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_blocks.h"
#include "inflight/plugin.h"
#include "sched/sequence.h"

namespace inflight {

// As plugins count: what is below 0 is none.
[[nodiscard]] inline uint32_t to_count(int32_t value) { return static_cast<uint32_t>(std::max(value, 0)); }

// The unit before a stored block, as policies name units; nullopt: `unit` is not stored.
[[nodiscard]] std::optional<uint32_t> stored_parent(const KvBlocks& blocks, uint32_t unit);

class RequestColumns {
 public:
  // Entry i of every column is sequences[i].   LIFETIME: view() is valid until the next fill().
  // COST: O(sequences * columns); the BLOCKS columns also walk the block tables.
  void fill(std::span<Sequence* const> sequences, uint32_t columns, const KvBlocks& blocks);
  [[nodiscard]] const inflight_requests_t& view() const { return view_; }
  [[nodiscard]] std::span<Sequence* const> sequences() const { return sequences_; }
  // Which entry is the sequence of this slot.   COST: the first call after a fill() walks the sequences, others O(1).
  [[nodiscard]] std::optional<size_t> row_of(uint32_t slot) const;

 private:
  void fill_rows(uint32_t columns, const KvBlocks& blocks);
  template <typename T, typename Get>
  const T* column(std::vector<T>& storage, Get&& get);

  std::vector<Sequence*> sequences_;
  size_t begin_ = 0, end_ = 0;  // the rows that are being filled
  // By slot; made when it is first asked for, since most policies never ask. Rows of sequences that are gone stay in
  // it.
  mutable std::vector<uint32_t> row_of_slot_;
  mutable bool rows_are_known_ = false;
  inflight_requests_t view_{};
  std::vector<uint64_t> id_, prefix_group_;
  std::vector<uint32_t> slot_, state_, tenant_, prompt_tokens_, output_tokens_, max_output_tokens_, computed_tokens_,
      cached_tokens_, cached_unit_, blocks_held_, blocks_freeable_, predicted_, preemptions_, recomputed_, adapter_;
  std::vector<int32_t> priority_;
  std::vector<int64_t> arrival_, queued_, first_token_, last_token_, ttft_deadline_, next_deadline_, e2e_deadline_;
};

}  // namespace inflight
