// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter (Hu et al. 2021) as GGUF, in the form that llama.cpp's convert_lora_to_gguf writes:
//   general.type = "adapter", general.architecture = the base model's, adapter.type = "lora", adapter.lora.alpha
//   for a matrix W [N, K] of the base model, by its name: NAME.lora_a [R, K] and NAME.lora_b [N, R]
// Meaning: y = W x + (alpha / R) * B (A x); alpha 0 or absent: factor 1. R may differ from matrix to matrix.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "model/gguf_file.h"
#include "model/weights.h"

namespace inflight {

// The matrices of a layer that can be adapted, in the order of their use.
enum class LoraTarget : int32_t { Query, Key, Value, AttentionOutput, Gate, Up, Down };
inline constexpr int32_t kLoraTargetCount = 7;
inline constexpr int32_t kAttentionTargetCount = 4;  // the first of them

struct LoraShape {
  int32_t depth = 0;    // K
  int32_t outputs = 0;  // N
};
[[nodiscard]] LoraShape lora_shape(const ModelSpec& spec, LoraTarget target);

struct LoraPair {
  WeightView a, b;  // [R, K], [N, R]; neither is present where the matrix is not adapted
  [[nodiscard]] int32_t rank() const { return a.rows; }
};

struct LoraFile {
  GgufFile file;  // owns the mapping that the views point into; a move keeps it
  float alpha = 0.0F;
  int32_t rank = 0;                                              // the largest
  std::vector<std::array<LoraPair, kLoraTargetCount>> layers{};  // of the base model

  [[nodiscard]] float scale(const LoraPair& pair) const {
    return alpha == 0.0F ? 1.0F : alpha / static_cast<float>(pair.rank());
  }
};

// Reads and checks an adapter for the model of `spec`.  rank_max: the largest R allowed.
// ERRORS: NotFound, Io, CorruptFile, Unsupported, InvalidArgument (a rank above rank_max); one line that names the
// file,
//         the tensor or key, what was found and what is allowed.
// COST:   O(metadata); the numbers are read when they are first touched.
[[nodiscard]] LoraFile load_lora(const std::string& path, const ModelSpec& spec, int32_t rank_max);

}  // namespace inflight
