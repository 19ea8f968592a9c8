// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder-only transformer: everything the forward pass, the memory planner and the simulator need to
// know about a model besides its weights. Letters as in docs/GLOSSARY.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace inflight {

// Which pairs of a head's numbers are rotated together.
enum class RopeStyle : int32_t {
  Interleaved = 0,  // (0,1), (2,3), ...: GGUF's "llama", whose Q and K rows were permuted for it
  HalfSplit = 1,    // (0,D/2), (1,D/2+1), ...: GPT-NeoX, Hugging Face, GGUF's "qwen2"
};

// What a feed-forward's gate goes through, or where there is none what the down layer reads.
enum class Activation : int32_t {
  Silu = 0,  // x / (1 + exp(-x))
  Gelu = 1,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  // gpt-oss: x at most 7, x / (1 + exp(-1.702 x)), and what it is multiplied by is within -7 to 7, plus 1.
  ClampedSwiglu = 2,
  ReluSquared = 3,  // max(x, 0)^2
};

// What a router's logits become.
enum class Gating : int32_t {
  Softmax = 1,  // GGUF's numbers
  Sigmoid = 2,  // of each by itself
};

struct RopeScaling {
  enum class Kind : int32_t { None = 0, Linear = 1, Llama3 = 2, Yarn = 3 };
  Kind kind = Kind::None;
  float factor = 1.0F;                  // positions are divided by it (Linear), or low frequencies (Llama3, Yarn)
  float low_frequency_factor = 1.0F;    // Llama3 only
  float high_frequency_factor = 4.0F;   // Llama3 only
  int32_t original_context_length = 0;  // Llama3 and Yarn
  // Yarn only: pairs that turn more often than beta_fast in the original context stay as they are, those that turn less
  // often than beta_slow are slowed down.
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  float magnitude = 1.0F;  // cosines and sines are multiplied by it
};

// What a layer has before its feed-forward, by which a token sees others.
enum class Mixing : int32_t {
  Attention = 0,
  State = 1,
  Both = 2,  // side by side
  None = 3,  // it is a feed-forward alone
};

// What layers with a state have in the place of attention; formulas: cl_kernels/states.cl.
enum class StateKind : int32_t {
  DeltaNet = 1,          // gated delta net (Qwen 3.5, Qwen3-Next)
  ShortConvolution = 2,  // gated convolution (LFM2)
  Mamba2 = 3,            // (Granite 4, Nemotron-H, Falcon-H1)
};

// A layer with a state convolves some numbers of the last tokens: their queries, keys and values. Each value head
// has a matrix of key_size x value_size numbers, which every token decays, changes and reads. A short convolution
// convolves one head of values alone and has no matrices.
struct StateShape {
  StateKind kind = StateKind::DeltaNet;
  int32_t key_heads = 0;  // 0: no matrices
  int32_t value_heads = 0;
  bool grouped_heads = false;  // value head h goes with key head h / (value_heads / key_heads), else with h % key_heads
  int32_t key_size = 0;        // of a head's keys and queries: a multiple of limits::kStateSizeUnit, as norm_width()
  int32_t value_size = 0;      // of a head's values: a multiple of limits::kStateValueUnit
  int32_t window = 0;          // tokens that are convolved, itself included

  [[nodiscard]] bool has_matrices() const { return key_heads > 0; }
  [[nodiscard]] int32_t value_width() const { return value_heads * value_size; }
  // Numbers of a token that are convolved.
  [[nodiscard]] int32_t mixed_width() const { return 2 * key_heads * key_size + value_width(); }
  // Those that they are made of: of a short convolution they are a product, and a factor of the sums comes besides.
  [[nodiscard]] int32_t projected_width() const {
    return kind == StateKind::ShortConvolution ? 3 * mixed_width() : mixed_width();
  }
  // Numbers of what a token's heads read that are normed together.
  [[nodiscard]] int32_t norm_width() const {
    return kind == StateKind::Mamba2 ? value_width() / key_heads : value_size;
  }
  // Of one layer's state, in floats: what was convolved of the last window - 1 tokens, then the matrices.
  [[nodiscard]] int64_t state_floats() const {
    return int64_t{window - 1} * mixed_width() + int64_t{value_width()} * key_size;
  }
};

