// SPDX-License-Identifier: Apache-2.0
// The stages made in forward_pass.cpp, fitted to a step: its rows, its tables, who waits for whom.
#include <algorithm>

#include "base/math.h"
#include "exec/forward_pass.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr int32_t kTicketsPerWorker = 8;  // of a stage of rows
constexpr int32_t kBatchMax = 16;         // rows of a ticket
constexpr int32_t kMergedMax = 256;       // partitions of heads that each worker merges for itself

}  // namespace

const AttentionTables& ForwardPass::attention_of(int32_t layer, const RowTables& tables) const {
  return is_local(layer) ? tables.local_attention : tables.attention;
}

void ForwardPass::fit_state(Stage& stage, const StepTables& tables) const {
  stage.state.rows = tables.all.rows;
  if (stage.operation == Operation::Read) {
    stage.items = tables.all.rows * (state_.value_width() / state_.norm_width());
  } else {
    stage.state.entries = tables.state_entries;
    stage.items =
        tables.state_entry_count * (stage.operation == Operation::Convolve ? state_.mixed_width() / kConvolveChannels
                                                                           : state_.value_width() / kStateColumns);
  }
  batch_rows(stage);
}

void ForwardPass::fit_heads(Stage& stage, int32_t rows) const {
  if (stage.operation == Operation::Heads) {
    stage.heads.rows = rows;
    return;
  }
  if (stage.operation == Operation::Widen) {
    stage.items = rows * stage.widen.heads;
  } else if (stage.operation == Operation::Divide) {
    stage.divide.rows = rows;
    stage.items = rows * shape_.head_count;
  } else {
    stage.items = stage.narrow.rows = rows;
  }
  batch_rows(stage);
}

void ForwardPass::fit_stage(Stage& stage, const StepTables& tables, const RowTables& rows) const {
  switch (stage.operation) {
    case Operation::Embed:
      stage.embed.tokens = tables.tokens;
      stage.items = rows.rows;
      batch_rows(stage);
      break;
    case Operation::Norm:
      if (stage.norm.rows_from != kNone) stage.norm.rows_from = tables.last_rows;
      stage.norm.rows = rows.rows * stage.norm.parts;
      stage.items = stage.norm.rows;
      batch_rows(stage);
      break;
    case Operation::Linear:
      stage.linear.rows = rows.rows;
      break;
    case Operation::Rope:
      stage.rope.positions = rows.positions;
      stage.rope.tables = is_local(stage.rope.layer) ? rows.local_tables : rows.tables;
      stage.items = rows.rows * stage.rope.kv_heads;
      batch_rows(stage);
      break;
    case Operation::Attention:
      stage.attention.list = attention_of(stage.attention.layer, rows).list;
      stage.attention.positions = rows.positions;
      stage.attention.tables = is_local(stage.attention.layer) ? rows.local_tables : rows.tables;
      stage.items = attention_of(stage.attention.layer, rows).count;
      break;
    case Operation::Combine:
      stage.combine.list = attention_of(stage.combine.layer, rows).combine;
      stage.combine.rows = rows.rows;
      stage.items = attention_of(stage.combine.layer, rows).partial_slots > 0 || stage.combine.out.bytes != kNone ||
                            stage.combine.gate != kNone || stage.batch == 0
                        ? rows.rows * StepProgram::combine_slices(shape_)
                        : 0;
      batch_rows(stage);
      break;
    case Operation::Shrink:
    case Operation::Expand:
      stage.adapter.tiles = tables.adapter_tiles;
      stage.items = adapter_items(stage, tables.adapter_tile_count);
      batch_rows(stage);
      break;
    case Operation::Swiglu:
      stage.swiglu.rows = rows.rows;
      stage.items = rows.rows * div_ceil(stage.swiglu.depth, kSwigluColumns);
      batch_rows(stage);
      break;
    case Operation::Route:
    case Operation::Merge:
      stage.items = rows.rows;
      batch_rows(stage);
      break;
    case Operation::Sort:
      stage.sort.rows = rows.rows * experts_used_;
      stage.items = 1;
      break;
    case Operation::Gather:
      stage.gather.rows = rows.rows;
      stage.items = rows.rows * experts_used_;
      batch_rows(stage);
      break;
    case Operation::Experts: {
      ExpertsArgs& experts = stage.experts;
      experts.rows = rows.rows * experts_used_;
      const int32_t count = experts.weight[0].outputs / experts.outputs;
      stage.items = std::min(count, experts.rows) * div_ceil(panel_count(experts.outputs), experts.panels);
      break;
    }
    case Operation::Convolve:
    case Operation::Update:
    case Operation::Read:
      fit_state(stage, tables);
      break;
    case Operation::Divide:
    case Operation::Heads:
    case Operation::Widen:
    case Operation::Narrow:
      fit_heads(stage, rows.rows);
      break;
    case Operation::Statistics:
    case Operation::Change:
    case Operation::Sample:
      break;
  }
}

