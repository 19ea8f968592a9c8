// SPDX-License-Identifier: Apache-2.0
#include "support/synthetic_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/rng.h"
#include "support/block_writers.h"

namespace inflight::test {
namespace {

uint64_t hash_of(const std::string& name) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash;
}

class ModelBuilder {
 public:
  explicit ModelBuilder(const SyntheticModel& model) : model_(model), spec_(model.spec) {}

  GgufWriter build() {
    write_keys();
    if (model_.with_vocabulary) write_vocabulary();
    const TensorType output_type = model_.output_type.value_or(model_.matrix_type);
    matrix("token_embd.weight", spec_.vocabulary_size, spec_.hidden_size,
           model_.tied_output ? output_type : model_.matrix_type);
    if (const int32_t size = spec_.layer_embedding_size; size > 0) {
      matrix("per_layer_token_embd.weight", spec_.vocabulary_size, spec_.layer_count * size, model_.matrix_type);
      linear("per_layer_model_proj", spec_.layer_count * size, spec_.hidden_size, false);
      vector("per_layer_proj_norm.weight", size, 1.0F);
    }
    // A list of what layers are may be too short, to be refused.
    const auto told = static_cast<int32_t>(spec_.mixing.size());
    const int32_t layer_count = spec_.mixing.empty() ? spec_.layer_count : std::min(spec_.layer_count, told);
    for (int32_t layer = 0; layer < layer_count; ++layer) write_layer(layer);
    for (int32_t i = 0; i < model_.predicting_layers; ++i) {
      vector(fmt::format("blk.{}.nextn.enorm.weight", spec_.layer_count + i), spec_.hidden_size, 1.0F);
    }
    const std::string last = is_of(StateKind::ShortConvolution) ? "token_embd_norm" : "output_norm";
    if (!model_.weightless_norms) norm(last);
    if (model_.logit_bias) vector("output.bias", spec_.vocabulary_size, 0.0F, 1.0F);
    if (!model_.tied_output) {
      matrix("output.weight", spec_.vocabulary_size, spec_.hidden_size, output_type);
    }
    const bool two = !model_.rope_factors_long.empty();
    factors(two ? "rope_factors_short.weight" : "rope_freqs.weight", model_.rope_factors);
    factors("rope_factors_long.weight", model_.rope_factors_long);
    return std::move(writer_);
  }