// Multi-head latent attention (DeepSeek V2): of a token K and V of all heads are products of one latent vector, beside
// which K has numbers that are rotated and that all heads share. Formulas: docs/decisions/0065.
struct LatentShape {
  int32_t rank = 0;            // C, numbers of the latent vector; 0: attention is none of these
  int32_t query_rank = 0;      // Q, of the vector that queries are products of; 0: of the layer's input itself
  int32_t unrotated_size = 0;  // N, numbers of a head's queries and keys that are not rotated
  int32_t value_size = 0;      // of a head
};

struct ModelSpec {
  std::string architecture;  // of those in model/architecture.cpp
  std::string name;
  int32_t layer_count = 0;                  // L
  int32_t hidden_size = 0;                  // E
  int32_t feed_forward_size = 0;            // F, of the layer that has the largest
  std::vector<int32_t> feed_forward_sizes;  // of each layer, 0: it has none; empty: all have the same
  // Mixtures of experts: in layers with a router each token goes through experts_used of expert_count feed-forwards.
  int32_t expert_count = 0;           // X; 0: there are none
  int32_t experts_used = 0;           // of a token
  int32_t expert_size = 0;            // F of an expert
  int32_t shared_expert_size = 0;     // F of the one that every token goes through besides; 0: there is none
  bool expert_weights_normed = true;  // the weights of a token's experts are divided by their sum
  float expert_weight_scale = 1.0F;   // and multiplied by this
  Gating expert_gating = Gating::Softmax;
  // A token's experts are of so many of equal groups, those whose two best sum up to most.
  int32_t expert_groups = 1;
  int32_t expert_groups_used = 1;
  int32_t head_count = 0;           // H query heads
  int32_t kv_head_count = 0;        // G, divides H; this and D: of layers that are not local where these have their own
  int32_t head_size = 0;            // D, even
  int32_t local_kv_head_count = 0;  // of local layers (Gemma 4); 0: G
  int32_t local_head_size = 0;      // of their heads, stored within D numbers; 0: D
  int32_t vocabulary_size = 0;      // V
  int32_t context_length = 0;       // tokens a sequence may have at most
  int32_t sliding_window = 0;       // last tokens that a token attends to in every layer, itself included; 0 = all
  // Where windows differ from layer to layer (sliding_window is 0 then): all layers but the last of every global_every
  // are local, a token attends to the last local_window in them.
  int32_t local_window = 0;
  int32_t global_every = 0;
  Activation activation = Activation::Silu;
  bool gated_feed_forward = true;  // of layers without experts: down(act(gate x) * up x), else down(act(up x))
  // Attention and feed-forward read the hidden states as they are before both; without a norm of its own the latter
  // reads what the former does.
  bool parallel_residual = false;
  bool mean_norms = false;  // norms of hidden states take the mean out before (LayerNorm), and may have a bias
  // The norms of queries and keys, where there are any: of each head, or of all of a token's heads together.
  bool norms_heads_together = false;
  bool norms_rotated = false;  // they come behind RoPE
  bool norms_values = false;   // V of each head is normed, without weights, too
  float norm_epsilon = 1e-5F;
  // What numbers of the forward pass are multiplied by (Granite, MiniCPM, Gemma).
  float embedding_scale = 1.0F;  // embeddings
  float residual_scale = 1.0F;   // what attention and feed-forward add to the hidden states
  float attention_scale = 0.0F;  // products of queries and keys; 0: 1 / sqrt(D)
  // Queries of position p, by 1 + temperature_scale * ln(1 + floor(p / temperature_length)) (Ministral 3); 0: by 1.
  float temperature_scale = 0.0F;
  int32_t temperature_length = 0;
  float logit_scale = 1.0F;  // logits
  // x becomes cap * tanh(x / cap); 0: as it is.
  float attention_softcap = 0.0F;  // of scaled products of queries and keys
  float logit_softcap = 0.0F;
  RopeStyle rope_style = RopeStyle::Interleaved;
  bool checkpoint_rows = false;      // of queries and keys: in another order than in the architecture's GGUF files
  int32_t rope_dimension_count = 0;  // the first numbers of each head that are rotated; even, <= D
  float rope_base = 10000.0F;
  RopeScaling rope_scaling;
  float local_rope_base = 0.0F;  // of local layers, whose RoPE is not scaled then; 0: they rotate as the others do
  // Where attention is latent, what is kept of a token is one KV head of D = rope_dimension_count + rank numbers, those
  // that are rotated first, that serve as K and as V.
  LatentShape latent;
  int32_t unrotated_every = 0;  // the last of every so many layers does not rotate heads (NoPE); 0: all do
  // Layers from this one on have no K and V of their own (Gemma 4): they attend to those of the last layer before it
  // that is local, or not, as they are. So they need not compute tokens whose logits nobody wants. 0: there are none.
  int32_t first_sharing_layer = 0;
  int32_t layer_embedding_size = 0;  // P, numbers of a token's further embedding in each layer (Gemma 4); 0: none
  std::vector<Mixing> mixing;        // of each layer; empty: all attend
  StateShape state;                  // of layers with one
  bool gated_attention = false;      // what heads attend to is multiplied by 1 / (1 + exp(-gate))
  // What an embedding is made of: "mean", "last", or a kind that is no embedding here ("cls", "rank").
  std::string pooling = "mean";
  std::vector<std::string> labels;  // of its classifier; of rerankers the first one says "relevant"; empty: none

