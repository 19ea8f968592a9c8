// SPDX-License-Identifier: Apache-2.0
// What GGUF files of each model family hold: the names and shapes of their tensors, as data. A
// family that differs in no more than this is added by one row of the table in architecture.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/model_spec.h"
#include "model/weights.h"

namespace inflight {

// A dimension of a tensor, in terms of ModelSpec.
enum class Extent : int32_t {
  One,
  Hidden,
  FeedForward,
  Query,
  KeyValue,
  Heads,
  QueryNorm,
  KeyNorm,
  Experts,
  Expert,
  SharedExpert,
  StateProjected,
  StateMixed,
  StateWindow,
  StateHeads,
  StateGroups,
  StateNorm,
  StateValues,
  LatentRank,
  Attended,
  LayerEmbedding
};
[[nodiscard]] int32_t extent_of(const ModelSpec& spec, int32_t layer, Extent extent);

// Which families have a tensor: all but those that list it as lacking; any, as its file has it; those that list it as
// needed, or as optional. And which layers of these: those with a feed-forward; of them those with a dense one, and of
// these those in which it has a gate; those with a router; those with one, where there is a shared expert, or where it
// lies beside a dense feed-forward; all, where they have embeddings of their own.
enum class Presence : int32_t {
  Always,
  Optional,
  WhereNeeded,
  WithFeedForward,
  Dense,
  Gated,
  Mixed,
  Shared,
  Beside,
  Embedded
};

// What layers have a tensor: all; those that attend, or whose attention is latent; those with a state of that kind.
// OwnKeys: those that attend to K and V of their own. Some: those that attend or have a state.
enum class Mixer : int32_t { Any, Some, Attention, OwnKeys, LatentAttention, DeltaNet, ShortConvolution, Mamba2 };

// How a layer's feed-forward reads what attention adds to the hidden states: it does; it does not, but lies beside
// attention; as the file states it (use_parallel_residual).
enum class Residual : int32_t { Sequential, Parallel, Stated };

// How local layers rotate heads where the file does not state a base of their own (rope.freq_base_swa): as the others;
// with their base, unscaled; with base 10,000, unscaled.
enum class LocalRope : int32_t { Same, Unscaled, Base10000 };

// One tensor of each layer.
struct LayerTensor {
  std::string_view name;  // behind "blk.<layer>."
  WeightView LayerWeights::* role;
  Extent rows;
  Extent columns;
  Presence presence;
  Mixer mixer = Mixer::Any;
  bool per_expert = false;  // of one dimension more: a matrix or a vector an expert

  [[nodiscard]] bool is_vector() const { return rows == Extent::One; }  // norm, bias
  // Read as it is: always F32.
  [[nodiscard]] bool is_float() const {
    return is_vector() || columns == Extent::One || columns == Extent::StateWindow || columns == Extent::StateNorm;
  }
};
[[nodiscard]] std::span<const LayerTensor> layer_tensors();

// The name of a layer's tensor taken apart: "blk.<layer>.<name>"; nothing: it is not of that form.
struct LayerTensorName {
  int64_t layer;
  std::string_view name;
};
[[nodiscard]] std::optional<LayerTensorName> parse_layer_tensor(std::string_view text);

// Tensors that some files have in the place of others: the rows of these, one after the other.
struct JoinedTensor {
  std::string_view name;
  std::span<const std::string_view> parts;  // of layer_tensors()
};
[[nodiscard]] std::span<const JoinedTensor> joined_tensors();

// A layer tensor that a family's files have under another name.
struct RenamedTensor {
  std::string_view name;  // of layer_tensors()
  std::string_view in_files;
};

struct Architecture {
  std::string_view name;  // value of general.architecture, prefix of its keys
  RopeStyle rope_style = RopeStyle::Interleaved;
  std::span<const std::string_view> needed = {};       // layer tensors, not always there, that this family must have
  std::span<const std::string_view> lacking = {};      // those that this family never has
  std::span<const std::string_view> optional = {};     // those that some of its files, or layers, have
  std::span<const std::string_view> needed_keys = {};  // metadata keys behind "<name>." that it must have
  std::span<const RenamedTensor> renamed = {};
  std::string_view output_norm = "output_norm.weight";
  bool weightless_norms = false;   // norms of hidden states are there and have no weights
  bool mean_norms = false;         // ModelSpec's; the epsilon has another key then
  bool gated_feed_forward = true;  // this, too
  Residual residual = Residual::Sequential;
  bool logits_multiplied = false;    // by the logit scale that files state, else divided
  bool embeddings_by_width = false;  // embeddings are multiplied by sqrt(E)
  int32_t global_every = 0;          // ModelSpec's, of files with a window that do not state it
  LocalRope local_rope = LocalRope::Same;
  bool globals_unrotated = false;  // layers without a window do not rotate heads, where others have one
  int32_t unrotated_every = 0;     // these are ModelSpec's, too
  Activation activation = Activation::Silu;
  bool norms_heads_together = false;
  bool norms_values = false;
  bool norms_rotated = false;
  float attention_scale = 0.0F;            // of files that do not state it
  std::optional<StateKind> state = {};     // of layers in which it has that in the place of attention
  int32_t attention_every = 0;             // of files that do not state it; 0: layers without KV heads have states
  bool state_beside = false;               // all layers have both
  bool lone_parts = false;                 // layers that state a feed-forward have nothing else, others none
  bool grouped_heads = false;              // of delta nets, StateShape's
  bool latent = false;                     // attention is multi-head latent attention
  bool gated_attention = false;            // attn_q.weight holds of each head its rows, then those of its gate
  bool experts = false;                    // may be a mixture of experts
  bool dense_beside_experts = false;       // whose layers have a dense feed-forward, too, and norms of each part
  Gating expert_gating = Gating::Softmax;  // of files that do not state it; the next one, too
  bool expert_weights_normed = true;
};
// ERRORS: Unsupported naming the architecture and those there are.
[[nodiscard]] const Architecture& find_architecture(std::string_view name);

}  // namespace inflight
