// SPDX-License-Identifier: Apache-2.0
// A plan as the words that are uploaded for it: tokens, positions, block tables, attention's work list, samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/batch_plan.h"
#include "core/model_spec.h"
#include "exec/forward_pass.h"
#include "exec/memory_plan.h"

namespace inflight {

// Rows of the entry whose logits are computed: those that tell of prompt tokens, then those that a token is drawn from,
// which are its last ones.
[[nodiscard]] inline int32_t logits_count(const BatchEntry& entry) {
  return entry.prompt_logprobs_wanted + (entry.samples ? 1 + entry.draft_token_count : 0);
}

struct StepUploadLimits {
  // Counters of a step: of its layers, and of each round of logits, of so many rows.
  int32_t layer_counters = 0, round_counters = 0, round_rows = 1;
  int32_t spare_row = 0;  // device row of logits from which no token is drawn
  int32_t partial_slots = 0;
  int32_t worker_count = 1;
  int32_t item_queries = kAttentionQueriesMax;  // of an attention item, if one row has not more
  int32_t adapter_tile_rows = 1;                // of a tile of rows of one adapter
  int32_t copy_stride = 0;                      // Arena's
  int32_t kept_states_from = 0;                 // slot of the first kept state, behind those of rows
  KvUnits units;                                // of the KV storage
};

class StepUpload {
 public:
  StepUpload(const ModelSpec& spec, int32_t block_token_count, const StepUploadLimits& limits);

  // Fills words() with everything but the stages.
  // adapter_slots: of each entry's adapter, or kNone; empty: none has one.   REQUIRES: the plan has entries.
  const StepTables& build(const BatchPlan& plan, std::span<const int32_t> adapter_slots = {});
  // number: of the launch, one above that of the launch before.
  void append_stages(std::span<const Stage> stages, int32_t number);

  [[nodiscard]] std::vector<int32_t>& words() { return words_; }
  [[nodiscard]] int32_t results_offset() const { return results_; }
  // Words behind results_offset() at which the told logits of a result begin, pairs of token and logit; those of result
  // row + 1 follow.   row: to the number of results.
  [[nodiscard]] size_t told_at(size_t row) const { return told_[row]; }

 private:
  void add_told(const BatchPlan& plan);
  // Rows of an entry side by side: offsets in what is scheduled of it.
  struct RowRun {
    const BatchEntry* entry;
    int32_t first, count;
  };
  void add_rows(const BatchPlan& plan);
  // Those that layers which share K and V compute: whose logits are wanted, or all where hidden states are.
  void add_last_rows(const BatchPlan& plan);
  [[nodiscard]] int32_t add_table(const BatchEntry& entry);
  [[nodiscard]] int32_t add_local_table(const BatchEntry& entry, std::span<const int32_t> slots);
  // Of layers in which a token sees the last `window`, all where that is 0.
  [[nodiscard]] AttentionTables add_attention(std::span<const RowRun> runs, int32_t row_count, int32_t window,
                                              int32_t kv_heads);
  void add_attention(RowTables& tables, std::span<const RowRun> runs);
  void add_samples(const BatchPlan& plan);
  // What is changed of the logits of a row of the step, from which the entry's token `further` after its first is
  // drawn.
  int32_t add_changes(const BatchEntry& entry, int32_t row, int32_t further);
  void add_states(const BatchPlan& plan);
  void add_adapters(const BatchPlan& plan, std::span<const int32_t> slots);
  int32_t append(size_t count);  // offset of that many new words

  int32_t head_count_, kv_head_count_, local_kv_head_count_, vocabulary_size_;
  int32_t block_token_count_, sliding_window_, local_window_;
  bool has_state_, shares_kv_;
  StepUploadLimits limits_;
  int32_t results_ = 0;
  StepTables tables_;
  std::vector<int32_t> words_;
  std::vector<size_t> told_;
  struct AttentionItem {
    int32_t first_row, rows, group, first_partition, end_partition, partial, row_partitions, row_first_partition;
    [[nodiscard]] int64_t cost() const { return int64_t{rows} * (end_partition - first_partition); }
  };
  std::vector<AttentionItem> items_;
  std::vector<RowRun> runs_;
  std::vector<std::pair<TokenId, float>> biases_;  // of one row
  std::vector<int32_t> adapter_tiles_;             // slot, first row, rows
};

}  // namespace inflight
