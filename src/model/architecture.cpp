// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "model/quote.h"

namespace inflight {
namespace {

using enum Extent;
constexpr bool kOptional = true;
constexpr bool kRequired = false;

constexpr LayerTensor kLayerTensors[] = {
    {"attn_norm.weight", &LayerWeights::attention_norm, One, Hidden, kRequired},
    {"attn_q.weight", &LayerWeights::query, Query, Hidden, kRequired},
    {"attn_k.weight", &LayerWeights::key, KeyValue, Hidden, kRequired},
    {"attn_v.weight", &LayerWeights::value, KeyValue, Hidden, kRequired},
    {"attn_q.bias", &LayerWeights::query_bias, One, Query, kOptional},
    {"attn_k.bias", &LayerWeights::key_bias, One, KeyValue, kOptional},
    {"attn_v.bias", &LayerWeights::value_bias, One, KeyValue, kOptional},
    {"attn_output.weight", &LayerWeights::attention_output, Hidden, Query, kRequired},
    {"attn_output.bias", &LayerWeights::attention_output_bias, One, Hidden, kOptional},
    {"ffn_norm.weight", &LayerWeights::feed_forward_norm, One, Hidden, kRequired},
    {"ffn_gate.weight", &LayerWeights::gate, FeedForward, Hidden, kRequired},
    {"ffn_up.weight", &LayerWeights::up, FeedForward, Hidden, kRequired},
    {"ffn_down.weight", &LayerWeights::down, Hidden, FeedForward, kRequired},
    {"ffn_gate.bias", &LayerWeights::gate_bias, One, FeedForward, kOptional},
    {"ffn_up.bias", &LayerWeights::up_bias, One, FeedForward, kOptional},
    {"ffn_down.bias", &LayerWeights::down_bias, One, Hidden, kOptional},
};

constexpr std::string_view kQueryKeyValueBiases[] = {"attn_q.bias", "attn_k.bias", "attn_v.bias"};

constexpr Architecture kArchitectures[] = {
    {"llama", RopeStyle::Interleaved, {}},
    {"qwen2", RopeStyle::HalfSplit, kQueryKeyValueBiases},
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
