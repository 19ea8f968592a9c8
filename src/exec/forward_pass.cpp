// SPDX-License-Identifier: Apache-2.0
#include "exec/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "exec/rope_angles.h"
#include "ops/linear_trial.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr int32_t kItemsPerWorker = 16;             // of a linear stage, so that the last ones come out even
constexpr int32_t kExpertItemsPerWorker = 4;        // of a token's experts: memory is read fastest in long pieces
constexpr int32_t kShortItemsPart = 4;              // a fused step's workers begin with items of all but a 4th part
constexpr size_t kItemBytesMin = size_t{16} << 10;  // weights of an item at least: a ticket costs about 0.1 us
constexpr int32_t kGroupCopiedRows = 1;             // that each work-group prepares for itself
static_assert(limits::kExpertSizeUnit % kPanelOutputs == 0, "each expert begins at a panel");
static_assert(kGroupCopiedRows <= std::min(kFewRows, kFewFloatRows), "steps with copies must be one launch");

// Panels of one item of a stage that reads `count` of them; even for pairs: rows are written in blocks of two panels.
int32_t panels_per_item(const StageWeight& weight, int32_t count, int32_t worker_count, int32_t items_per_worker,
                        bool pairs) {
  int32_t panels = div_ceil(count, worker_count * items_per_worker);
  const auto enough = static_cast<int32_t>(div_ceil(kItemBytesMin, panel_bytes(weight.type, weight.depth)));
  panels = std::max(panels, std::min(enough, div_ceil(count, 2 * worker_count)));
  return pairs ? align_up(panels, 2) : panels;
}

}  // namespace

ForwardPass::ForwardPass(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store,
                         const Arena& arena, const ArenaSize& size, const KernelShape& shape, int32_t position_count,
                         bool local_slots, int32_t worker_count, LaunchMode mode, const AdapterSizes& adapters)
    : arena_(arena),
      size_(size),
      shape_(shape),
      position_count_(position_count),
      worker_count_(worker_count),
      mode_(mode),
      long_items_(mode == LaunchMode::Fused ? worker_count : 0),
      copied_rows_(mode == LaunchMode::Fused         ? size.copy_rows
                   : mode == LaunchMode::FusedGroups ? kGroupCopiedRows
                                                     : 0),
      state_(spec.state),
      experts_used_(spec.experts_used),
      adapters_(adapters) {
  int32_t in_block = 0, in_slot = 0;
  for (int32_t layer = 0; layer < spec.layer_count; ++layer) {
    if (!spec.attends(layer) || spec.shares_kv(layer)) continue;
    is_local_.push_back(spec.is_local(layer));
    int32_t& units = local_slots && spec.is_local(layer) ? in_slot : in_block;
    unit_.push_back(units);
    units += spec.stored_kv_heads_of(layer);
  }
  const auto take = [&](std::vector<Stage>& to) {
    to.swap(fitted_);
    fitted_.clear();
  };
  for (const bool copied : {false, true}) {
    copied_ = copied;
    if (copied && copied_rows_ == 0) break;
    arena_ = arena;
    add_layers(spec, weights, store);
    take(copied ? copied_layers_ : layers_);
    group_ = 0;
    add_logits(spec, weights, store);
    take(copied ? copied_logits_ : logits_);
  }
  copied_ = false;
  if (adapters.slot_size > 0) {
    INFLIGHT_CHECK(!spec.is_latent() && !spec.norms_values);
    adapted_ = true;
    arena_.normed = arena.adapted_normed;
    arena_.feed_forward = arena.adapted_feed_forward;
    add_layers(spec, weights, store);
    take(adapted_layers_);
  }
}

void ForwardPass::add_layers(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store) {
  group_ = 0;
  add(Operation::Embed).embed = {.table = store.matrix(weights.token_embedding),
                                 .tokens = 0,
                                 .out = arena_.hidden,
                                 .scale = spec.hidden_embedding_scale()};
  if (spec.layer_embedding_size > 0) add_layer_embeddings(spec, weights, store);
  for (int32_t layer = 0; layer < spec.layer_count; ++layer) {
    if (layer > 0 && layer == spec.first_sharing_layer) add_last_rows(spec);
    add_layer(spec, weights.layers[static_cast<size_t>(layer)], store, layer);
  }
}

