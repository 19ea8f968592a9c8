// SPDX-License-Identifier: Apache-2.0
// Models of any small shape with seeded random weights, as GGUF files: what kernels, loaders and
// engines are tried on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "model/tensor_type.h"
#include "support/gguf_writer.h"

namespace inflight::test {

struct SyntheticModel {
  ModelSpec spec = small_spec();  // written to the file's keys as it stands
  // Of all matrices; of the logits' matrix (output, or the tied token_embd) where it differs. A
  // quantised type gives way to F16 for matrices whose rows are no multiple of a block's numbers. Of the types that are
  // only read: Q5_0, Q4_1, Q4_K, Q6_K, MXFP4.
  TensorType matrix_type = TensorType::F32;
  std::optional<TensorType> output_type;
  bool tied_output = true;
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool feed_forward_bias = false;
  bool query_key_norm = false;
  bool norms_before = true, norms_behind = false;  // attention and feed-forward
  bool second_norm = true;                         // the feed-forward has one of its own
  bool norm_bias = false, logit_bias = false;      // of norms of hidden states; of the output layer
  bool weightless_norms = false;                   // these are there, without tensors (norms_before is false)
  bool norm_renamed = false;                       // the feed-forward's is called post_attention_norm
  bool joined = false;                             // attn_qkv, and ffn_up with the gate's rows
  bool choice_bias = false, shared_gate = false;   // of mixtures of experts (spec.expert_count > 0)
  bool joined_heads = false;        // attn_kv_b in the place of attn_k_b and attn_v_b, and its keys (spec.is_latent())
  bool joined_states = false;       // ssm_in in the place of attn_qkv and attn_gate (spec.state.grouped_heads)
  bool state_norm = true;           // what states give is normed (Mamba 2)
  bool keys_are_values = false;     // layers that are not local have no attn_v
  bool experts_beside = false;      // mixtures beside dense feed-forwards, and norms of each part, as Gemma 4 26B-A4B
  bool sinks = false;               // of attention, and biases of router and experts, as gpt-oss has them
  int32_t predicting_layers = 0;    // behind the model's own, of which the file has a tensor each (MTP)
  int32_t dense_layers = 0;         // of these the first so many have no experts
  std::vector<float> rope_factors;  // tensor rope_freqs.weight; rope_dimension_count / 2 of them, or none
  std::vector<float> rope_factors_long;  // likewise rope_factors_long.weight; rope_factors are the short ones then
  bool with_vocabulary = false;          // SentencePiece: <unk> <s> </s>, the 256 bytes, then " d0", " d1", ...
  uint64_t seed = 1;

  // As Gemma's, 1 ("gemma"), 2 or 3: GELU, norms behind (2, 3), windows in all layers but each second (2) or third,
  // caps (2), normed heads (3).
  void make_gemma(int32_t version);

  // As Gemma 4's small ones: windows in all layers but each second of 6, heads there of half the size, the last two
  // attend to K and V of those before and have wider feed-forwards, all have embeddings of their own.
  void make_gemma4();

  // As its larger ones, 31B or with experts 26B-A4B: no sharing and no such embeddings, local layers have more KV
  // heads, in the others V is K.
  void make_large_gemma4(bool mixture);

  // As Qwen 3's mixtures of experts, or with a shared expert that has a gate Qwen 2's.
  void make_mixture(int32_t experts, int32_t used, bool shared);

  // As Qwen 3.5: two layers of a delta net to one that attends, 6 in all, two value heads a key head, gates.
  void make_qwen35(bool mixture);

  // As LFM2: short convolutions of 3 tokens in 4 of 6 layers; or with experts in all layers but the first.
  void make_lfm2(bool mixture);

  // As Granite 4's hybrids: Mamba 2 in 3 of 5 layers, two groups of two heads, no RoPE, scales; or with experts and a
  // shared one.
  void make_granite_hybrid(bool mixture);

  // As Nemotron-H: 7 layers of one thing each, Mamba 2 in 3, attention in 1, ReLU squared in 3, no RoPE; or as Nemotron
  // 3 Nano, with experts and a shared one in these.
  void make_nemotron_h(bool mixture);

  // As Falcon-H1: Mamba 2 beside attention in all 3 layers.
  void make_falcon_h1();

  // As Qwen3-Next: as Qwen 3.5's mixture, with three value heads beside one another for each key head; older:
  // as older files have it.
  void make_qwen3next(bool older);

  // As DeepSeek V2 Lite: latent attention, YaRN, a dense layer of 3, a shared expert; or with queries of a rank and
  // routers of sigmoids with a bias as GLM 4.7 Flash.
  void make_deepseek2(bool query_rank);

  // As gpt-oss: sinks, biases all over, windows in each second of 4 layers, YaRN.
  void make_gpt_oss(int32_t experts, int32_t used);

  // As EXAONE 4 32B: norms behind alone, normed heads, windows in layers that rotate heads, two of three.
  void make_exaone4();

  // As Ministral 3: YaRN, queries with a temperature from 100 tokens on.
  void make_ministral3();

  // As Pythia: norms with a mean and a bias, GELU without a gate, biases all over, feed-forward beside attention or
  // not.
  void make_gpt_neox(bool parallel);

  // As Phi 2: like Pythia, but both read what one norm gives; the logits have a bias, too.
  void make_phi2();

  // As Nemotron: like Pythia, but ReLU squared, one after the other.
  void make_nemotron();

  // As Command R7B: norms with a mean and no bias, both side by side behind one, windows as EXAONE 4.
  void make_cohere2();

  // As OLMo 1: norms with a mean and no weights.
  void make_olmo();

  // llama, 2 layers, E 64, F 96, 4 heads of 16 over 2 KV heads, 300 tokens.
  [[nodiscard]] static ModelSpec small_spec();
};

// Matrices are uniform with variance 1 / columns, so that activations keep their size; norms near
// 1, biases near 0. A tensor's numbers depend only on (seed, name, shape): files that differ in
// type hold the same model, rounded.
[[nodiscard]] GgufWriter build_model(const SyntheticModel& model);

}  // namespace inflight::test