 private:
  void write_keys() {
    const auto key = [this](const char* name) { return spec_.architecture + "." + name; };
    const auto count = [&](const char* name, int32_t value) {
      writer_.key_u32(key(name), static_cast<uint32_t>(value));
    };
    writer_.key_string("general.architecture", spec_.architecture);
    writer_.key_string("general.name", spec_.name);
    count("block_count", spec_.layer_count + model_.predicting_layers);
    if (model_.predicting_layers > 0) count("nextn_predict_layers", model_.predicting_layers);
    count("context_length", spec_.context_length);
    count("embedding_length", spec_.hidden_size);
    if (spec_.feed_forward_sizes.empty()) {
      count("feed_forward_length", spec_.feed_forward_size);
    } else {
      writer_.key_i32s(key("feed_forward_length"), spec_.feed_forward_sizes);
    }
    if (spec_.expert_count > 0) {
      count("expert_count", spec_.expert_count);
      count("expert_used_count", spec_.experts_used);
      count("expert_feed_forward_length", spec_.expert_size);
      count("expert_shared_feed_forward_length", spec_.shared_expert_size);
      writer_.key_bool(key("expert_weights_norm"), spec_.expert_weights_normed);
      writer_.key_f32(key("expert_weights_scale"), spec_.expert_weight_scale);
      count("expert_gating_func", static_cast<int32_t>(spec_.expert_gating));
      count("expert_group_count", spec_.expert_groups);
      count("expert_group_used_count", spec_.expert_groups_used);
    }
    count("attention.head_count", spec_.head_count);
    write_kv_heads();
    const bool absorbed = spec_.is_latent() && !model_.joined_heads;
    count("attention.key_length", absorbed ? spec_.head_size : spec_.projected_query_size());
    count("attention.value_length", absorbed ? spec_.latent.rank : spec_.attended_size());
    if (spec_.is_latent()) {
      count("attention.kv_lora_rank", spec_.latent.rank);
      if (spec_.latent.query_rank > 0) count("attention.q_lora_rank", spec_.latent.query_rank);
      if (absorbed) count("attention.key_length_mla", spec_.projected_query_size());
      if (absorbed) count("attention.value_length_mla", spec_.latent.value_size);
      writer_.key_f32(key("rope.scaling.yarn_log_multiplier"), 0.0707F);
    }
    count("rope.dimension_count", spec_.rope_dimension_count);
    if (spec_.sliding_window > 0) count("attention.sliding_window", spec_.sliding_window);
    writer_.key_f32(key(spec_.mean_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
                    spec_.norm_epsilon);
    if (spec_.architecture == "gptneox") writer_.key_bool(key("use_parallel_residual"), spec_.parallel_residual);
    if (spec_.local_window > 0) {
      count("attention.sliding_window", spec_.local_window);
      count("attention.sliding_window_pattern", spec_.global_every);
    }
    if (spec_.norms_values) {
      const int32_t first = spec_.first_sharing_layer;
      count("attention.shared_kv_layers", first > 0 ? spec_.layer_count - first : 0);
      count("embedding_length_per_layer_input", spec_.layer_embedding_size);
      for (const char* name : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
        count(name, spec_.local_head_size);
      }
      writer_.key_f32(key("rope.freq_base_swa"), spec_.local_rope_base);
    }
    if (spec_.has_state()) {
      if (is_of(StateKind::DeltaNet)) {
        std::vector<bool> stateful;
        for (const Mixing kind : spec_.mixing) stateful.push_back(kind == Mixing::State);
        writer_.key_bools(key("attention.recurrent_layers"), stateful);
      }
      if (is_of(StateKind::ShortConvolution)) {
        count("shortconv.l_cache", spec_.state.window);
      } else {
        count("ssm.conv_kernel", spec_.state.window);
        count("ssm.state_size", spec_.state.key_size);
        count("ssm.group_count", spec_.state.key_heads);
        count("ssm.time_step_rank", spec_.state.value_heads);
        count("ssm.inner_size", spec_.state.value_width());
      }
    }
    if (spec_.attention_softcap > 0.0F) writer_.key_f32(key("attn_logit_softcapping"), spec_.attention_softcap);
    if (spec_.logit_softcap > 0.0F) writer_.key_f32(key("final_logit_softcapping"), spec_.logit_softcap);
    if (spec_.embedding_scale != 1.0F) writer_.key_f32(key("embedding_scale"), spec_.embedding_scale);
    if (spec_.residual_scale != 1.0F) writer_.key_f32(key("residual_scale"), spec_.residual_scale);
    if (spec_.attention_scale != 0.0F) writer_.key_f32(key("attention.scale"), spec_.attention_scale);
    if (spec_.temperature_scale != 0.0F) writer_.key_f32(key("attention.temperature_scale"), spec_.temperature_scale);
    const bool multiplied = spec_.architecture == "cohere2";
    if (spec_.logit_scale != 1.0F) {
      writer_.key_f32(key("logit_scale"), multiplied ? spec_.logit_scale : 1.0F / spec_.logit_scale);
    }
    if (is_of(StateKind::Mamba2)) writer_.key_bool(key("rope.scaling.finetuned"), spec_.unrotated_every == 0);
    writer_.key_f32(key("rope.freq_base"), spec_.rope_base);
    const RopeScaling& scaling = spec_.rope_scaling;
    if (scaling.kind == RopeScaling::Kind::None) {
      if (scaling.original_context_length > 0) {
        count("rope.scaling.original_context_length", scaling.original_context_length);
      }
      return;
    }
    const std::array<const char*, 4> names = {"none", "linear", "llama3", "yarn"};
    writer_.key_string(key("rope.scaling.type"), names.at(static_cast<size_t>(scaling.kind)));
    writer_.key_f32(key("rope.scaling.factor"), scaling.factor);
    if (scaling.kind == RopeScaling::Kind::Linear) return;
    count("rope.scaling.original_context_length", scaling.original_context_length);
    if (scaling.kind == RopeScaling::Kind::Yarn) {
      writer_.key_f32(key("rope.scaling.yarn_beta_fast"), scaling.beta_fast);
      writer_.key_f32(key("rope.scaling.yarn_beta_slow"), scaling.beta_slow);
      writer_.key_f32(key("rope.scaling.yarn_attn_factor"), scaling.magnitude);
      return;
    }
    writer_.key_f32(key("rope.scaling.low_freq_factor"), scaling.low_frequency_factor);
    writer_.key_f32(key("rope.scaling.high_freq_factor"), scaling.high_frequency_factor);
  }

  [[nodiscard]] bool is_of(StateKind kind) const { return spec_.has_state() && spec_.state.kind == kind; }

  // One number, or of each layer its own, 0 where it does not attend, of families whose first layers have states alone.
  void write_kv_heads() {
    const std::string key = spec_.architecture + ".attention.head_count_kv";
    if (spec_.local_kv_head_count == 0 && (!spec_.has_state() || is_of(StateKind::DeltaNet) || spec_.attends(0))) {
      writer_.key_u32(key, static_cast<uint32_t>(model_.joined_heads ? spec_.head_count : spec_.kv_head_count));
      return;
    }
    std::vector<int32_t> heads;
    for (int32_t i = 0; i < spec_.layer_count; ++i) heads.push_back(spec_.attends(i) ? spec_.kv_head_count_of(i) : 0);
    writer_.key_i32s(key, heads);
  }

  void write_vocabulary() {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<int32_t> types = {2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(fmt::format("<0x{:02X}>", byte));
      types.push_back(6);
    }
    const auto count = static_cast<size_t>(spec_.vocabulary_size);
    for (size_t i = 0; tokens.size() < count; ++i) {
      tokens.push_back(fmt::format("\u2581d{}", i));
      types.push_back(1);
    }
    tokens.resize(count);
    types.resize(count);
    writer_.key_string("tokenizer.ggml.model", "llama");
    writer_.key_strings("tokenizer.ggml.tokens", tokens);
    writer_.key_f32s("tokenizer.ggml.scores", std::vector<float>(count, 0.0F));
    writer_.key_i32s("tokenizer.ggml.token_type", types);
    writer_.key_u32("tokenizer.ggml.bos_token_id", 1);
    writer_.key_u32("tokenizer.ggml.eos_token_id", 2);
  }

  void write_layer(int32_t layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const int32_t hidden = spec_.hidden_size;
    const int32_t feed_forward = spec_.feed_forward_size_of(layer);
    const bool lone = spec_.lone_layer_count() > 0;
    if (model_.norms_before) norm(prefix + "attn_norm");
    if (spec_.attends(layer)) write_attention(prefix, layer);
    if (spec_.has_state(layer)) write_state(prefix);
    if (lone && feed_forward == 0) return;
    if (model_.norms_behind) vector(prefix + "post_attention_norm.weight", hidden, 1.0F);
    if (model_.norms_before && model_.second_norm && !lone) {
      const bool renamed = model_.sinks || model_.norm_renamed || is_of(StateKind::DeltaNet);
      norm(prefix + (renamed ? "post_attention_norm" : "ffn_norm"), spec_.architecture == "falcon-h1" ? "" : ".weight");
    }
    if (spec_.expert_count > 0 && layer >= model_.dense_layers) {
      write_mixture(prefix);
      if (!model_.experts_beside) return;
    }
    if (!model_.joined && spec_.gated_feed_forward)
      linear(prefix + "ffn_gate", feed_forward, hidden, model_.feed_forward_bias);
    linear(prefix + "ffn_up", model_.joined ? 2 * feed_forward : feed_forward, hidden, model_.feed_forward_bias);
    linear(prefix + "ffn_down", hidden, feed_forward, model_.feed_forward_bias);
    if (model_.norms_behind) vector(prefix + "post_ffw_norm.weight", hidden, 1.0F);
    if (spec_.norms_values) vector(prefix + "layer_output_scale.weight", 1, 0.7F);
    if (spec_.layer_embedding_size == 0) return;
    linear(prefix + "inp_gate", spec_.layer_embedding_size, hidden, false);
    linear(prefix + "proj", hidden, spec_.layer_embedding_size, false);
    vector(prefix + "post_norm.weight", hidden, 1.0F);
  }

  void write_state(const std::string& prefix) {
    const StateShape& state = spec_.state;
    const int32_t hidden = spec_.hidden_size;
    if (is_of(StateKind::ShortConvolution)) {
      linear(prefix + "shortconv.in_proj", state.projected_width(), hidden, false);
      linear(prefix + "shortconv.out_proj", hidden, state.value_width(), false);
      matrix(prefix + "shortconv.conv.weight", state.mixed_width(), state.window, TensorType::F32);
      return;
    }
    linear(prefix + "ssm_out", hidden, state.value_width(), false);
    matrix(prefix + "ssm_conv1d.weight", state.mixed_width(), state.window, TensorType::F32);
    vector(prefix + "ssm_dt.bias", state.value_heads, 0.0F, 1.0F);
    if (is_of(StateKind::Mamba2)) {
      const int32_t inputs = state.value_width() + state.mixed_width() + state.value_heads;
      linear(prefix + "ssm_in", inputs, hidden, false);
      vector(prefix + "ssm_conv1d.bias", state.mixed_width(), 0.0F);
      rows(prefix + "ssm_a", state.value_heads, 1, -1.0F, 0.95F);
      rows(prefix + "ssm_d", state.value_heads, 1, 1.0F, 0.5F);
      if (model_.state_norm) rows(prefix + "ssm_norm.weight", state.key_heads, state.norm_width(), 1.0F, 0.2F);
      return;
    }
    if (model_.joined_states) {
      linear(prefix + "ssm_in", state.mixed_width() + state.value_width(), hidden, false);
    } else {
      linear(prefix + "attn_qkv", state.mixed_width(), hidden, false);
      linear(prefix + "attn_gate", state.value_width(), hidden, false);
    }
    if (state.grouped_heads) {
      linear(prefix + "ssm_ba", 2 * state.value_heads, hidden, false);
    } else {
      linear(prefix + "ssm_alpha", state.value_heads, hidden, false);
      linear(prefix + "ssm_beta", state.value_heads, hidden, false);
    }
    vector(prefix + "ssm_a", state.value_heads, -1.0F, 0.95F);
    vector(prefix + "ssm_norm.weight", state.value_size, 1.0F);
  }

  void write_latent_attention(const std::string& prefix) {
    const LatentShape& latent = spec_.latent;
    const int32_t hidden = spec_.hidden_size, heads = spec_.head_count, queries = heads * spec_.projected_query_size();
    if (latent.query_rank > 0) {
      linear(prefix + "attn_q_a", latent.query_rank, hidden, false);
      vector(prefix + "attn_q_a_norm.weight", latent.query_rank, 1.0F);
    }
    linear(prefix + (latent.query_rank > 0 ? "attn_q_b" : "attn_q"), queries,
           latent.query_rank > 0 ? latent.query_rank : hidden, false);
    linear(prefix + "attn_kv_a_mqa", spec_.head_size, hidden, false);
    vector(prefix + "attn_kv_a_norm.weight", latent.rank, 1.0F);
    if (model_.joined_heads) {
      linear(prefix + "attn_kv_b", heads * (latent.unrotated_size + latent.value_size), latent.rank, false);
    } else {
      matrix(prefix + "attn_k_b.weight", latent.rank, latent.unrotated_size, model_.matrix_type, heads);
      matrix(prefix + "attn_v_b.weight", latent.value_size, latent.rank, model_.matrix_type, heads);
    }
    linear(prefix + "attn_output", hidden, heads * latent.value_size, false);
  }

  void write_attention(const std::string& prefix, int32_t layer) {
    if (spec_.is_latent()) return write_latent_attention(prefix);
    const int32_t hidden = spec_.hidden_size;
    const int32_t head = spec_.head_size_of(layer), query = spec_.head_count * head;
    const int32_t key_value = spec_.kv_head_count_of(layer) * head;
    const bool own = !spec_.shares_kv(layer);
    if (model_.joined) {
      linear(prefix + "attn_qkv", query + 2 * key_value, hidden, model_.query_key_value_bias);
    } else {
      linear(prefix + "attn_q", spec_.gated_attention ? 2 * query : query, hidden, model_.query_key_value_bias);
      if (own) linear(prefix + "attn_k", key_value, hidden, model_.query_key_value_bias);
      if (own && (!model_.keys_are_values || spec_.is_local(layer))) {
        linear(prefix + "attn_v", key_value, hidden, model_.query_key_value_bias);
      }
    }
    if (model_.query_key_norm) {
      const bool together = spec_.norms_heads_together;
      const float centre = spec_.attention_scale == 1.0F ? 0.35F : 1.0F;  // so that no score drowns the others
      vector(prefix + "attn_q_norm.weight", together ? query : head, centre);
      if (own) vector(prefix + "attn_k_norm.weight", together ? key_value : head, centre);
    }
    linear(prefix + "attn_output", hidden, query, model_.attention_output_bias);
    if (model_.sinks) vector(prefix + "attn_sinks.weight", spec_.head_count, 1.0F, 2.0F);
  }

  void write_mixture(const std::string& prefix) {
    const int32_t hidden = spec_.hidden_size, size = spec_.expert_size, count = spec_.expert_count;
    matrix(prefix + "ffn_gate_inp.weight", count, hidden, TensorType::F32);
    if (model_.choice_bias) vector(prefix + "exp_probs_b.bias", count, 0.0F);
    matrices(prefix + "ffn_down_exps.weight", hidden, size);
    if (model_.experts_beside) {
      matrices(prefix + "ffn_gate_up_exps.weight", 2 * size, hidden);
      vector(prefix + "ffn_down_exps.scale", count, 1.0F, 0.5F);
      vector(prefix + "ffn_gate_inp.scale", hidden, 6.0F);  // so that probabilities differ
      for (const char* name : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) norm(prefix + name);
      return;
    }
    if (spec_.gated_feed_forward) matrices(prefix + "ffn_gate_exps.weight", size, hidden);
    matrices(prefix + "ffn_up_exps.weight", size, hidden);
    if (model_.sinks) {
      vector(prefix + "ffn_gate_inp.bias", count, 0.0F);
      const std::vector<std::pair<const char*, int32_t>> biases = {{"gate", size}, {"up", size}, {"down", hidden}};
      for (const auto& [part, width] : biases) {  // beyond where gate and up are cut off
        rows(prefix + "ffn_" + part + "_exps.bias", count, width, 0.0F, width == hidden ? 0.2F : 9.0F);
      }
    }
    if (spec_.shared_expert_size == 0) return;
    if (spec_.gated_feed_forward) linear(prefix + "ffn_gate_shexp", spec_.shared_expert_size, hidden, false);
    linear(prefix + "ffn_up_shexp", spec_.shared_expert_size, hidden, false);
    linear(prefix + "ffn_down_shexp", hidden, spec_.shared_expert_size, false);
    if (model_.shared_gate) vector(prefix + "ffn_gate_inp_shexp.weight", hidden, 0.0F);
  }

  // One an expert.
  void matrices(const std::string& name, int32_t rows, int32_t columns) {
    matrix(name, rows, columns, model_.matrix_type, spec_.expert_count);
  }

  void factors(const char* name, const std::vector<float>& numbers) {
    if (!numbers.empty()) writer_.tensor(name, TensorType::F32, {numbers.size()}, numbers);
  }

  // Of hidden states.
  void norm(const std::string& name, const char* suffix = ".weight") {
    vector(name + suffix, spec_.hidden_size, 1.0F);
    if (model_.norm_bias) vector(name + ".bias", spec_.hidden_size, 0.0F);
  }

  void linear(const std::string& name, int32_t rows, int32_t columns, bool bias) {
    matrix(name + ".weight", rows, columns, model_.matrix_type);
    if (bias) vector(name + ".bias", rows, 0.0F);
  }

  void matrix(const std::string& name, int32_t rows, int32_t columns, TensorType type, int32_t count = 1) {
    const auto numbers =
        uniform(name, int64_t{rows} * columns * count, 0.0F, std::sqrt(3.0F / static_cast<float>(columns)));
    std::vector<uint64_t> dimensions = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)};
    if (count > 1) dimensions.push_back(static_cast<uint64_t>(count));
    if (columns % unit_of(type).numbers != 0) type = TensorType::F16;
    const auto id = static_cast<uint32_t>(type);
    switch (type) {
      case TensorType::Q5_0:
        writer_.tensor(name, id, dimensions, as_q5_0(numbers));
        return;
      case TensorType::Q4_1:
        writer_.tensor(name, id, dimensions, as_q4_1(numbers));
        return;
      case TensorType::Q4_K:
        writer_.tensor(name, id, dimensions, as_q4_k(numbers));
        return;
      case TensorType::Q6_K:
        writer_.tensor(name, id, dimensions, as_q6_k(numbers));
        return;
      case TensorType::MXFP4:
        writer_.tensor(name, id, dimensions, as_mxfp4(numbers));
        return;
      default:
        break;
    }
    writer_.tensor(name, type, dimensions, numbers);
  }

  void vector(const std::string& name, int32_t size, float centre, float spread = 0.2F) {
    writer_.tensor(name, TensorType::F32, {static_cast<uint64_t>(size)}, uniform(name, size, centre, spread));
  }

  void rows(const std::string& name, int32_t count, int32_t size, float centre, float spread) {
    writer_.tensor(name, TensorType::F32, {static_cast<uint64_t>(size), static_cast<uint64_t>(count)},
                   uniform(name, int64_t{size} * count, centre, spread));
  }

  [[nodiscard]] std::vector<float> uniform(const std::string& name, int64_t count, float centre, float spread) const {
    Rng rng(model_.seed ^ hash_of(name));
    std::vector<float> numbers(static_cast<size_t>(count));
    for (float& number : numbers) {
      number = centre + spread * static_cast<float>(2.0 * rng.uniform() - 1.0);
    }
    return numbers;
  }

  const SyntheticModel& model_;
  const ModelSpec& spec_;
  GgufWriter writer_;
};

}  // namespace

GgufWriter build_model(const SyntheticModel& model) { return ModelBuilder(model).build(); }

}  // namespace inflight::test