void ForwardPass::add_copy(const ModelSpec& spec, const WeightStore& store) {
  add_norm(spec, store, WeightView{}, WeightView{});
}

// Of all layers: (e sqrt(P) + norm(W h / sqrt(E))) / sqrt(2), e the token's further embedding, h the one that layer 0
// begins with. The root of E is taken out of the norm.
void ForwardPass::add_layer_embeddings(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store) {
  const EmbeddingArena& embeddings = arena_.embeddings;
  const auto size = static_cast<float>(spec.layer_embedding_size);
  add(Operation::Embed).embed = {.table = store.matrix(weights.layer_embeddings),
                                 .tokens = 0,
                                 .out = embeddings.rows,
                                 .scale = std::sqrt(size / 2.0F)};
  add_copy(spec, store);
  add_product(linear(store, weights.layer_projection, {}), prepared(arena_.normed), embeddings.projected,
              weights.layer_projection.rows);
  next_group();
  add(Operation::Norm).norm = {.in = embeddings.projected,
                               .rows_from = kNone,
                               .weight = store.vector(weights.layer_projection_norm),
                               .depth = spec.layer_embedding_size,
                               .epsilon = spec.norm_epsilon * static_cast<float>(spec.hidden_size),
                               .scale = std::sqrt(0.5F),
                               .added_to = embeddings.rows,
                               .parts = spec.layer_count};
}

void ForwardPass::add_last_rows(const ModelSpec& spec) {
  const auto gather = [&](int32_t& rows, int32_t depth, int32_t out) {
    add(Operation::Norm).norm = {
        .in = rows, .rows_from = 0, .weight = kNone, .depth = depth, .epsilon = 0.0F, .out = {.floats = out}};
    rows = out;
  };
  next_group();
  last_begin_ = fitted_.size();
  gather(arena_.hidden, spec.hidden_size, arena_.last_hidden);
  if (spec.layer_embedding_size == 0) return;
  gather(arena_.embeddings.rows, spec.layer_count * spec.layer_embedding_size, arena_.embeddings.last_rows);
}

// act(W_gate h) * the layer's embedding, through W_output and a norm, is added to the hidden states h.
void ForwardPass::add_embedding(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                int32_t layer) {
  const EmbeddingArena& embeddings = arena_.embeddings;
  const int32_t size = spec.layer_embedding_size;
  add_copy(spec, store);
  add_product(linear(store, weights.embedding_gate, {}), prepared(arena_.normed), embeddings.gate, size);
  next_group();
  add(Operation::Swiglu).swiglu = {.gate = embeddings.gate,
                                   .up = embeddings.rows + layer * size,
                                   .up_stride = spec.layer_count * size,
                                   .depth = size,
                                   .rows = 0,
                                   .out = embeddings.gated};
  next_group();
  add_residual(linear(store, weights.embedding_output, {}), embeddings.gated, arena_.added);
  add_post_norm(spec, store, weights.embedding_post_norm, weights.output_scale);
}

Stage& ForwardPass::add(Operation operation) {
  Stage stage{};
  stage.operation = operation;
  stage.counter = group_;
  stage.batch = 1;
  return fitted_.emplace_back(stage);
}

Stage& ForwardPass::add_preparation(Operation operation) {
  Stage& stage = add(operation);
  if (copied_) {
    stage.batch = 0;
  } else {
    next_group();
  }
  return stage;
}

StageRows ForwardPass::prepared(const StageRows& rows) const {
  if (!copied_) return rows;
  StageRows copy = arena_.copy;
  if (rows.floats == kNone) copy.floats = kNone;
  if (rows.bytes == kNone) copy.bytes = kNone;
  return copy;
}

