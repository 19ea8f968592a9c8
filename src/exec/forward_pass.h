// SPDX-License-Identifier: Apache-2.0
// The stages of a model's forward pass, made once, and fitted to each step's number of rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model_spec.h"
#include "exec/adapter_stages.h"
#include "exec/arena.h"
#include "exec/weight_store.h"
#include "ops/step_program.h"

namespace inflight {

// What layers of one window attend to.
struct AttentionTables {
  int32_t list = 0, count = 0;  // of work
  int32_t combine = 0;          // [rows][2]
  int32_t partial_slots = 0;    // of the rows of the combine list that were split
};

// Rows that layers compute.
struct RowTables {
  int32_t rows = 0;
  int32_t positions = 0;                       // [rows]
  int32_t tables = 0, local_tables = 0;        // [rows]: where a row's table of the KV storage's units lies
  AttentionTables attention, local_attention;  // of all layers but local ones, and of these
};

// Where a step's tables lie in the uploaded words, and how much there is of each.
struct StepTables {
  RowTables all;                                       // of the step
  RowTables last;                                      // of layers that share K and V: those that somebody wants
  int32_t last_rows = 0;                               // [last.rows]: which of the step's these are
  int32_t tokens = 0;                                  // [all.rows]
  int32_t sampled_rows = 0, samples = 0, results = 0;  // [sampled]; of the rows that the last layer computes
  int32_t adapter_tiles = 0, adapter_tile_count = 0;   // 0: no row has an adapter
  int32_t state_entries = 0, state_entry_count = 0;    // of models with states
  int32_t sampled = 0;
  bool changes = false;  // a sample's logits are changed or told
};

class ForwardPass {
 public:
  // local_slots: K and V of local layers lie in slots.
  ForwardPass(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store, const Arena& arena,
              const ArenaSize& size, const KernelShape& shape, int32_t position_count, bool local_slots,
              int32_t worker_count, LaunchMode mode, const AdapterSizes& adapters);

  // The stages of a step of these tables.   LIFETIME: until the next call.
  std::span<const Stage> fit(const StepTables& tables);
  // A step in parts, each with a launch of its own: the layers with the first round of logits (first 0), then each
  // further round; the logits of samples [first, first + round_size()) are there until the next one.
  std::span<const Stage> fit_round(const StepTables& tables, int32_t first);
  [[nodiscard]] int32_t round_size() const { return size_.logit_rows; }
  // Where the hidden states behind the last layer are, of StepTables::last where layers share K and V.
  [[nodiscard]] int32_t last_hidden() const { return arena_.hidden; }
  // Stages, each with a counter: of all layers at most, and of one round of logits.
  [[nodiscard]] int32_t layer_stage_count() const {
    return static_cast<int32_t>(std::max(layers_.size(), adapted_layers_.size()));
  }
  [[nodiscard]] int32_t round_stage_count() const { return static_cast<int32_t>(logits_.size()); }
  // Items of a ticket where they are single rows: short ones are drawn several at a time.
  [[nodiscard]] static int32_t row_batch(int32_t items, int32_t worker_count);

