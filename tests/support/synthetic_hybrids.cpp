// SPDX-License-Identifier: Apache-2.0
// The shapes of synthetic_model.h whose layers have states.
#include <cstdint>

#include "support/synthetic_model.h"

namespace inflight::test {

using enum Mixing;

namespace {

StateShape mamba_state(int32_t key_size, int32_t value_size) {
  return {.kind = StateKind::Mamba2,
          .key_heads = 2,
          .value_heads = 4,
          .grouped_heads = true,
          .key_size = key_size,
          .value_size = value_size,
          .window = 4};
}

}  // namespace

void SyntheticModel::make_qwen35(bool mixture) {
  if (mixture) make_mixture(6, 2, true);
  spec.architecture = mixture ? "qwen35moe" : "qwen35";
  spec.rope_style = RopeStyle::HalfSplit;
  spec.expert_weights_normed = true;
  spec.layer_count = 6;
  spec.mixing = {State, State, Attention, State, State, Attention};
  spec.state = {.key_heads = 2, .value_heads = 4, .key_size = 32, .value_size = 32, .window = 4};
  spec.gated_attention = query_key_norm = true;
  query_key_value_bias = false;
  spec.rope_dimension_count = 8;
}

void SyntheticModel::make_lfm2(bool mixture) {
  if (mixture) {
    make_mixture(6, 2, false);
    spec.expert_gating = Gating::Sigmoid;
    choice_bias = true;
    dense_layers = 1;
  }
  spec.architecture = mixture ? "lfm2moe" : "lfm2";
  spec.rope_style = RopeStyle::HalfSplit;
  spec.layer_count = 6;
  spec.mixing = {State, State, Attention, State, Attention, State};
  spec.state = {.kind = StateKind::ShortConvolution, .value_heads = 1, .value_size = spec.hidden_size, .window = 3};
  query_key_norm = true;
}

void SyntheticModel::make_granite_hybrid(bool mixture) {
  if (mixture) {
    make_mixture(6, 2, false);
    query_key_norm = false;
    spec.shared_expert_size = 80;
  }
  spec.architecture = "granitehybrid";
  spec.rope_style = RopeStyle::Interleaved;
  spec.unrotated_every = 1;
  spec.embedding_scale = 6.0F;
  spec.residual_scale = 0.25F;
  spec.attention_scale = 0.5F;
  spec.logit_scale = 0.125F;
  spec.layer_count = 5;
  spec.mixing = {State, State, Attention, State, Attention};
  spec.state = mamba_state(64, 32);
}

void SyntheticModel::make_nemotron_h(bool mixture) {
  if (mixture) {
    make_mixture(6, 2, false);
    query_key_norm = false;
    choice_bias = true;
    spec.shared_expert_size = 80;
    spec.expert_weight_scale = 2.5F;
    spec.expert_gating = Gating::Sigmoid;
  }
  spec.architecture = mixture ? "nemotron_h_moe" : "nemotron_h";
  spec.rope_style = RopeStyle::Interleaved;
  spec.unrotated_every = 1;
  spec.gated_feed_forward = false;
  spec.layer_count = 7;
  spec.mixing = {State, None, State, Attention, None, State, None};
  const int32_t size = mixture ? spec.expert_size : 96;
  spec.feed_forward_size = size;
  spec.feed_forward_sizes = {0, size, 0, 0, size, 0, size};
  spec.state = mamba_state(32, 48);
}

void SyntheticModel::make_falcon_h1() {
  spec.architecture = "falcon-h1";
  spec.rope_style = RopeStyle::HalfSplit;
  spec.layer_count = 3;
  spec.mixing.assign(3, Both);
  spec.state = mamba_state(64, 32);
}

void SyntheticModel::make_qwen3next(bool older) {
  joined_states = older;
  make_qwen35(true);
  spec.architecture = "qwen3next";
  spec.state.value_heads = 6;
  spec.state.grouped_heads = true;
}

}  // namespace inflight::test