LinearArgs ForwardPass::linear(const WeightStore& store, const WeightView& weight, const WeightView& bias) const {
  LinearArgs args{};
  args.weight[0] = store.matrix(weight);
  args.bias[0] = store.vector(bias);
  args.bias[1] = kNone;
  args.epilogue = Epilogue::Store;
  args.out = {};
  return args;
}

void ForwardPass::add_linear(const LinearArgs& args) {
  Stage& stage = add(Operation::Linear);
  stage.linear = args;
  const bool pairs = writes_rows(args.epilogue), swiglu = args.epilogue == Epilogue::Swiglu;
  const int32_t count = panel_count(args.weight[0].outputs);
  stage.linear.panels = in_groups(mode_)
                            ? few_panels(pairs)
                            : panels_per_item(args.weight[0], count, worker_count_, kItemsPerWorker, pairs);
  const bool mixed = swiglu && takes_bytes(args.weight[0].type) != takes_bytes(args.weight[1].type);
  if (in_groups(mode_) && mixed) copied_rows_ = 0;  // that has no kernel for few rows: such steps are no single launch
  if (long_items_ > 0) {
    const int32_t panels = (count - count / kShortItemsPart) / long_items_ / 2 * 2;
    if (panels > stage.linear.panels) {
      stage.linear.long_items = long_items_;
      stage.linear.long_panels = panels;
    }
  }
  const int32_t rest = count - stage.linear.long_items * stage.linear.long_panels;
  stage.items = stage.linear.long_items + div_ceil(rest, stage.linear.panels);
}

// A product of the normed hidden states.
void ForwardPass::add_stored(const WeightStore& store, const WeightView& weight, const WeightView& bias, int32_t out) {
  add_product(linear(store, weight, bias), prepared(arena_.normed), out, weight.rows);
}

void ForwardPass::add_product(LinearArgs args, const StageRows& in, int32_t out, int32_t out_stride) {
  args.in = in;
  args.out.floats = out;
  args.out_stride = out_stride;
  add_linear(args);
}

void ForwardPass::add_layer(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                            int32_t layer) {
  if (spec.mixing_of(layer) != Mixing::None) add_mixing(spec, weights, store, layer);
  if (weights.has_experts()) {
    add_mixture(spec, weights, store);
  } else if (weights.down.present()) {
    if (!spec.parallel_residual) {
      add_norm(spec, store, weights.feed_forward_norm, weights.feed_forward_norm_bias);
      add_feed_forward(spec, weights, store, layer);
    }
    next_group();
    const int32_t residual[] = {residual_of(weights.feed_forward_post_norm)};
    add_shrink(spec, {layer, LoraTarget::Down, arena_.feed_forward.floats, residual});
    add_residual(linear(store, weights.down, weights.down_bias), arena_.feed_forward, residual[0]);
    add_expand();
  }
  const bool embeds = weights.embedding_gate.present();
  add_post_norm(spec, store, weights.feed_forward_post_norm, embeds ? WeightView{} : weights.output_scale);
  if (embeds) add_embedding(spec, weights, store, layer);
}

void ForwardPass::add_mixing(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                             int32_t layer) {
  add_norm(spec, store, weights.attention_norm, weights.attention_norm_bias);
  if (weights.has_state()) add_state_products(spec, weights, store);
  if (spec.attends(layer) && spec.is_latent()) {
    add_latent_attention(spec, weights, store, layer);
  } else if (spec.attends(layer)) {
    add_attention(spec, weights, store, layer);
  }
  if (weights.has_state()) add_state(spec, weights, store, layer);
  add_post_norm(spec, store, weights.attention_post_norm);
}

void ForwardPass::add_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                           const WeightView& bias) {
  next_group();
  add_preparation(Operation::Norm).norm = norm(spec, store, weight, bias, prepared(arena_.normed));
}

void ForwardPass::add_feed_forward_beside(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                          int32_t layer) {
  if (weights.feed_forward_norm.present()) {
    add_norm(spec, store, weights.feed_forward_norm, weights.feed_forward_norm_bias);
  } else if (adapted_) {
    next_group();  // it shrinks rows into the place of those that attention expands
  }
  add_feed_forward(spec, weights, store, layer);
}

