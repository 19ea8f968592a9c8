// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/quote.h"

namespace inflight {
namespace {

using enum Extent;
using enum Presence;

constexpr LayerTensor kLayerTensors[] = {
    {"attn_norm.weight", &LayerWeights::attention_norm, One, Hidden, Always},
    {"attn_q.weight", &LayerWeights::query, Query, Hidden, Always},
    {"attn_k.weight", &LayerWeights::key, KeyValue, Hidden, Always},
    {"attn_v.weight", &LayerWeights::value, KeyValue, Hidden, Always},
    {"attn_q.bias", &LayerWeights::query_bias, One, Query, Optional},
    {"attn_k.bias", &LayerWeights::key_bias, One, KeyValue, Optional},
    {"attn_v.bias", &LayerWeights::value_bias, One, KeyValue, Optional},
    {"attn_q_norm.weight", &LayerWeights::query_norm, One, Head, WhereNeeded},
    {"attn_k_norm.weight", &LayerWeights::key_norm, One, Head, WhereNeeded},
    {"attn_output.weight", &LayerWeights::attention_output, Hidden, Query, Always},
    {"attn_output.bias", &LayerWeights::attention_output_bias, One, Hidden, Optional},
    {"ffn_norm.weight", &LayerWeights::feed_forward_norm, One, Hidden, Always},
    {"ffn_gate.weight", &LayerWeights::gate, FeedForward, Hidden, Always},
    {"ffn_up.weight", &LayerWeights::up, FeedForward, Hidden, Always},
    {"ffn_down.weight", &LayerWeights::down, Hidden, FeedForward, Always},
    {"ffn_gate.bias", &LayerWeights::gate_bias, One, FeedForward, Optional},
    {"ffn_up.bias", &LayerWeights::up_bias, One, FeedForward, Optional},
    {"ffn_down.bias", &LayerWeights::down_bias, One, Hidden, Optional},
};

constexpr std::string_view kQueryKeyValueBiases[] = {"attn_q.bias", "attn_k.bias", "attn_v.bias"};
constexpr std::string_view kQueryKeyNorms[] = {"attn_q_norm.weight", "attn_k_norm.weight"};

constexpr Architecture kArchitectures[] = {
    {"llama", RopeStyle::Interleaved, {}},
    {"qwen2", RopeStyle::HalfSplit, kQueryKeyValueBiases},
    {"qwen3", RopeStyle::HalfSplit, kQueryKeyNorms},
};

}  // namespace

int32_t extent_of(const ModelSpec& spec, Extent extent) {
  switch (extent) {
    case One:
      return 1;
    case Hidden:
      return spec.hidden_size;
    case FeedForward:
      return spec.feed_forward_size;
    case Query:
      return spec.head_count * spec.head_size;
    case KeyValue:
      return spec.kv_head_count * spec.head_size;
    case Head:
      return spec.head_size;
  }
  return 0;  // not reached
}

std::span<const LayerTensor> layer_tensors() { return kLayerTensors; }

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  fail(ErrorCode::Unsupported, "architecture {} is not supported, only: {}", quote(name), known);
}

}  // namespace inflight
