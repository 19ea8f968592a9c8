// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/quote.h"

namespace inflight {
namespace {

using enum Extent;
using enum Presence;
using enum Mixer;

constexpr LayerTensor kLayerTensors[] = {
    {"attn_norm.weight", &LayerWeights::attention_norm, One, Hidden, Always, Some},
    {"attn_norm.bias", &LayerWeights::attention_norm_bias, One, Hidden, WhereNeeded},
    {"attn_q.weight", &LayerWeights::query, Query, Hidden, Always, Attention},
    {"attn_k.weight", &LayerWeights::key, KeyValue, Hidden, Always, OwnKeys},
    {"attn_v.weight", &LayerWeights::value, KeyValue, Hidden, Always, OwnKeys},
    {"attn_q.bias", &LayerWeights::query_bias, One, Query, Optional, Attention},
    {"attn_k.bias", &LayerWeights::key_bias, One, KeyValue, Optional, OwnKeys},
    {"attn_v.bias", &LayerWeights::value_bias, One, KeyValue, Optional, OwnKeys},
    {"attn_q_norm.weight", &LayerWeights::query_norm, One, QueryNorm, WhereNeeded, Attention},
    {"attn_k_norm.weight", &LayerWeights::key_norm, One, KeyNorm, WhereNeeded, OwnKeys},
    {"attn_output.weight", &LayerWeights::attention_output, Hidden, Query, Always, Attention},
    {"attn_output.bias", &LayerWeights::attention_output_bias, One, Hidden, Optional, Attention},
    {"attn_sinks.weight", &LayerWeights::attention_sinks, One, Heads, WhereNeeded, Attention},
    {"attn_kv_a_norm.weight", &LayerWeights::latent_norm, One, LatentRank, Always, LatentAttention},
    {"attn_output.weight", &LayerWeights::attention_output, Hidden, Attended, Always, LatentAttention},
    {"attn_qkv.weight", &LayerWeights::mixed, StateMixed, Hidden, Always, DeltaNet},
    {"ssm_conv1d.weight", &LayerWeights::convolution, StateMixed, StateWindow, Always, DeltaNet},
    {"attn_gate.weight", &LayerWeights::output_gate, StateValues, Hidden, Always, DeltaNet},
    {"ssm_alpha.weight", &LayerWeights::step, StateHeads, Hidden, Always, DeltaNet},
    {"ssm_beta.weight", &LayerWeights::correction, StateHeads, Hidden, Always, DeltaNet},
    {"ssm_dt.bias", &LayerWeights::step_bias, One, StateHeads, Always, DeltaNet},
    {"ssm_a", &LayerWeights::decay, One, StateHeads, Always, DeltaNet},
    {"ssm_norm.weight", &LayerWeights::state_norm, One, StateNorm, Always, DeltaNet},
    {"ssm_out.weight", &LayerWeights::state_output, Hidden, StateValues, Always, DeltaNet},
    {"shortconv.in_proj.weight", &LayerWeights::mixed, StateProjected, Hidden, Always, ShortConvolution},
    {"shortconv.conv.weight", &LayerWeights::convolution, StateMixed, StateWindow, Always, ShortConvolution},
    {"shortconv.out_proj.weight", &LayerWeights::state_output, Hidden, StateValues, Always, ShortConvolution},
    {"ssm_conv1d.weight", &LayerWeights::convolution, StateMixed, StateWindow, Always, Mamba2},
    {"ssm_conv1d.bias", &LayerWeights::convolution_bias, One, StateMixed, Optional, Mamba2},
    {"ssm_dt.bias", &LayerWeights::step_bias, One, StateHeads, Always, Mamba2},
    {"ssm_a", &LayerWeights::decay, StateHeads, One, Always, Mamba2},
    {"ssm_d", &LayerWeights::skip, StateHeads, One, Always, Mamba2},
    {"ssm_norm.weight", &LayerWeights::state_norm, StateGroups, StateNorm, Always, Mamba2},
    {"ssm_out.weight", &LayerWeights::state_output, Hidden, StateValues, Always, Mamba2},
    {"post_attention_norm.weight", &LayerWeights::attention_post_norm, One, Hidden, WhereNeeded},
    {"ffn_norm.weight", &LayerWeights::feed_forward_norm, One, Hidden, WithFeedForward},
    {"ffn_norm.bias", &LayerWeights::feed_forward_norm_bias, One, Hidden, WhereNeeded},
    {"ffn_gate.weight", &LayerWeights::gate, FeedForward, Hidden, Gated},
    {"ffn_up.weight", &LayerWeights::up, FeedForward, Hidden, Dense},
    {"ffn_down.weight", &LayerWeights::down, Hidden, FeedForward, Dense},
    {"post_ffw_norm.weight", &LayerWeights::feed_forward_post_norm, One, Hidden, WhereNeeded},
    {"inp_gate.weight", &LayerWeights::embedding_gate, LayerEmbedding, Hidden, Embedded},
    {"proj.weight", &LayerWeights::embedding_output, Hidden, LayerEmbedding, Embedded},
    {"post_norm.weight", &LayerWeights::embedding_post_norm, One, Hidden, Embedded},
    {"layer_output_scale.weight", &LayerWeights::output_scale, One, One, Optional},
    {"ffn_gate.bias", &LayerWeights::gate_bias, One, FeedForward, Optional},
    {"ffn_up.bias", &LayerWeights::up_bias, One, FeedForward, Optional},
    {"ffn_down.bias", &LayerWeights::down_bias, One, Hidden, Optional},
    {"ffn_gate_inp.weight", &LayerWeights::router, Experts, Hidden, Mixed},
    {"ffn_gate_inp.bias", &LayerWeights::router_bias, One, Experts, WhereNeeded},
    {"ffn_gate_inp.scale", &LayerWeights::router_norm, One, Hidden, Beside},
    {"pre_ffw_norm_2.weight", &LayerWeights::expert_norm, One, Hidden, Beside},
    {"post_ffw_norm_2.weight", &LayerWeights::expert_post_norm, One, Hidden, Beside},
    {"post_ffw_norm_1.weight", &LayerWeights::shared_post_norm, One, Hidden, Beside},
    {"exp_probs_b.bias", &LayerWeights::choice_bias, One, Experts, Optional},
    {"ffn_gate_exps.weight", &LayerWeights::expert_gate, Expert, Hidden, Mixed, Any, true},
    {"ffn_up_exps.weight", &LayerWeights::expert_up, Expert, Hidden, Mixed, Any, true},
    {"ffn_down_exps.weight", &LayerWeights::expert_down, Hidden, Expert, Mixed, Any, true},
    {"ffn_down_exps.scale", &LayerWeights::expert_scales, One, Experts, Optional},
    {"ffn_gate_exps.bias", &LayerWeights::expert_gate_bias, One, Expert, WhereNeeded, Any, true},
    {"ffn_up_exps.bias", &LayerWeights::expert_up_bias, One, Expert, WhereNeeded, Any, true},
    {"ffn_down_exps.bias", &LayerWeights::expert_down_bias, One, Hidden, WhereNeeded, Any, true},
    {"ffn_gate_shexp.weight", &LayerWeights::gate, SharedExpert, Hidden, Shared},
    {"ffn_up_shexp.weight", &LayerWeights::up, SharedExpert, Hidden, Shared},
    {"ffn_down_shexp.weight", &LayerWeights::down, Hidden, SharedExpert, Shared},
    {"ffn_gate_inp_shexp.weight", &LayerWeights::shared_gate, One, Hidden, Shared},
};

constexpr std::string_view kQueryKeyValueBiases[] = {"attn_q.bias", "attn_k.bias", "attn_v.bias"};
constexpr std::string_view kQueryKeyNorms[] = {"attn_q_norm.weight", "attn_k_norm.weight"};
constexpr std::string_view kValue[] = {"attn_v.weight"};
constexpr std::string_view kSharedGate[] = {"ffn_gate_inp_shexp.weight"};
constexpr std::string_view kPostNorms[] = {"post_attention_norm.weight", "post_ffw_norm.weight"};
constexpr std::string_view kNormsBehind[] = {"attn_q_norm.weight", "attn_k_norm.weight", "post_attention_norm.weight",
                                             "post_ffw_norm.weight"};
constexpr std::string_view kNormBiases[] = {"attn_norm.bias", "ffn_norm.bias"};
constexpr std::string_view kNormBias[] = {"attn_norm.bias"};
constexpr std::string_view kSecondNorm[] = {"ffn_norm.weight"};
constexpr std::string_view kNormsBefore[] = {"attn_norm.weight", "ffn_norm.weight"};
constexpr std::string_view kSinksAndBiases[] = {"attn_q.bias",        "attn_k.bias",       "attn_v.bias",
                                                "attn_output.bias",   "attn_sinks.weight", "ffn_gate_inp.bias",
                                                "ffn_gate_exps.bias", "ffn_up_exps.bias",  "ffn_down_exps.bias"};
constexpr std::string_view kExpertGates[] = {"ffn_gate_exps.weight", "ffn_gate_shexp.weight",
                                             "ffn_gate_inp_shexp.weight"};
constexpr std::string_view kStateNorm[] = {"ssm_norm.weight"};
constexpr RenamedTensor kNormBehindAttention[] = {{"ffn_norm.weight", "post_attention_norm.weight"}};
constexpr RenamedTensor kNormWithoutSuffix[] = {{"ffn_norm.weight", "ffn_norm"}};
constexpr RenamedTensor kOneNorm[] = {{"ffn_norm.weight", "attn_norm.weight"}};
constexpr std::string_view kLogitScale[] = {"logit_scale"};
constexpr std::string_view kScales[] = {"embedding_scale", "residual_scale", "logit_scale"};

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .lacking = kSharedGate, .experts = true},
    {.name = "qwen2", .rope_style = RopeStyle::HalfSplit, .needed = kQueryKeyValueBiases},
    {.name = "qwen3", .rope_style = RopeStyle::HalfSplit, .needed = kQueryKeyNorms},
    {.name = "qwen2vl", .rope_style = RopeStyle::HalfSplit, .needed = kQueryKeyValueBiases},
    {.name = "qwen3vl", .rope_style = RopeStyle::HalfSplit, .needed = kQueryKeyNorms},
    {.name = "qwen3vlmoe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .experts = true},
    {.name = "qwen35",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .renamed = kNormBehindAttention,
     .state = StateKind::DeltaNet,
     .attention_every = 4,
     .gated_attention = true},
    {.name = "qwen35moe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .renamed = kNormBehindAttention,
     .state = StateKind::DeltaNet,
     .attention_every = 4,
     .gated_attention = true,
     .experts = true},
    {.name = "qwen3next",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .renamed = kNormBehindAttention,
     .state = StateKind::DeltaNet,
     .attention_every = 4,
     .grouped_heads = true,
     .gated_attention = true,
     .experts = true},
    {.name = "qwen2moe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyValueBiases,
     .experts = true,
     .expert_weights_normed = false},
    {.name = "qwen3moe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .experts = true},
    {.name = "arcee", .gated_feed_forward = false, .activation = Activation::ReluSquared},
    {.name = "bailingmoe", .lacking = kSharedGate, .experts = true, .expert_weights_normed = false},
    {.name = "bailingmoe2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .experts = true,
     .expert_weights_normed = false},
    {.name = "deepseek2", .lacking = kSharedGate, .latent = true, .experts = true, .expert_weights_normed = false},
    {.name = "chatglm"},
    {.name = "cohere2",
     .lacking = kSecondNorm,
     .needed_keys = kLogitScale,
     .mean_norms = true,
     .residual = Residual::Parallel,
     .logits_multiplied = true,
     .global_every = 4,
     .globals_unrotated = true},
    {.name = "command-r",
     .lacking = kSecondNorm,
     .mean_norms = true,
     .residual = Residual::Parallel,
     .logits_multiplied = true},
    {.name = "deepseek", .lacking = kSharedGate, .experts = true, .expert_weights_normed = false},
    {.name = "dots1",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .experts = true,
     .expert_weights_normed = false},
    {.name = "ernie4_5"},
    {.name = "ernie4_5-moe", .lacking = kSharedGate, .experts = true},
    {.name = "exaone", .rope_style = RopeStyle::HalfSplit},
    {.name = "exaone4",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormsBehind,
     .lacking = kNormsBefore,
     .global_every = 4,
     .globals_unrotated = true},
    {.name = "falcon-h1",
     .rope_style = RopeStyle::HalfSplit,
     .lacking = kStateNorm,
     .optional = kStateNorm,
     .renamed = kNormWithoutSuffix,
     .state = StateKind::Mamba2,
     .state_beside = true},
    {.name = "gemma", .rope_style = RopeStyle::HalfSplit, .embeddings_by_width = true, .activation = Activation::Gelu},
    {.name = "gemma2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kPostNorms,
     .embeddings_by_width = true,
     .global_every = 2,
     .activation = Activation::Gelu},
    {.name = "gemma3",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormsBehind,
     .embeddings_by_width = true,
     .global_every = 6,
     .local_rope = LocalRope::Base10000,
     .activation = Activation::Gelu},
    {.name = "gemma4",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormsBehind,
     .optional = kValue,
     .embeddings_by_width = true,
     .global_every = 6,
     .local_rope = LocalRope::Base10000,
     .activation = Activation::Gelu,
     .norms_values = true,
     .attention_scale = 1.0F,
     .experts = true,
     .dense_beside_experts = true},
    {.name = "glm4", .needed = kPostNorms},
    {.name = "glm4moe",
     .rope_style = RopeStyle::HalfSplit,
     .lacking = kSharedGate,
     .optional = kQueryKeyNorms,
     .renamed = kNormBehindAttention,
     .experts = true,
     .expert_gating = Gating::Sigmoid,
     .expert_weights_normed = false},
    {.name = "gpt-oss",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kSinksAndBiases,
     .lacking = kSharedGate,
     .renamed = kNormBehindAttention,
     .global_every = 2,
     .activation = Activation::ClampedSwiglu,
     .experts = true},
    {.name = "gptneox",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormBiases,
     .mean_norms = true,
     .gated_feed_forward = false,
     .residual = Residual::Stated,
     .activation = Activation::Gelu},
    {.name = "granite", .needed_keys = kLogitScale},
    {.name = "granitemoe", .lacking = kSharedGate, .needed_keys = kLogitScale, .experts = true},
    {.name = "granitehybrid", .lacking = kSharedGate, .state = StateKind::Mamba2, .experts = true},
    {.name = "hunyuan-dense", .rope_style = RopeStyle::HalfSplit, .needed = kQueryKeyNorms, .norms_rotated = true},
    {.name = "hunyuan-moe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .norms_rotated = true,
     .experts = true},
    {.name = "internlm2"},
    {.name = "lfm2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .output_norm = "token_embd_norm.weight",
     .state = StateKind::ShortConvolution},
    {.name = "lfm2moe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .output_norm = "token_embd_norm.weight",
     .state = StateKind::ShortConvolution,
     .experts = true},
    {.name = "maincoder", .needed = kQueryKeyNorms, .norms_rotated = true},
    {.name = "minicpm", .needed_keys = kScales},
    {.name = "minimax-m2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .norms_heads_together = true,
     .experts = true,
     .expert_gating = Gating::Sigmoid},
    {.name = "mistral3"},
    {.name = "nemotron",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormBiases,
     .mean_norms = true,
     .gated_feed_forward = false,
     .activation = Activation::ReluSquared},
    {.name = "nemotron_h",
     .renamed = kOneNorm,
     .gated_feed_forward = false,
     .unrotated_every = 1,
     .activation = Activation::ReluSquared,
     .state = StateKind::Mamba2,
     .lone_parts = true},
    {.name = "nemotron_h_moe",
     .lacking = kExpertGates,
     .renamed = kOneNorm,
     .gated_feed_forward = false,
     .unrotated_every = 1,
     .activation = Activation::ReluSquared,
     .state = StateKind::Mamba2,
     .lone_parts = true,
     .experts = true,
     .expert_gating = Gating::Sigmoid,
     .expert_weights_normed = false},
    {.name = "olmo", .lacking = kNormsBefore, .weightless_norms = true, .mean_norms = true},
    {.name = "olmo2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormsBehind,
     .lacking = kNormsBefore,
     .global_every = 4,
     .local_rope = LocalRope::Unscaled,
     .norms_heads_together = true},
    {.name = "olmoe",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kQueryKeyNorms,
     .lacking = kSharedGate,
     .norms_heads_together = true,
     .experts = true,
     .expert_weights_normed = false},
    {.name = "orion", .rope_style = RopeStyle::HalfSplit, .needed = kNormBiases, .mean_norms = true},
    {.name = "pangu-embedded", .rope_style = RopeStyle::HalfSplit},
    {.name = "phi2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormBias,
     .lacking = kSecondNorm,
     .mean_norms = true,
     .gated_feed_forward = false,
     .residual = Residual::Parallel,
     .activation = Activation::Gelu},
    {.name = "phi3", .rope_style = RopeStyle::HalfSplit},
    {.name = "seed_oss", .rope_style = RopeStyle::HalfSplit, .renamed = kNormBehindAttention},
    {.name = "smollm3", .unrotated_every = 4},
    {.name = "stablelm", .rope_style = RopeStyle::HalfSplit, .needed = kNormBiases, .mean_norms = true},
    {.name = "starcoder2",
     .rope_style = RopeStyle::HalfSplit,
     .needed = kNormBiases,
     .mean_norms = true,
     .gated_feed_forward = false,
     .activation = Activation::Gelu},
    {.name = "xverse"},
};

constexpr std::string_view kQueryKeyValue[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
constexpr std::string_view kGateUp[] = {"ffn_gate.weight", "ffn_up.weight"};
constexpr JoinedTensor kJoinedTensors[] = {
    {"attn_qkv.weight", kQueryKeyValue},
    {"attn_qkv.bias", kQueryKeyValueBiases},
    {"ffn_up.weight", kGateUp},
};

}  // namespace

int32_t extent_of(const ModelSpec& spec, int32_t layer, Extent extent) {
  switch (extent) {
    case One:
      return 1;
    case Hidden:
      return spec.hidden_size;
    case FeedForward:
      return spec.feed_forward_size_of(layer);
    case Query:
      return spec.head_count * spec.head_size_of(layer);
    case KeyValue:
      return spec.kv_head_count_of(layer) * spec.head_size_of(layer);
    case Heads:
      return spec.head_count;
    case QueryNorm:
      return spec.norms_heads_together ? spec.head_count * spec.head_size : spec.head_size_of(layer);
    case KeyNorm:
      return spec.norms_heads_together ? spec.kv_head_count * spec.head_size : spec.head_size_of(layer);
    case Experts:
      return spec.expert_count;
    case Expert:
      return spec.expert_size;
    case SharedExpert:
      return spec.shared_expert_size;
    case StateProjected:
      return spec.state.projected_width();
    case StateMixed:
      return spec.state.mixed_width();
    case StateWindow:
      return spec.state.window;
    case StateHeads:
      return spec.state.value_heads;
    case StateGroups:
      return spec.state.key_heads;
    case StateNorm:
      return spec.state.norm_width();
    case StateValues:
      return spec.state.value_width();
    case LatentRank:
      return spec.latent.rank;
    case Attended:
      return spec.head_count * spec.attended_size();
    case LayerEmbedding:
      return spec.layer_embedding_size;
  }
  return 0;  // not reached
}

std::span<const LayerTensor> layer_tensors() { return kLayerTensors; }

std::optional<LayerTensorName> parse_layer_tensor(std::string_view text) {
  constexpr std::string_view kLayer = "blk.";
  if (!text.starts_with(kLayer)) return std::nullopt;
  int64_t layer = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + kLayer.size(), end, layer);
  if (error != std::errc() || layer < 0 || rest == end || *rest != '.') return std::nullopt;
  return LayerTensorName{layer, {rest + 1, static_cast<size_t>(end - rest - 1)}};
}

std::span<const JoinedTensor> joined_tensors() { return kJoinedTensors; }

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  fail(ErrorCode::Unsupported, "architecture {} is not supported, only: {}", quote(name), known);
}

}  // namespace inflight