void ForwardPass::add_state_products(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store) {
  const StateArena& states = arena_.states;
  int32_t mixed = states.mixed;
  for (const WeightView* part : {&weights.mixed, &weights.mixed_keys, &weights.mixed_values}) {
    if (!part->present()) continue;
    add_product(linear(store, *part, {}), prepared(arena_.normed), mixed, spec.state.projected_width());
    mixed += part->rows;
  }
  if (weights.output_gate.present()) add_stored(store, weights.output_gate, {}, states.gate);
  if (weights.step.present()) add_stored(store, weights.step, {}, states.step);
  if (weights.correction.present()) add_stored(store, weights.correction, {}, states.correction);
}

void ForwardPass::add_state(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                            int32_t layer) {
  const StateArena& states = arena_.states;
  const StateArgs args{.mixed = states.mixed,
                       .convolution = store.vector(weights.convolution),
                       .convolution_bias = store.vector(weights.convolution_bias),
                       .place = spec.state_place_of(layer),
                       .entries = 0,
                       .step = states.step,
                       .step_bias = store.vector(weights.step_bias),
                       .decay = store.vector(weights.decay),
                       .correction = states.correction,
                       .skip = store.vector(weights.skip),
                       .gate = states.gate,
                       .norm = store.vector(weights.state_norm),
                       .epsilon = spec.norm_epsilon,
                       .rows = 0,
                       .out = states.read};
  for (const Operation operation : {Operation::Convolve, Operation::Update, Operation::Read}) {
    if (operation != Operation::Convolve && !spec.state.has_matrices()) break;
    next_group();
    add(operation).state = args;
  }
  next_group();
  add_residual(linear(store, weights.state_output, {}), states.read, residual_of(weights.attention_post_norm));
}

NormArgs ForwardPass::norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                           const WeightView& bias, const StageRows& out) const {
  return {.in = arena_.hidden,
          .rows_from = kNone,
          .weight = store.vector(weight),
          .depth = spec.hidden_size,
          .epsilon = spec.hidden_epsilon(),
          .out = out,
          .bias = store.vector(bias)};
}

