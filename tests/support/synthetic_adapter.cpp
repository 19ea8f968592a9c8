// SPDX-License-Identifier: Apache-2.0
#include "support/synthetic_adapter.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/rng.h"

namespace inflight::test {
namespace {

// Odd multiples of a power of two, up to 127 of them, near (-spread, spread): exact in every float type, and in Q8_0,
// whose scale is that power since each block begins with 127 of it.
std::vector<float> numbers(Rng& rng, int32_t count, float spread) {
  const float unit = std::exp2(std::round(std::log2(spread / 128.0F)));
  std::vector<float> all(static_cast<size_t>(count));
  for (float& number : all) number = unit * static_cast<float>(2 * rng.between(-64, 63) + 1);
  for (size_t i = 0; i < all.size(); i += 32) all[i] = 127.0F * unit;
  return all;
}

}  // namespace

std::vector<LowRank> low_ranks(const SyntheticAdapter& adapter, const ModelSpec& spec) {
  const int32_t hidden = spec.hidden_size, query = spec.head_count * spec.head_size;
  const int32_t key_value = spec.kv_head_count * spec.head_size, feed_forward = spec.feed_forward_size;
  const std::map<std::string, std::pair<int32_t, int32_t>> shapes = {
      // depth, outputs
      {"attn_q", {hidden, query}},          {"attn_k", {hidden, key_value}},      {"attn_v", {hidden, key_value}},
      {"attn_output", {query, hidden}},     {"ffn_gate", {hidden, feed_forward}}, {"ffn_up", {hidden, feed_forward}},
      {"ffn_down", {feed_forward, hidden}},
  };
  std::vector<LowRank> all;
  Rng rng(adapter.seed);
  for (int32_t layer = 0; layer < spec.layer_count; ++layer) {
    for (const std::string& target : adapter.targets) {
      const auto [depth, outputs] = shapes.at(target);
      const double scale =
          adapter.alpha > 0.0F ? static_cast<double>(adapter.alpha) / static_cast<double>(adapter.rank) : 1.0;
      const float spread_a = std::sqrt(3.0F / static_cast<float>(depth));
      const float spread_b =
          adapter.strength * std::sqrt(3.0F / static_cast<float>(adapter.rank)) / static_cast<float>(scale);
      LowRank one{.layer = layer,
                  .target = target,
                  .depth = depth,
                  .outputs = outputs,
                  .rank = adapter.rank,
                  .scale = scale,
                  .a = {},
                  .b = {}};
      one.a = numbers(rng, adapter.rank * depth, spread_a);
      one.b = numbers(rng, outputs * adapter.rank, spread_b);
      all.push_back(std::move(one));
    }
  }
  return all;
}

GgufWriter build_adapter(const SyntheticAdapter& adapter, const ModelSpec& spec) {
  GgufWriter writer;
  writer.key_string("general.type", "adapter");
  writer.key_string("general.architecture", spec.architecture);
  writer.key_string("adapter.type", "lora");
  if (adapter.alpha >= 0.0F) writer.key_f32("adapter.lora.alpha", adapter.alpha);
  for (const LowRank& one : low_ranks(adapter, spec)) {
    const std::string name = fmt::format("blk.{}.{}.weight", one.layer, one.target);
    const auto rank = static_cast<uint64_t>(one.rank);
    writer.tensor(name + ".lora_a", adapter.type, {static_cast<uint64_t>(one.depth), rank}, one.a);
    writer.tensor(name + ".lora_b", adapter.type, {rank, static_cast<uint64_t>(one.outputs)}, one.b);
  }
  return writer;
}

}  // namespace inflight::test
