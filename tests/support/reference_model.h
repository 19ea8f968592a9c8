// SPDX-License-Identifier: Apache-2.0
// The independent truth for everything that computes a forward pass: the transformer straight from
// its definition, one token at a time, in plain loops over doubles. Weights are what the file's
// numbers mean exactly, without rounding.
//
//   x = embedding[id] * embedding_scale
//   per layer:  a = norm(x, attention_norm);  q, k, v = W a + b;  q, k rotated by position (RoPE),
//               each head of them normed before, or behind, where the model has weights for it; q times the temperature
//               of its position, 1 + scale ln(1 + floor(position / length)) x += residual_scale * norm(W_o concat_h(
//               sum_j softmax_j(q_h . k_j,g / sqrt(D)) v_j,g ) + b,
//                    attention_post_norm), g = h / (H/G), 0 <= j <= position, or the layer's last tokens
//               latent attention  q = W_q a, or W_q norm(W_down a); of each head its first numbers as they are, the
//               rest
//                 rotated; c = norm(W_c a), r = W_r a rotated: k_h = (K_h^T c | r), v_h = V_h c
//               with gated attention what head h attends to is multiplied by 1 / (1 + exp(-(W_g a)_h)) before W_o
//               in layers with a state instead, of the rows m = W_m a: u_c = bias_c + sum_j convolution[c][j] m_c of
//               W - 1 - j tokens before, and W_o o is added, where in
//                 a gated delta net  u silu'd: queries and keys of the key heads, of length 1 each, values of the value
//                   heads, which go with key heads by turns or several side by side; of each of these: S = exp(decay *
//                   log(1 + exp(step + bias))) S; S += k b (v - S^T k)^T, b = 1 / (1 + exp(-c)); o = norm(S^T q /
//                   sqrt(D), state_norm) * silu(output gate)
//                 Mamba 2  u silu'd: values of the heads, keys and queries of groups of them; of each head, s = log(1 +
//                   exp(step + bias)): S = exp(decay * s) S + s k v^T; o = norm((S^T q + skip v) * silu(output gate),
//                   state_norm), of all heads of a group together
//                 a short convolution  m = b * y, o = c * u, of the rows (b | c | y) = W_m a
//               layers may have none of these, or attention and a state side by side, or no feed-forward
//               f = norm(x, feed_forward_norm)
//               x += residual_scale * norm(W_down( act(W_gate f + b) * (W_up f + b) ) + b, feed_forward_post_norm)
//               with embeddings of layers  x += norm(W_o( gelu(W_g x) * e ), post_norm), e = (sqrt(P) table[id] +
//               norm(W_p x0 / sqrt(E))) / sqrt(2), the layer's P numbers of each; x0: the x that layer 0 begins with
//               x *= output_scale, where there is one
//               layers that share K and V attend to those of the last layer before them with K and V and the same
//               window in layers with experts instead: p = softmax(W_router f) or sigmoid, chosen: the largest p + b x
//               += residual_scale * ( sum_chosen w_e expert_e(f) + s expert_shared(f) ), w_e = scale p_e, divided by
//               the chosen p's sum where they are normed; s = 1, or 1 / (1 + exp(-gate . f))
//               where router and experts have norms of their own, of x: f = norm(x, feed_forward_norm) is what the
//               shared expert reads, e = norm(x, expert_norm) what the others do, W_router norm(x, router_norm) /
//               sqrt(E) the router's logits; x += norm( norm(expert_shared(f), shared_post_norm) + norm(sum_chosen s_e
//               w_e expert_e(e), expert_post_norm), feed_forward_post_norm), s_e expert_scales where a layer has no
//               W_v, v is k before its norm without a gate W_down( act(W_up f + b) ) + b side by side with attention f
//               is of x as it is before attention, or a where the layer has no feed_forward_norm
//   logits = logit_scale * W_output norm(x, output_norm) + b
//   norm(x, w)_i = w_i x_i / sqrt(mean(x^2) + epsilon); x where there is no w; with a mean x - mean(x) is x, and a bias
//   is added
//
// Sources: Touvron et al. 2023 (LLaMA), Su et al. 2021 (RoPE), Zhang and Sennrich 2019 (RMSNorm),
// Ba et al. 2016 (LayerNorm), Shazeer 2020 (SwiGLU), Ainslie et al. 2023 (GQA), the Llama 3.1 model card's rescaling of
// RoPE frequencies.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "model/model_loader.h"
#include "support/synthetic_adapter.h"

namespace inflight::test {

class ReferenceModel {
 public:
  // `model` must outlive this object. Holds all weights as doubles: 8 bytes a parameter.
  explicit ReferenceModel(const LoadedModel& model);

  // From now on GELU as llama.cpp computes it: by a table of half precision, of a gate rounded to it.
  void round_gelu() { gelu_of_halves_ = true; }

  // Merges a LoRA matrix into the weights: W += scale * B A, in doubles.
  void merge(const LowRank& adapted);

  // Forgets all tokens fed so far.
  void reset();
  // Appends `ids` to the sequence; the logits [V] behind the last of them.
  // REQUIRES: ids is not empty.
  [[nodiscard]] std::vector<double> feed(std::span<const TokenId> ids);
  // The same, with the logits behind each of them: [ids.size()][V].
  [[nodiscard]] std::vector<std::vector<double>> feed_all(std::span<const TokenId> ids);

  // What the output layer reads behind each of them, the final norm applied: [ids.size()][E].
  [[nodiscard]] std::vector<std::vector<double>> feed_hidden(std::span<const TokenId> ids);