// Rows that a router reads, and that are gathered, are not copies of the workers'. Where router, experts and the shared
// one have norms of their own, what they give is normed, too, and the sum is left for the layer's own norm.
void ForwardPass::add_mixture(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store) {
  const ExpertArena& experts = arena_.experts;
  const bool shared = weights.down.present(), shared_gate = weights.shared_gate.present();
  const bool gated = weights.expert_gate.present();
  const bool apart = weights.expert_norm.present();
  const StageRows routed = apart ? experts.routed : arena_.normed, read = apart ? experts.normed : arena_.normed;
  next_group();
  add(Operation::Norm).norm =
      norm(spec, store, weights.feed_forward_norm, weights.feed_forward_norm_bias, arena_.normed);
  if (apart) {
    NormArgs router_norm = norm(spec, store, weights.router_norm, {}, routed);
    router_norm.scale = 1.0F / std::sqrt(static_cast<float>(spec.hidden_size));
    add(Operation::Norm).norm = router_norm;
    add(Operation::Norm).norm = norm(spec, store, weights.expert_norm, {}, read);
  }
  next_group();
  add_product(linear(store, weights.router, weights.router_bias), routed, experts.logits, spec.expert_count);
  if (shared) add_gate_up(weights, store, arena_.normed);
  next_group();
  add(Operation::Route).route = {.logits = experts.logits,
                                 .experts = spec.expert_count,
                                 .used = spec.experts_used,
                                 .normed = int{spec.expert_weights_normed},
                                 .bias = store.vector(weights.choice_bias),
                                 .chosen = experts.chosen,
                                 .weights = experts.weights,
                                 .scale = spec.expert_weight_scale,
                                 .sigmoid = int{spec.expert_gating == Gating::Sigmoid},
                                 .groups = spec.expert_groups,
                                 .groups_used = spec.expert_groups_used,
                                 .scales = store.vector(weights.expert_scales)};
  if (shared) {
    add_residual(linear(store, weights.down, weights.down_bias), arena_.feed_forward,
                 shared_gate || apart ? experts.shared : arena_.hidden);
  }
  next_group();
  add(Operation::Sort).sort = {.chosen = experts.chosen,
                               .experts = spec.expert_count,
                               .counts = experts.counts,
                               .places = experts.places,
                               .active = experts.active};
  if (apart) {
    NormArgs behind_shared = norm_behind(spec, store, weights.shared_post_norm, experts.shared);
    behind_shared.out.floats = arena_.added;
    add(Operation::Norm).norm = behind_shared;
  }
  next_group();
  add(Operation::Gather).gather = {.in = read,
                                   .out = experts.gathered,
                                   .depth = spec.hidden_size,
                                   .used = spec.experts_used,
                                   .places = experts.places};
  next_group();
  ExpertsArgs first{.in = experts.gathered, .out = experts.feed_forward, .epilogue = Epilogue::Activate};
  first.weight[0] = store.matrix(gated ? weights.expert_gate : weights.expert_up);
  first.bias[0] = store.vector(gated ? weights.expert_gate_bias : weights.expert_up_bias);
  if (gated) {
    first.epilogue = Epilogue::Swiglu;
    first.weight[1] = store.matrix(weights.expert_up);
    first.bias[1] = store.vector(weights.expert_up_bias);
  }
  add_experts(spec, first);
  next_group();
  add_experts(spec, {.weight = {store.matrix(weights.expert_down)},
                     .in = experts.feed_forward,
                     .out = {.floats = experts.out},
                     .epilogue = Epilogue::Store,
                     .bias = {store.vector(weights.expert_down_bias), kNone}});
  next_group();
  add(Operation::Merge).merge = {.experts = experts.out,
                                 .weights = experts.weights,
                                 .places = experts.places,
                                 .used = spec.experts_used,
                                 .depth = spec.hidden_size,
                                 .out = apart ? experts.shared : arena_.hidden,
                                 .added_to = apart ? kNone : arena_.hidden,
                                 .shared = shared_gate ? experts.shared : kNone,
                                 .shared_gate = store.vector(weights.shared_gate),
                                 .in = arena_.normed.floats};
  if (!apart) return;
  next_group();
  NormArgs behind_experts = norm_behind(spec, store, weights.expert_post_norm, experts.shared);
  behind_experts.added_to = arena_.added;
  add(Operation::Norm).norm = behind_experts;
}

// Items are cut for a step of one token, which reads the fewest experts.
void ForwardPass::add_experts(const ModelSpec& spec, ExpertsArgs args) {
  args.outputs = args.weight[0].outputs / spec.expert_count;
  args.out_stride = args.outputs;
  args.active = arena_.experts.active;
  const int32_t count = panel_count(args.outputs), read = count * spec.experts_used;
  const bool pairs = writes_rows(args.epilogue);
  const int32_t panels = panels_per_item(args.weight[0], read, worker_count_, kExpertItemsPerWorker, pairs);
  args.panels = std::min(panels, align_up(count, 2));
  add(Operation::Experts).experts = args;
}

NormArgs ForwardPass::norm_behind(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                                  int32_t in) {
  return {.in = in,
          .rows_from = kNone,
          .weight = store.vector(weight),
          .depth = spec.hidden_size,
          .epsilon = spec.norm_epsilon};
}

void ForwardPass::add_residual(LinearArgs args, const StageRows& in, int32_t out) {
  args.in = in;
  args.epilogue = out == arena_.hidden ? Epilogue::Add : Epilogue::Store;
  args.out.floats = out;
  args.out_stride = args.weight[0].outputs;
  add_linear(args);
}

void ForwardPass::add_post_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& post_norm,
                                const WeightView& scale) {
  if (!post_norm.present()) return;
  next_group();
  NormArgs behind = norm_behind(spec, store, post_norm, arena_.added);
  behind.added_to = arena_.hidden;
  behind.after = store.vector(scale);
  add(Operation::Norm).norm = behind;
}

