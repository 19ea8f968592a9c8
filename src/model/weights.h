// SPDX-License-Identifier: Apache-2.0
// A model's weights on the host, by role instead of by name. Views into the mapped file: nothing is copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/mapped_file.h"
#include "model/tensor_type.h"

namespace inflight {

// A matrix [rows, columns] row-major in `type`, or a vector (rows = 1). Used as y = x * W^T: rows are outputs.
// LIFETIME: `bytes` points into the model's file mapping, or at numbers that live as long as the program.
struct WeightView {
  std::string name;  // as in the file, for messages
  TensorType type = TensorType::F32;
  int32_t rows = 0;
  int32_t columns = 0;
  std::span<const std::byte> bytes;
  // 0: rows lie one after the other; else so many do, and the piece behind them begins piece_stride of the file's rows
  // behind theirs (heads of two kinds).
  int32_t piece_rows = 0, piece_stride = 0;
  // Each piece lies in the file with its rows and columns exchanged: `columns` rows of piece_rows numbers.
  bool turned = false;

  // Of the file's rows, the one that a row is, or, of turned pieces, that its piece begins with.
  [[nodiscard]] size_t place_of(size_t row) const {
    const auto piece = static_cast<size_t>(piece_rows);
    if (piece == 0) return row;
    return row / piece * static_cast<size_t>(piece_stride) + (turned ? 0 : row % piece);
  }
  // Rows of the file, and numbers of each.
  [[nodiscard]] int32_t stored_rows() const { return turned ? rows / piece_rows * columns : rows; }
  [[nodiscard]] int32_t stored_columns() const { return turned ? piece_rows : columns; }
  [[nodiscard]] bool present() const { return !bytes.empty(); }
};

struct LayerWeights {
  WeightView attention_norm;                               // [E] F32; optional, as all norms
  WeightView attention_norm_bias, feed_forward_norm_bias;  // [E] F32, optional
  WeightView query, key, value;                            // [H*D, E], [G*D, E], [G*D, E]
  WeightView query_bias, key_bias, value_bias;             // optional, F32
  WeightView query_norm, key_norm;           // [D], or [H*D] and [G*D], F32: of heads before they are rotated
  WeightView query_gate;                     // [H*D, E], optional: of what each head attends to
  WeightView attention_output;               // [E, H*D]
  WeightView attention_output_bias;          // optional, F32
  WeightView attention_sinks;                // [H] F32, optional: scores of a token without V that each head sees
  WeightView attention_post_norm;            // [E] F32: of what attention adds to the hidden states
  WeightView feed_forward_norm;              // [E] F32
  WeightView gate, up, down;                 // [F, E], [F, E], [E, F]; beside a router of the shared expert, if any
  WeightView gate_bias, up_bias, down_bias;  // optional, F32
  WeightView feed_forward_post_norm;         // [E] F32
  // Of layers with an embedding of their own, P numbers a token: optional.
  WeightView embedding_gate;       // [P, E]
  WeightView embedding_output;     // [E, P]
  WeightView embedding_post_norm;  // [E] F32
  WeightView output_scale;         // [1] F32, optional: what the hidden states are multiplied by behind the layer
  // Of layers whose attention is latent (LatentShape), whose `query` is [H*(N+R), Q or E]. R: rotated numbers, V:
  // values of a head.
  WeightView query_down, query_down_norm;  // [Q, E], [Q] F32; optional
  WeightView latent, latent_norm;          // [C, E], [C] F32
  WeightView rotated_key;                  // [R, E]
  WeightView head_keys;                    // [H*C, N]: of each head, what makes its queries ones for latent vectors
  WeightView head_values;                  // [H*V, C]
  // Of layers with experts, each matrix those of all of them one after the other.
  WeightView router;                                              // [X, E]
  WeightView router_bias;                                         // [X] F32, optional
  WeightView choice_bias;                                         // [X] F32, optional: added where experts are chosen
  WeightView expert_gate, expert_up, expert_down;                 // [X*F, E], [X*F, E], [X*E, F]
  WeightView expert_gate_bias, expert_up_bias, expert_down_bias;  // [X, F], [X, F], [X, E] F32, optional
  WeightView expert_scales;  // [X] F32, optional: what an expert gives is multiplied by its number
  WeightView shared_gate;    // [E] F32, optional: how much of the shared expert is taken
  // [E] F32 each, all or none: router, experts and the shared one have norms of their own. What the router reads has
  // its root mean square divided by sqrt(E), too.
  WeightView router_norm, expert_norm, expert_post_norm, shared_post_norm;

  // Of layers with a state in the place of attention (StateShape). P, M, V: projected, mixed and value width, W:
  // window, N: value heads.
  WeightView mixed;  // [P, E]; where the next two are there, of queries alone, as these of keys and values
  WeightView mixed_keys, mixed_values;
  WeightView convolution;       // [M][W] F32: factors of a number's last W values, the oldest first
  WeightView convolution_bias;  // [M] F32, optional
  // Where there are matrices. The last two are of a delta net alone and of Mamba 2 alone.
  WeightView output_gate;       // [V, E]
  WeightView step;              // [N, E]: how far it decays
  WeightView step_bias, decay;  // [N] F32 each; decay is below 0
  WeightView state_norm;        // F32: of what each head reads [V/N], or of what all read [V]
  WeightView correction;        // [N, E]: how much it is corrected
  WeightView skip;              // [N] F32: how much of its values is added to what each head reads
  WeightView state_output;      // [E, V]

  [[nodiscard]] bool has_state() const { return mixed.present(); }
  [[nodiscard]] bool has_experts() const { return router.present(); }
  // All of [N, K] that every token is multiplied by, and those of experts; which are there differs from layer to layer.
  [[nodiscard]] std::array<const WeightView*, 23> common_matrices() const {
    return {&query,
            &query_gate,
            &key,
            &value,
            &attention_output,
            &query_down,
            &latent,
            &rotated_key,
            &head_keys,
            &head_values,
            &mixed,
            &mixed_keys,
            &mixed_values,
            &output_gate,
            &step,
            &correction,
            &state_output,
            &gate,
            &up,
            &down,
            &router,
            &embedding_gate,
            &embedding_output};
  }
  [[nodiscard]] std::array<const WeightView*, 3> expert_matrices() const {
    return {&expert_gate, &expert_up, &expert_down};
  }
};

struct ModelWeights {
  std::vector<FileIdentity> files;  // that all bytes lie in, mapped; none: they lie elsewhere
  WeightView token_embedding;       // [V, E]
  std::vector<LayerWeights> layers;
  WeightView output_norm;       // [E] F32
  WeightView output_norm_bias;  // [E] F32, optional
  WeightView output;            // [V, E]; equal to token_embedding's view when tied
  bool tied_output = false;
  WeightView output_bias;      // [V] F32, optional
  WeightView classifier;       // [labels, E], optional
  WeightView classifier_bias;  // [labels] F32, optional
  // Where layers have embeddings of their own (P numbers): of all layers together, what is added to these, from the
  // token's embedding, and its norm, of each layer's part by itself.
  WeightView layer_embeddings;       // [V, L*P]
  WeightView layer_projection;       // [L*P, E]
  WeightView layer_projection_norm;  // [P] F32
  WeightView rope_factors;           // optional [rope_dimension_count / 2] F32: divides each pair's frequency
  WeightView rope_factors_long;  // optional: in the place of these in contexts longer than the original one (LongRoPE)
};

}  // namespace inflight