void ForwardPass::fit_logits(Stage& stage, const StepTables& tables, int32_t first, int32_t count) const {
  switch (stage.operation) {
    case Operation::Norm:
      stage.norm.rows_from = tables.sampled_rows + first;
      stage.norm.rows = count;
      stage.items = count;
      break;
    case Operation::Linear:
      stage.linear.rows = count;
      break;
    case Operation::Statistics:
      stage.items = count * arena_.statistics_chunks;
      if (stage.statistics.list == kNone) break;
      stage.statistics.list = tables.samples + first * kSampleWords;
      if (!tables.changes) stage.items = 0;
      break;
    case Operation::Change:
    case Operation::Sample:
      stage.sample.list = tables.samples + first * kSampleWords;
      stage.sample.results = tables.results + first * kResultWords;
      stage.items = stage.operation == Operation::Sample || tables.changes ? count : 0;
      break;
    default:
      break;
  }
}

std::span<const Stage> ForwardPass::fit(const StepTables& tables) {
  append_layers(tables);
  for (int32_t first = 0; first < tables.sampled; first += size_.logit_rows) append_logits(tables, first);
  link_groups();
  return fitted_;
}

std::span<const Stage> ForwardPass::fit_round(const StepTables& tables, int32_t first) {
  fitted_.clear();
  if (first == 0) append_layers(tables);
  append_logits(tables, first);
  link_groups();
  return fitted_;
}

bool ForwardPass::has_copies(const StepTables& tables) const {
  return tables.all.rows <= copied_rows_ && tables.adapter_tile_count == 0;
}

void ForwardPass::append_layers(const StepTables& tables) {
  const int32_t merged = std::max(tables.all.attention.partial_slots, tables.all.local_attention.partial_slots);
  const std::vector<Stage>& layers = tables.adapter_tile_count > 0                ? adapted_layers_
                                     : has_copies(tables) && merged <= kMergedMax ? copied_layers_
                                                                                  : layers_;
  fitted_.assign(layers.begin(), layers.end());
  if (last_begin_ > 0 && tables.last.rows == 0)
    fitted_.erase(fitted_.begin() + static_cast<ptrdiff_t>(last_begin_), fitted_.end());
  for (size_t i = 0; i < fitted_.size(); ++i) {
    fit_stage(fitted_[i], tables, last_begin_ == 0 || i < last_begin_ ? tables.all : tables.last);
  }
}

void ForwardPass::append_logits(const StepTables& tables, int32_t first) {
  const int32_t groups = fitted_.empty() ? 0 : fitted_.back().counter + 1;
  const int32_t count = std::min(size_.logit_rows, tables.sampled - first);
  for (Stage stage : has_copies(tables) ? copied_logits_ : logits_) {
    stage.counter += groups;
    fit_logits(stage, tables, first, count);
    fitted_.push_back(stage);
  }
}

int32_t ForwardPass::row_batch(int32_t items, int32_t worker_count) {
  return std::clamp(items / (worker_count * kTicketsPerWorker), 1, kBatchMax);
}

// Each group waits for the last one before it that has items.
void ForwardPass::link_groups() {
  int32_t before = kNone, before_items = 0, items = 0;
  for (size_t i = 0; i < fitted_.size(); ++i) {
    if (i > 0 && fitted_[i].counter != fitted_[i - 1].counter && items > 0) {
      before = fitted_[i - 1].counter;
      before_items = items;
      items = 0;
    }
    fitted_[i].wait_counter = before;
    fitted_[i].wait_count = before_items;
    if (fitted_[i].batch > 0) items += fitted_[i].items;
  }
}

}  // namespace inflight