  // Hidden states are kept divided by residual_scale, so that what is added to them is added as it is: what embeddings
  // are multiplied by then, and the epsilon of norms of hidden states.
  [[nodiscard]] float hidden_embedding_scale() const { return embedding_scale / residual_scale; }
  [[nodiscard]] float hidden_epsilon() const { return norm_epsilon / (residual_scale * residual_scale); }
  [[nodiscard]] bool is_latent() const { return latent.rank > 0; }
  // Numbers of a head's queries as they are projected.
  [[nodiscard]] int32_t projected_query_size() const {
    return is_latent() ? latent.unrotated_size + rope_dimension_count : head_size;
  }
  // Of what a head attends to, as attention's output layer reads it.
  [[nodiscard]] int32_t attended_size() const { return is_latent() ? latent.value_size : head_size; }
  [[nodiscard]] bool is_local(int32_t layer) const { return local_window > 0 && (layer + 1) % global_every != 0; }
  [[nodiscard]] bool rotates(int32_t layer) const { return unrotated_every == 0 || (layer + 1) % unrotated_every != 0; }
  [[nodiscard]] Mixing mixing_of(int32_t layer) const {
    return mixing.empty() ? Mixing::Attention : mixing[static_cast<size_t>(layer)];
  }
  [[nodiscard]] static bool attends(Mixing kind) { return kind == Mixing::Attention || kind == Mixing::Both; }
  [[nodiscard]] static bool has_state(Mixing kind) { return kind == Mixing::State || kind == Mixing::Both; }
  [[nodiscard]] bool attends(int32_t layer) const { return attends(mixing_of(layer)); }
  [[nodiscard]] bool has_state(int32_t layer) const { return has_state(mixing_of(layer)); }
  [[nodiscard]] int32_t local_kv_heads() const { return local_kv_head_count > 0 ? local_kv_head_count : kv_head_count; }
  // KV heads of a layer as they are projected.
  [[nodiscard]] int32_t kv_head_count_of(int32_t layer) const {
    return is_local(layer) ? local_kv_heads() : kv_head_count;
  }
  // Heads of local layers that are stored side by side in the D numbers of one, if they fill it; else 1.
  [[nodiscard]] int32_t local_heads_together() const {
    if (local_head_size == 0 || head_size % local_head_size != 0) return 1;
    const int32_t fitting = head_size / local_head_size;
    return local_kv_heads() % fitting == 0 ? fitting : 1;
  }
  [[nodiscard]] int32_t local_stored_kv_heads() const { return local_kv_heads() / local_heads_together(); }
  [[nodiscard]] int32_t stored_kv_heads_of(int32_t layer) const {
    return is_local(layer) ? local_stored_kv_heads() : kv_head_count;
  }
  // Of a layer's heads as they are projected, where attention is not latent.
  [[nodiscard]] int32_t head_size_of(int32_t layer) const {
    return local_head_size > 0 && is_local(layer) ? local_head_size : head_size;
  }
  [[nodiscard]] int32_t feed_forward_size_of(int32_t layer) const {
    return feed_forward_sizes.empty() ? feed_forward_size : feed_forward_sizes[static_cast<size_t>(layer)];
  }
  [[nodiscard]] bool shares_kv(int32_t layer) const { return first_sharing_layer > 0 && layer >= first_sharing_layer; }
  // Layers before `end` that attend, and those with a state.
  [[nodiscard]] int32_t attending_layer_count(int32_t end) const {
    if (mixing.empty()) return end;
    return static_cast<int32_t>(
        std::count_if(mixing.begin(), mixing.begin() + end, [](Mixing kind) { return attends(kind); }));
  }
  [[nodiscard]] int32_t stateful_layer_count(int32_t end) const {
    if (mixing.empty()) return 0;
    return static_cast<int32_t>(
        std::count_if(mixing.begin(), mixing.begin() + end, [](Mixing kind) { return has_state(kind); }));
  }
  [[nodiscard]] int32_t stateful_layer_count() const { return stateful_layer_count(layer_count); }
  // Layers that are a feed-forward alone.
  [[nodiscard]] int32_t lone_layer_count() const {
    return static_cast<int32_t>(std::count(mixing.begin(), mixing.end(), Mixing::None));
  }
  // Of the stored KV heads that a token attends to in all layers, those of local ones.
  [[nodiscard]] double local_share() const {
    if (local_window == 0) return 0.0;
    const int64_t globals = int64_t{layer_count / global_every} * kv_head_count;
    const int64_t locals = int64_t{layer_count - layer_count / global_every} * local_stored_kv_heads();
    return static_cast<double>(locals) / static_cast<double>(locals + globals);
  }
  // Layers that every token of a prompt goes through.
  [[nodiscard]] int32_t prompt_layer_count() const {
    return first_sharing_layer > 0 ? first_sharing_layer : layer_count;
  }
  // Layers that have K and V of their own, and those of them that are local.
  [[nodiscard]] int32_t kv_layer_count() const { return attending_layer_count(prompt_layer_count()); }
  [[nodiscard]] int32_t local_kv_layer_count() const {
    return local_window > 0 ? kv_layer_count() - kv_layer_count() / global_every : 0;
  }
  // Stored KV heads of all layers that have K and V of their own, and of those of them that are local.
  [[nodiscard]] int32_t stored_head_count() const {
    return (kv_layer_count() - local_kv_layer_count()) * kv_head_count + local_stored_head_count();
  }
  [[nodiscard]] int32_t local_stored_head_count() const { return local_kv_layer_count() * local_stored_kv_heads(); }
  // Its place among those that have K and V; of a layer that shares K and V that of the one that they are of.
  [[nodiscard]] int32_t kv_place_of(int32_t layer) const {
    if (shares_kv(layer)) {
      const bool local = is_local(layer);
      do --layer;
      while (shares_kv(layer) || is_local(layer) != local);
    }
    return attending_layer_count(layer);
  }
  // Its place among those with a state.
  [[nodiscard]] int32_t state_place_of(int32_t layer) const { return stateful_layer_count(layer); }
  // What a sequence has besides K and V.
  [[nodiscard]] size_t state_bytes() const {
    return static_cast<size_t>(stateful_layer_count() * state.state_floats()) * sizeof(float);
  }
  [[nodiscard]] bool has_state() const { return stateful_layer_count() > 0; }
  // ERRORS: CorruptFile naming the field, the value and the range.
  void validate() const;
};

}  // namespace inflight
