// SPDX-License-Identifier: Apache-2.0
// The stages of attention, of all kinds, of forward_pass.h.
#include <algorithm>
#include <limits>

#include "base/math.h"
#include "exec/forward_pass.h"
#include "exec/rope_angles.h"
#include "ops/panel.h"

namespace inflight {

void ForwardPass::add_attention(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                int32_t layer) {
  const int32_t residual[] = {residual_of(weights.attention_post_norm)};
  const bool wide = spec.norms_values;
  if (wide) {
    add_wide_heads(spec, weights, store, layer);
  } else {
    add_projections(spec, weights, store, layer);
  }
  const bool normed = wide || spec.norms_heads_together;
  add_attended(spec, weights, store, layer,
               {.query = arena_.query,
                .key = spec.shares_kv(layer) ? kNone : arena_.key,
                .value = arena_.value,
                .query_norm = normed ? kNone : store.vector(weights.query_norm),
                .key_norm = normed ? kNone : store.vector(weights.key_norm)});
  StageRows attended = arena_.attended;
  if (spec.head_size_of(layer) < spec.head_size) {
    add(Operation::Combine).combine = {
        .in = arena_.attended.floats, .partials = arena_.partials, .layer = spec.kv_place_of(layer)};
    next_group();
    attended = arena_.narrowed;
    add_preparation(Operation::Narrow).narrow = {.in = arena_.attended.floats,
                                                 .size = spec.head_size_of(layer),
                                                 .shared = spec.head_count / spec.kv_head_count_of(layer),
                                                 .places = spec.local_heads_together(),
                                                 .rows = 0,
                                                 .out = prepared(attended)};
  } else {
    add_combined(spec, weights, store, layer);
  }
  add_shrink(spec, {layer, LoraTarget::AttentionOutput, arena_.attended.floats, residual});
  add_residual(linear(store, weights.attention_output, weights.attention_output_bias), prepared(attended), residual[0]);
  add_expand();
}

// Each head normed, and as wide as the storage's.
void ForwardPass::add_wide_heads(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                 int32_t layer) {
  struct Part {
    const WeightView &weight, &bias, &norm;
    int32_t heads, in, out, shared, together;
  };
  const WeightView none;
  const int32_t kv_heads = spec.kv_head_count_of(layer), heads = spec.head_count, shared = heads / kv_heads;
  const int32_t together = spec.is_local(layer) ? spec.local_heads_together() : 1;
  const int32_t values =
      weights.value.present() ? arena_.projected_value : arena_.projected_key;  // K, without its norm
  const Part parts[] = {
      {weights.query, weights.query_bias, weights.query_norm, heads, arena_.projected_query, arena_.query, shared, 1},
      {weights.key, weights.key_bias, weights.key_norm, kv_heads, arena_.projected_key, arena_.key, 1, together},
      {weights.value, weights.value_bias, none, kv_heads, values, arena_.value, 1, together},
  };
  const auto own = std::span(parts).first(spec.shares_kv(layer) ? 1 : std::size(parts));
  for (const Part& part : own) {
    if (part.weight.present()) add_stored(store, part.weight, part.bias, part.in);
  }
  next_group();
  for (const Part& part : own) {
    add(Operation::Widen).widen = {.in = part.in,
                                   .heads = part.heads,
                                   .size = spec.head_size_of(layer),
                                   .weight = store.vector(part.norm),
                                   .epsilon = spec.norm_epsilon,
                                   .out = part.out,
                                   .together = part.together,
                                   .shared = part.shared,
                                   .places = together};
  }
}

void ForwardPass::add_projections(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                  int32_t layer) {
  const int32_t products[] = {arena_.query, arena_.key, arena_.value};
  add_shrink(spec, {layer, LoraTarget::Query, arena_.normed.floats, products});
  add_stored(store, weights.query, weights.query_bias, arena_.query);
  if (spec.gated_attention) add_stored(store, weights.query_gate, {}, arena_.query_gate);
  add_stored(store, weights.key, weights.key_bias, arena_.key);
  add_stored(store, weights.value, weights.value_bias, arena_.value);
  add_expand();
  if (spec.parallel_residual) add_feed_forward_beside(spec, weights, store, layer);
  if (spec.norms_heads_together) {
    next_group();
    add_heads_norm(spec, store, weights.query_norm, arena_.query);
    add_heads_norm(spec, store, weights.key_norm, arena_.key);
  }
}

void ForwardPass::add_combined(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                               int32_t layer) {
  StageRows attended_out = prepared(arena_.attended);
  if (!copied_) attended_out.floats = kNone;
  if (!takes_bytes(panel_type(weights.attention_output))) attended_out.bytes = kNone;
  add_preparation(Operation::Combine).combine = {.in = arena_.attended.floats,
                                                 .partials = arena_.partials,
                                                 .layer = spec.kv_place_of(layer),
                                                 .out = attended_out,
                                                 .sinks = store.vector(weights.attention_sinks),
                                                 .gate = arena_.query_gate};
}

void ForwardPass::add_attended(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                               int32_t layer, RopeArgs rope) {
  rope.layer = spec.kv_place_of(layer);
  rope.unit = unit_[static_cast<size_t>(rope.layer)];
  rope.kv_heads = spec.stored_kv_heads_of(layer);
  rope.angles = RopeAngles::offset(spec, layer, position_count_);
  rope.query_angles = RopeAngles::query_offset(spec, layer, position_count_);
  rope.epsilon = spec.norm_epsilon;
  next_group();
  add(Operation::Rope).rope = rope;
  next_group();
  add(Operation::Attention).attention = {
      .query = rope.query,
      .out = arena_.attended.floats,
      .partials = arena_.partials,
      .layer = rope.layer,
      .unit = rope.unit,
      .kv_heads = rope.kv_heads,
      .window = spec.is_local(layer) ? spec.local_window : std::numeric_limits<int32_t>::max() / 2,
      .sinks = store.vector(weights.attention_sinks)};
  next_group();
}

// Heads attend to latent vectors: their queries are made ones for these, and what they attend to is made their values
// behind attention. A head's numbers are the rotated ones, then those of the latent vector; the latter are its V.
void ForwardPass::add_latent_attention(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                       int32_t layer) {
  const LatentArena& latent = arena_.latent;
  const int32_t size = spec.head_size, rotated = spec.rope_dimension_count, heads = spec.head_count;
  const auto key = [&](const WeightView& weight, int32_t first) {
    add_product(linear(store, weight, {}), prepared(arena_.normed), arena_.key + first, size);
  };
  key(weights.rotated_key, 0);
  key(weights.latent, rotated);
  if (weights.query_down.present()) {
    add_stored(store, weights.query_down, {}, latent.query_down);
    next_group();
    add_preparation(Operation::Norm).norm = {.in = latent.query_down,
                                             .rows_from = kNone,
                                             .weight = store.vector(weights.query_down_norm),
                                             .depth = spec.latent.query_rank,
                                             .epsilon = spec.norm_epsilon,
                                             .out = prepared(latent.query_normed)};
    add_product(linear(store, weights.query, {}), prepared(latent.query_normed), latent.query, weights.query.rows);
  } else {
    add_stored(store, weights.query, {}, latent.query);
  }
  next_group();
  add(Operation::Divide).divide = {.in = latent.query,
                                   .size = spec.projected_query_size(),
                                   .first = 0,
                                   .depth = spec.latent.unrotated_size,
                                   .out = latent.query_heads,
                                   .rest = arena_.query,
                                   .rest_stride = size};
  next_group();
  add_heads(spec, {.weight = store.matrix(weights.head_keys),
                   .in = latent.query_heads,
                   .out = {.floats = arena_.query + rotated},
                   .row_stride = heads * size,
                   .head_stride = size});
  add_attended(spec, weights, store, layer,
               {.query = arena_.query,
                .key = arena_.key,
                .value = arena_.key,
                .query_norm = kNone,
                .key_norm = store.vector(weights.latent_norm)});
  add(Operation::Combine).combine = {
      .in = arena_.attended.floats, .partials = arena_.partials, .layer = spec.kv_place_of(layer)};
  next_group();
  add(Operation::Divide).divide = {.in = arena_.attended.floats,
                                   .size = size,
                                   .first = rotated,
                                   .depth = spec.latent.rank,
                                   .out = latent.attended_heads};
  next_group();
  const int32_t width = heads * spec.latent.value_size;
  add_heads(spec, {.weight = store.matrix(weights.head_values),
                   .in = latent.attended_heads,
                   .out = {.floats = latent.values},
                   .row_stride = width,
                   .head_stride = spec.latent.value_size});
  next_group();
  add_preparation(Operation::Norm).norm = {.in = latent.values,
                                           .rows_from = kNone,
                                           .weight = kNone,
                                           .depth = width,
                                           .epsilon = spec.norm_epsilon,
                                           .out = prepared(latent.attended)};
  add_residual(linear(store, weights.attention_output, {}), prepared(latent.attended),
               residual_of(weights.attention_post_norm));
}

void ForwardPass::add_heads(const ModelSpec& spec, HeadsArgs args) {
  const int32_t of_head = panel_count(args.weight.outputs / spec.head_count);
  const int32_t panels = panels_per_item(args.weight, of_head * spec.head_count, worker_count_, kItemsPerWorker, false);
  args.panels = std::min(panels, of_head);
  Stage& stage = add(Operation::Heads);
  stage.heads = args;
  stage.items = spec.head_count * div_ceil(of_head, args.panels);
}

}  // namespace inflight