 private:
  // Stages that begin together; the next group waits for all of them.
  void next_group() { ++group_; }
  Stage& add(Operation operation);
  // A stage that makes rows for the group behind it: with `copied_` by each worker for itself, else a group of its own.
  Stage& add_preparation(Operation operation);
  [[nodiscard]] StageRows prepared(const StageRows& rows) const;
  void add_linear(const LinearArgs& args);
  // Adds the product to the hidden states, or stores it elsewhere, for what adds it: add_post_norm(), merge.
  void add_residual(LinearArgs args, const StageRows& in, int32_t out);
  // Where a product goes that a norm comes behind, if one does.
  [[nodiscard]] int32_t residual_of(const WeightView& post_norm) const {
    return post_norm.present() ? arena_.added : arena_.hidden;
  }
  // scale: of what the sum is multiplied by, if it is there.
  void add_post_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& post_norm,
                     const WeightView& scale = {});
  // Of all heads of a row together, where they are.
  void add_heads_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight, int32_t heads);
  void add_layers(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store);
  void add_layer_embeddings(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store);
  void add_embedding(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  // Goes on with the last rows alone.
  void add_last_rows(const ModelSpec& spec);
  // Hidden states as rows that linear layers read.
  void add_copy(const ModelSpec& spec, const WeightStore& store);
  void add_feed_forward(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  // The first half of a feed-forward that reads the hidden states as they are before attention.
  // REQUIRES: what attention adds to them is added behind it.
  void add_feed_forward_beside(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                               int32_t layer);
  void add_gate_up(const LayerWeights& weights, const WeightStore& store, const StageRows& in);
  // With `adapted_`: shrink beside the linear layers, expand behind them.
  void add_shrink(const ModelSpec& spec, const AdaptedMatrices& matrices);
  void add_expand();
  // The feed-forward of a layer with experts.
  void add_mixture(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store);
  void add_experts(const ModelSpec& spec, ExpertsArgs args);
  // Of the hidden states.
  [[nodiscard]] NormArgs norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                              const WeightView& bias, const StageRows& out) const;
  void add_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight, const WeightView& bias);
  // Of what is at `in`, rows that a layer or a part of it adds to the hidden states.
  [[nodiscard]] static NormArgs norm_behind(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                                            int32_t in);
  // What a layer adds to the hidden states before its feed-forward, if it has either.
  void add_mixing(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  void add_attention(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  // Of the normed hidden states, for add_state().
  void add_state_products(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store);
  void add_state(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  // The heads' numbers for RoPE; which of them are there: with K and V, or without.
  void add_projections(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  void add_wide_heads(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  // Partitions of what heads attend to merged, as the next layer's rows.
  void add_combined(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  void add_stored(const WeightStore& store, const WeightView& weight, const WeightView& bias, int32_t out);
  // Stores a product of `in` in rows that lie `out_stride` floats from each other.
  void add_product(LinearArgs args, const StageRows& in, int32_t out, int32_t out_stride);
  // RoPE, K and V into their storage, and what each head attends to, whose partitions combine may have to merge yet.
  void add_attended(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer,
                    RopeArgs rope);
  void add_latent_attention(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                            int32_t layer);
  void add_heads(const ModelSpec& spec, HeadsArgs args);
  void add_layer(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store, int32_t layer);
  void add_logits(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store);
  [[nodiscard]] bool is_local(int32_t layer) const { return is_local_[static_cast<size_t>(layer)]; }
  [[nodiscard]] const AttentionTables& attention_of(int32_t layer, const RowTables& tables) const;
  [[nodiscard]] LinearArgs linear(const WeightStore& store, const WeightView& weight, const WeightView& bias) const;
  void fit_stage(Stage& stage, const StepTables& tables, const RowTables& rows) const;
  void fit_state(Stage& stage, const StepTables& tables) const;
  void fit_heads(Stage& stage, int32_t rows) const;
  void fit_logits(Stage& stage, const StepTables& tables, int32_t first, int32_t count) const;
  [[nodiscard]] bool has_copies(const StepTables& tables) const;
  void append_layers(const StepTables& tables);
  void append_logits(const StepTables& tables, int32_t first);
  void link_groups();
  void batch_rows(Stage& stage) const {
    if (stage.batch > 0) stage.batch = row_batch(stage.items, worker_count_);
  }

  Arena arena_;
  ArenaSize size_;
  KernelShape shape_;
  std::vector<bool> is_local_;  // of each layer that has K and V
  std::vector<int32_t> unit_;   // and which unit of a block, or slot, is the first of its own
  int32_t position_count_;
  int32_t worker_count_;
  LaunchMode mode_;
  int32_t long_items_;   // of a linear stage
  int32_t copied_rows_;  // of a step whose workers have copies of prepared rows, at most
  int32_t group_ = 0;
  StateShape state_;
  int32_t experts_used_;
  AdapterSizes adapters_;
  bool adapted_ = false;               // the stages being added are for steps with adapters
  bool copied_ = false;                // and these for steps whose workers have copies of prepared rows
  AdapterArgs adapter_args_{};         // of the last shrink
  size_t last_begin_ = 0;              // stages of the lists below, of layers, before those of the last rows alone
  std::vector<Stage> layers_;          // embedding and all layers
  std::vector<Stage> copied_layers_;   // the same for steps of few rows, if these are fused
  std::vector<Stage> adapted_layers_;  // the same for steps with adapters
  std::vector<Stage> logits_;          // one round of size_.logit_rows
  std::vector<Stage> copied_logits_;   // of few
  std::vector<Stage> fitted_;
};

}  // namespace inflight
