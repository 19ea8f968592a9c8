// SPDX-License-Identifier: Apache-2.0
// The shapes of synthetic_model.h.
#include <algorithm>
#include <cstdint>
#include <string>

#include "support/synthetic_model.h"

namespace inflight::test {

ModelSpec SyntheticModel::small_spec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.name = "synthetic";
  spec.layer_count = 2;
  spec.hidden_size = 64;
  spec.feed_forward_size = 96;
  spec.head_count = 4;
  spec.kv_head_count = 2;
  spec.head_size = 16;
  spec.vocabulary_size = 300;
  spec.context_length = 256;
  spec.rope_dimension_count = 16;
  return spec;
}

void SyntheticModel::make_gemma(int32_t version) {
  spec.architecture = version == 1 ? "gemma" : "gemma" + std::to_string(version);
  spec.rope_style = RopeStyle::HalfSplit;
  if (version == 1) return;
  norms_behind = true;
  spec.layer_count = 4;
  spec.local_window = 70;
  spec.global_every = version;
  if (version == 2) {
    spec.attention_softcap = 1.5F;
    spec.logit_softcap = 2.0F;
  } else {
    query_key_norm = true;
    spec.rope_base = 1e6F;
    spec.rope_scaling = {.kind = RopeScaling::Kind::Linear, .factor = 8.0F};
  }
}

void SyntheticModel::make_gemma4() {
  make_gemma(3);
  spec.architecture = "gemma4";
  spec.layer_count = 6;
  spec.global_every = 2;
  spec.feed_forward_sizes = {96, 96, 96, 96, 160, 160};
  spec.feed_forward_size = 160;
  spec.head_size = spec.rope_dimension_count = 64;
  spec.local_head_size = 32;
  spec.local_rope_base = 500.0F;
  spec.rope_scaling = {};
  spec.norms_values = true;
  spec.attention_scale = 1.0F;
  spec.first_sharing_layer = 4;
  spec.layer_embedding_size = 32;
  spec.logit_softcap = 2.0F;
  rope_factors.assign(32, 1e30F);
  std::fill_n(rope_factors.begin(), 8, 1.0F);
}

void SyntheticModel::make_large_gemma4(bool mixture) {
  make_gemma4();
  spec.layer_count = 4;
  spec.feed_forward_sizes.clear();
  spec.first_sharing_layer = spec.layer_embedding_size = 0;
  spec.kv_head_count = 1;
  spec.local_kv_head_count = 4;
  keys_are_values = true;
  if (!mixture) return;
  experts_beside = true;
  spec.expert_count = 6;
  spec.experts_used = 2;
  spec.expert_size = 48;
}

void SyntheticModel::make_mixture(int32_t experts, int32_t used, bool shared) {
  spec.architecture = shared ? "qwen2moe" : "qwen3moe";
  spec.rope_style = RopeStyle::HalfSplit;
  spec.expert_count = experts;
  spec.experts_used = used;
  spec.expert_size = 48;
  spec.expert_weights_normed = !shared;
  query_key_value_bias = shared_gate = shared;
  query_key_norm = !shared;
  if (shared) spec.shared_expert_size = 80;
}

void SyntheticModel::make_deepseek2(bool query_rank) {
  make_mixture(6, 2, false);
  spec.architecture = "deepseek2";
  spec.rope_style = RopeStyle::Interleaved;
  spec.layer_count = 3;
  dense_layers = 1;
  spec.shared_expert_size = 96;
  spec.expert_weights_normed = query_rank;
  spec.expert_gating = query_rank ? Gating::Sigmoid : Gating::Softmax;
  choice_bias = query_rank;
  query_key_norm = false;
  spec.kv_head_count = 1;
  spec.latent = {.rank = 64, .query_rank = query_rank ? 96 : 0, .unrotated_size = 32, .value_size = 48};
  spec.head_size = spec.rope_dimension_count + spec.latent.rank;
  spec.rope_scaling = {.kind = RopeScaling::Kind::Yarn, .factor = 8.0F, .original_context_length = 64};
}

void SyntheticModel::make_gpt_oss(int32_t experts, int32_t used) {
  make_mixture(experts, used, false);
  spec.architecture = "gpt-oss";
  spec.layer_count = 4;
  spec.local_window = 70;
  spec.global_every = 2;
  query_key_norm = false;
  query_key_value_bias = attention_output_bias = sinks = true;
  spec.rope_scaling = {
      .kind = RopeScaling::Kind::Yarn, .factor = 32.0F, .original_context_length = 64, .magnitude = 1.3466F};
}

void SyntheticModel::make_exaone4() {
  spec.architecture = "exaone4";
  spec.rope_style = RopeStyle::HalfSplit;
  norms_before = false;
  norms_behind = query_key_norm = true;
  spec.layer_count = 5;
  spec.local_window = 70;
  spec.global_every = spec.unrotated_every = 3;
}

void SyntheticModel::make_ministral3() {
  spec.architecture = "mistral3";
  spec.rope_scaling = {.kind = RopeScaling::Kind::Yarn, .factor = 4.0F, .original_context_length = 100};
  spec.temperature_scale = 0.5F;
  spec.temperature_length = 100;
}

void SyntheticModel::make_gpt_neox(bool parallel) {
  spec.architecture = "gptneox";
  spec.rope_style = RopeStyle::HalfSplit;
  spec.rope_dimension_count = 8;
  spec.norm_epsilon = 1e-3F;
  spec.mean_norms = norm_bias = true;
  spec.gated_feed_forward = false;
  spec.parallel_residual = parallel;
  query_key_value_bias = attention_output_bias = feed_forward_bias = true;
}

void SyntheticModel::make_phi2() {
  make_gpt_neox(true);
  spec.architecture = "phi2";
  second_norm = false;
  logit_bias = true;
}

void SyntheticModel::make_nemotron() {
  make_gpt_neox(false);
  spec.architecture = "nemotron";
}

void SyntheticModel::make_cohere2() {
  spec.architecture = "cohere2";
  spec.mean_norms = spec.parallel_residual = true;
  second_norm = false;
  spec.logit_scale = 0.25F;
  spec.layer_count = 5;
  spec.local_window = 70;
  spec.global_every = spec.unrotated_every = 3;
}

void SyntheticModel::make_olmo() {
  spec.architecture = "olmo";
  spec.mean_norms = weightless_norms = true;
  norms_before = false;
}

}  // namespace inflight::test