  // The logits behind `ids` alone: reset() and feed().
  [[nodiscard]] std::vector<double> logits(std::span<const TokenId> ids);
  // Continues the sequence by its likeliest tokens (the lowest id among equals).
  // REQUIRES: `logits` are those behind the last token fed.
  [[nodiscard]] std::vector<TokenId> greedy(std::vector<double> logits, int32_t count);

 private:
  using Vector = std::vector<double>;
  struct Matrix {  // [rows, columns] row-major
    int32_t rows = 0;
    int32_t columns = 0;
    Vector numbers;
  };
  struct Linear {
    Matrix weight;
    Vector bias;  // empty: none
  };
  struct FeedForward {
    Linear gate, up, down;
  };
  struct Layer {
    Vector attention_norm, attention_post_norm, feed_forward_norm, feed_forward_post_norm;  // empty: none
    Vector attention_norm_bias, feed_forward_norm_bias;                                     // likewise
    Vector query_norm, key_norm;                                                            // likewise
    int32_t window = 0;
    size_t head_size = 0, kv_layer = 0;       // kv_layer: whose K and V it attends to
    size_t shared_heads = 0;                  // query heads to one of K and V
    Matrix embedding_gate, embedding_output;  // without rows: no embedding of its own
    Vector embedding_post_norm, output_scale;
    bool rotates = true, rotates_locally = false;
    Linear query, key, value, attention_output;
    FeedForward dense;  // or of the shared expert; without rows: none
    Matrix router;      // empty: no experts
    Vector router_bias, choice_bias, shared_gate;
    Vector router_norm, expert_norm, expert_post_norm, shared_post_norm, expert_scales;  // empty: none
    Vector sinks;                                                                        // empty: none
    std::vector<FeedForward> experts;
    std::vector<Vector> keys, values;                                // of each position so far, [G*D], keys rotated
    Matrix query_down, latent, rotated_key, head_keys, head_values;  // empty: attention is not latent
    Vector query_down_norm, latent_norm;
    Linear query_gate;                                          // without rows: none
    Linear mixed, output_gate, step, correction, state_output;  // without rows: it attends
    Matrix convolution;
    Vector convolution_bias, step_bias, decay, skip, state_norm;
    std::vector<Vector> before;  // rows of all positions so far that are convolved
    std::vector<Vector> states;  // of each value head, [D][D], S[i][j] of key number i and value number j
  };

  static Matrix matrix(const WeightView& view);
  // One of `count` equal parts, by rows.
  static Matrix part(const Matrix& whole, int32_t index, int32_t count);
  // The rows of all of them.
  static Matrix stacked(std::span<const WeightView* const> views);
  static Vector vector(const WeightView& view);
  void read_experts(const LayerWeights& weights, Layer& layer) const;
  static Vector apply(const Linear& linear, const Vector& x);
  [[nodiscard]] Vector feed_forward(const FeedForward& weights, const Vector& x) const;
  // What is chosen and multiplied for the router's row, of the experts' row.
  [[nodiscard]] Vector experts_sum(const Layer& layer, const Vector& routed, const Vector& x) const;
  [[nodiscard]] Vector mixture(const Layer& layer, const Vector& x) const;
  // With norms of its own, of the hidden states.
  [[nodiscard]] Vector normed_mixture(const Layer& layer, const Vector& hidden) const;
  static Vector multiply(const Matrix& matrix, const Vector& x);
  [[nodiscard]] Vector norm(const Vector& x, const Vector& weight, const Vector& bias = {}) const;
  void norm_heads(Vector& heads, const Vector& weight, size_t size) const;
  [[nodiscard]] std::vector<Vector> layer_embeddings(TokenId id, const Vector& x) const;  // of each layer; or nothing
  void add_embedding(const Layer& layer, const Vector& embedding, Vector& x) const;
  // [n*size], of each head the numbers from `first` on
  void rotate(const Layer& layer, Vector& heads, size_t size, size_t first = 0) const;
  // Heads of `size` numbers, `shared` with one K and V.
  [[nodiscard]] Vector attend(const Layer& layer, const Vector& query, size_t size, size_t value_size,
                              size_t shared) const;
  [[nodiscard]] Vector latent_attention(Layer& layer, const Vector& x) const;
  [[nodiscard]] Vector attention(size_t index, const Vector& x);
  [[nodiscard]] Vector delta_net(Layer& layer, const Vector& x) const;
  [[nodiscard]] Vector mamba2(Layer& layer, const Vector& x) const;
  [[nodiscard]] Vector short_convolution(Layer& layer, const Vector& x) const;
  [[nodiscard]] Vector state_layer(Layer& layer, const Vector& x) const;
  // Of the rows of all positions so far; silu'd but for a short convolution.
  [[nodiscard]] Vector convolve(const Layer& layer) const;
  Vector hidden_after(TokenId id);
  [[nodiscard]] Vector logits_of(const Vector& hidden) const;

  const ModelSpec& spec_;
  Matrix embedding_;
  Matrix output_;  // empty: the embedding
  Vector output_norm_, output_norm_bias_, output_bias_;
  Matrix layer_embeddings_, layer_projection_;
  Vector layer_projection_norm_;
  Vector frequencies_;        // radians a position of each rotated pair, scaling applied
  Vector local_frequencies_;  // of layers with a window; empty: the same
  std::vector<Layer> layers_;
  bool gelu_of_halves_ = false;
  int32_t position_ = 0;
};

// Index of the largest; the lowest among equals.
[[nodiscard]] TokenId argmax(std::span<const double> logits);

}  // namespace inflight::test