void ForwardPass::add_heads_norm(const ModelSpec& spec, const WeightStore& store, const WeightView& weight,
                                 int32_t heads) {
  add(Operation::Norm).norm = {.in = heads,
                               .rows_from = kNone,
                               .weight = store.vector(weight),
                               .depth = weight.columns,
                               .epsilon = spec.norm_epsilon,
                               .out = {.floats = heads}};
}

void ForwardPass::add_gate_up(const LayerWeights& weights, const WeightStore& store, const StageRows& in) {
  const bool gated = weights.gate.present();
  LinearArgs args = linear(store, gated ? weights.gate : weights.up, gated ? weights.gate_bias : weights.up_bias);
  if (gated) {
    args.weight[1] = store.matrix(weights.up);
    args.bias[1] = store.vector(weights.up_bias);
  }
  args.in = in;
  args.out = arena_.feed_forward;
  args.epilogue = gated ? Epilogue::Swiglu : Epilogue::Activate;
  add_linear(args);
}

// act(gate) * up, or act(up): fused with the products, unless something is added to these before.
void ForwardPass::add_feed_forward(const ModelSpec& spec, const LayerWeights& weights, const WeightStore& store,
                                   int32_t layer) {
  if (!adapted_ || !spec.gated_feed_forward) return add_gate_up(weights, store, prepared(arena_.normed));
  LinearArgs args = linear(store, weights.gate, weights.gate_bias);
  args.in = arena_.normed;
  const int32_t products[] = {arena_.gate, arena_.up};
  add_shrink(spec, {layer, LoraTarget::Gate, arena_.normed.floats, products});
  args.out.floats = arena_.gate;
  args.out_stride = spec.feed_forward_size;
  add_linear(args);
  args.weight[0] = store.matrix(weights.up);
  args.bias[0] = store.vector(weights.up_bias);
  args.out.floats = arena_.up;
  add_linear(args);
  add_expand();
  next_group();
  add(Operation::Swiglu).swiglu = {.gate = arena_.gate,
                                   .up = arena_.up,
                                   .up_stride = spec.feed_forward_size,
                                   .depth = spec.feed_forward_size,
                                   .rows = 0,
                                   .out = arena_.feed_forward};
}

void ForwardPass::add_shrink(const ModelSpec& spec, const AdaptedMatrices& matrices) {
  if (!adapted_) return;
  adapter_args_ = adapter_args(spec, arena_, size_, adapters_, matrices);
  add(Operation::Shrink).adapter = adapter_args_;
}

void ForwardPass::add_expand() {
  if (!adapted_) return;
  next_group();
  add(Operation::Expand).adapter = adapter_args_;
}

void ForwardPass::add_logits(const ModelSpec& spec, const ModelWeights& weights, const WeightStore& store) {
  NormArgs last = norm(spec, store, weights.output_norm, weights.output_norm_bias, prepared(arena_.sampled));
  last.rows_from = 0;
  last.scale = spec.logit_scale;
  add_preparation(Operation::Norm).norm = last;
  LinearArgs args = linear(store, weights.output, weights.output_bias);
  args.in = prepared(arena_.sampled);
  args.epilogue = Epilogue::Logits;
  args.out.floats = arena_.logits;
  args.out_stride = spec.vocabulary_size;
  add_linear(args);
  next_group();
  const StatisticsArgs statistics{.logits = arena_.logits,
                                  .out = arena_.statistics,
                                  .vocabulary = spec.vocabulary_size,
                                  .chunks = arena_.statistics_chunks,
                                  .list = kNone};
  const SampleArgs sample{.logits = arena_.logits,
                          .statistics = arena_.statistics,
                          .vocabulary = spec.vocabulary_size,
                          .chunks = arena_.statistics_chunks,
                          .list = 0,
                          .results = 0};
  add(Operation::Statistics).statistics = statistics;
  next_group();
  add(Operation::Change).sample = sample;
  next_group();
  Stage& again = add(Operation::Statistics);
  again.statistics = statistics;
  again.statistics.list = 0;
  next_group();
  add(Operation::Sample).sample = sample;
  next_group();
}

}  // namespace inflight
