// SPDX-License-Identifier: Apache-2.0
// LoRA adapters for synthetic models, as GGUF files written from the format's description, with the numbers that they
// hold: what readers, kernels and engines are tried on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "model/tensor_type.h"
#include "support/gguf_writer.h"

namespace inflight::test {

struct SyntheticAdapter {
  int32_t rank = 4;
  float alpha = 8.0F;  // below 0: the file has none
  TensorType type = TensorType::F32;
  std::vector<std::string> targets = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
  float strength = 1.0F;  // how large its products are beside the model's
  uint64_t seed = 1;
};

// One adapted matrix [outputs, depth]: W + scale * B A.
struct LowRank {
  int32_t layer = 0;
  std::string target;  // "attn_q"
  int32_t depth = 0, outputs = 0, rank = 0;
  double scale = 1.0;
  std::vector<float> a, b;  // [rank, depth], [outputs, rank]; exact in F16, BF16 and Q8_0
};
[[nodiscard]] std::vector<LowRank> low_ranks(const SyntheticAdapter& adapter, const ModelSpec& spec);

[[nodiscard]] GgufWriter build_adapter(const SyntheticAdapter& adapter, const ModelSpec& spec);

}  // namespace inflight::test
