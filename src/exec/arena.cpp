// SPDX-License-Identifier: Apache-2.0
#include "exec/arena.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "core/sampling_numbers.h"
#include "ops/panel.h"

namespace inflight {
namespace {

class Layout {
 public:
  int32_t take(int64_t rows, int64_t columns) {
    const int64_t offset = used_;
    used_ = align_up(used_ + rows * columns, int64_t{64});
    if (used_ > std::numeric_limits<int32_t>::max()) {
      fail(ErrorCode::OutOfMemory, "a step's activations take more than {} numbers; lower max_num_batched_tokens",
           std::numeric_limits<int32_t>::max());
    }
    return static_cast<int32_t>(offset);
  }
  StageRows take_rows(int64_t rows, int64_t columns, bool floats, bool bytes) {
    StageRows result;
    if (floats) result.floats = take(rows, columns);
    if (bytes) {
      result.bytes = take(rows, div_ceil(columns, int64_t{4}));
      result.scales = take(rows, columns / 32);
      result.sums = take(rows, columns / 32 * 2);
    }
    return result;
  }
  [[nodiscard]] int64_t used() const { return used_; }

 private:
  int64_t used_ = 0;
};

struct Kinds {
  bool floats = false;
  bool bytes = false;
  void add(const WeightView& weight) {
    if (weight.present()) (takes_bytes(panel_type(weight)) ? bytes : floats) = true;
  }
};

ExpertArena lay_out_experts(Layout& layout, const ModelSpec& spec, const ModelWeights& weights, int64_t rows) {
  if (spec.expert_count == 0) return {};
  Kinds gathered, feed_forward, router;
  bool apart = false, shared_gate = false;
  for (const LayerWeights& layer : weights.layers) {
    gathered.add(layer.expert_gate);
    gathered.add(layer.expert_up);
    feed_forward.add(layer.expert_down);
    router.add(layer.router);
    apart = apart || layer.expert_norm.present();
    shared_gate = shared_gate || layer.shared_gate.present();
  }
  const int64_t used = spec.experts_used, all = rows * used;
  ExpertArena arena;
  arena.logits = layout.take(rows, spec.expert_count);
  arena.chosen = layout.take(rows, used);
  arena.weights = layout.take(rows, used);
  arena.places = layout.take(rows, used);
  arena.counts = layout.take(1, spec.expert_count);
  arena.active = layout.take(1, 1 + int64_t{spec.expert_count} * kActiveWords);
  arena.gathered = layout.take_rows(all, spec.hidden_size, gathered.floats, gathered.bytes);
  arena.feed_forward = layout.take_rows(all, spec.expert_size, feed_forward.floats, feed_forward.bytes);
  arena.out = layout.take(all, spec.hidden_size);
  if (shared_gate || apart) arena.shared = layout.take(rows, spec.hidden_size);
  if (apart) {
    arena.routed = layout.take_rows(rows, spec.hidden_size, router.floats, router.bytes);
    arena.normed = layout.take_rows(rows, spec.hidden_size, gathered.floats, gathered.bytes);
  }
  return arena;
}

StateArena lay_out_states(Layout& layout, const ModelSpec& spec, const ModelWeights& weights, int64_t rows) {
  if (!spec.has_state()) return {};
  Kinds read;
  for (const LayerWeights& layer : weights.layers) read.add(layer.state_output);
  const StateShape& state = spec.state;
  StateArena arena;
  arena.mixed = layout.take(rows, state.projected_width());
  arena.read = layout.take_rows(rows, state.value_width(), read.floats, read.bytes);
  if (!state.has_matrices()) return arena;
  arena.gate = layout.take(rows, state.value_width());
  arena.step = layout.take(rows, state.value_heads);
  if (state.kind == StateKind::DeltaNet) arena.correction = layout.take(rows, state.value_heads);
  return arena;
}

LatentArena lay_out_latent(Layout& layout, const ModelSpec& spec, const ModelWeights& weights, int64_t rows) {
  if (!spec.is_latent()) return {};
  Kinds query, query_heads, attended_heads, attended;
  for (const LayerWeights& layer : weights.layers) {
    query.add(layer.query);
    query_heads.add(layer.head_keys);
    attended_heads.add(layer.head_values);
    attended.add(layer.attention_output);
  }
  const LatentShape& latent = spec.latent;
  const int64_t heads = spec.head_count;
  LatentArena arena;
  if (latent.query_rank > 0) {
    arena.query_down = layout.take(rows, latent.query_rank);
    arena.query_normed = layout.take_rows(rows, latent.query_rank, query.floats, query.bytes);
  }
  arena.query = layout.take(rows, heads * spec.projected_query_size());
  arena.query_heads = layout.take_rows(rows * heads, latent.unrotated_size, query_heads.floats, query_heads.bytes);
  arena.attended_heads = layout.take_rows(rows * heads, latent.rank, attended_heads.floats, attended_heads.bytes);
  arena.values = layout.take(rows, heads * latent.value_size);
  arena.attended = layout.take_rows(rows, heads * latent.value_size, attended.floats, attended.bytes);
  return arena;
}

EmbeddingArena lay_out_embeddings(Layout& layout, const ModelSpec& spec, const ModelWeights& weights, int64_t rows) {
  if (spec.layer_embedding_size == 0) return {};
  Kinds gated;
  for (const LayerWeights& layer : weights.layers) gated.add(layer.embedding_output);
  const int64_t size = spec.layer_embedding_size, all = spec.layer_count * size;
  EmbeddingArena arena;
  arena.rows = layout.take(rows, all);
  arena.projected = layout.take(rows, all);
  if (spec.first_sharing_layer > 0) arena.last_rows = layout.take(rows, all);
  arena.gate = layout.take(rows, size);
  arena.gated = layout.take_rows(rows, size, gated.floats, gated.bytes);
  return arena;
}

}  // namespace

PanelType panel_type(const WeightView& weight) {
  const TensorType type = computed_type(weight.type);
  const bool blocks = unit_of(type).numbers > 1;
  return static_cast<PanelType>(weight.turned && blocks ? TensorType::F16 : type);
}

Arena lay_out_arena(const ModelSpec& spec, const ModelWeights& weights, const ArenaSize& size) {
  Kinds normed, attended, feed_forward, sampled;
  for (const LayerWeights& layer : weights.layers) {
    const bool down = layer.query_down.present();  // then that reads them in the place of `query`
    for (const WeightView* weight :
         {down ? &layer.query_down : &layer.query, &layer.latent, &layer.rotated_key, &layer.query_gate, &layer.key,
          &layer.value, &layer.mixed, &layer.output_gate, &layer.step, &layer.correction, &layer.gate, &layer.up}) {
      normed.add(*weight);
    }
    if (!layer.expert_norm.present()) {
      for (const WeightView* weight : {&layer.router, &layer.expert_gate, &layer.expert_up}) normed.add(*weight);
    }
    if (layer.shared_gate.present()) normed.floats = true;
    normed.add(layer.embedding_gate);
    attended.add(layer.attention_output);
    feed_forward.add(layer.down);
  }
  normed.add(weights.layer_projection);
  sampled.add(weights.output);
  const int64_t rows = size.rows, query = int64_t{spec.head_count} * spec.head_size;
  const int64_t key = int64_t{std::max(spec.kv_head_count, spec.local_stored_kv_heads())} * spec.head_size;
  Layout layout;
  Arena arena;
  arena.hidden = layout.take(rows, spec.hidden_size);
  arena.normed = layout.take_rows(rows, spec.hidden_size, normed.floats, normed.bytes);
  arena.query = layout.take(rows, query);
  if (spec.gated_attention) arena.query_gate = layout.take(rows, query);
  arena.key = layout.take(rows, key);
  if (!spec.is_latent()) arena.value = layout.take(rows, key);  // else K is V
  arena.attended = layout.take_rows(rows, query, true, attended.bytes && !spec.is_latent());
  const int64_t widest = std::max(spec.feed_forward_size, spec.shared_expert_size);
  arena.feed_forward = layout.take_rows(rows, widest, feed_forward.floats, feed_forward.bytes);
  arena.experts = lay_out_experts(layout, spec, weights, rows);
  arena.states = lay_out_states(layout, spec, weights, rows);
  arena.latent = lay_out_latent(layout, spec, weights, rows);
  arena.embeddings = lay_out_embeddings(layout, spec, weights, rows);
  if (spec.first_sharing_layer > 0) arena.last_hidden = layout.take(rows, spec.hidden_size);
  if (spec.norms_values) {
    arena.projected_query = layout.take(rows, query);
    arena.projected_key = layout.take(rows, key);
    arena.projected_value = layout.take(rows, key);
    arena.narrowed = layout.take_rows(rows, query, attended.floats, attended.bytes);
  }
  const bool post_norms = std::ranges::any_of(weights.layers, [](const LayerWeights& layer) {
    return layer.attention_post_norm.present() || layer.feed_forward_post_norm.present();
  });
  if (post_norms) arena.added = layout.take(rows, spec.hidden_size);
  arena.sampled = layout.take_rows(size.logit_rows, spec.hidden_size, sampled.floats, sampled.bytes);
  arena.logits = layout.take(size.logit_rows, spec.vocabulary_size);
  arena.statistics_chunks = div_ceil(spec.vocabulary_size, kStatisticsChunk);
  arena.statistics = layout.take(size.logit_rows, int64_t{arena.statistics_chunks} * 4);
  arena.partials = layout.take(size.partial_slots, spec.head_size + 2);
  if (size.lora_rank > 0) {
    const auto with_floats = [&](StageRows some, int64_t columns) {
      if (some.floats == kNone) some.floats = layout.take(rows, columns);
      return some;
    };
    arena.adapted_normed = with_floats(arena.normed, spec.hidden_size);
    arena.adapted_feed_forward = with_floats(arena.feed_forward, spec.feed_forward_size);
    arena.gate = layout.take(rows, spec.feed_forward_size);
    arena.up = layout.take(rows, spec.feed_forward_size);
    arena.shrunk = layout.take(rows * 3, size.lora_rank);
  }
  if (size.copies > 0) {
    const int64_t before = layout.used(), attended_width = int64_t{spec.head_count} * spec.attended_size();
    const int64_t widest_copy = std::max<int64_t>({spec.hidden_size, attended_width, spec.latent.query_rank});
    const bool bytes = normed.bytes || attended.bytes || sampled.bytes || arena.latent.query_normed.bytes != kNone;
    arena.copy = layout.take_rows(size.copy_rows, widest_copy, true, bytes);
    arena.copy_stride = static_cast<int32_t>(layout.used() - before);
    layout.take(size.copies - 1, arena.copy_stride);
  }
  arena.floats = layout.used();
  return arena;
}

}  // namespace inflight
