// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_spec_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"

namespace inflight {
namespace {

int32_t as_count(int64_t number) {
  return static_cast<int32_t>(std::clamp<int64_t>(number, 0, std::numeric_limits<int32_t>::max()));
}

// Every how many layers one has no window, 0: none: stated as that number, or as what each layer has; else as the
// family has it.
int32_t read_global_every(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture,
                          int32_t layers) {
  const std::string key = keys.key("attention.sliding_window_pattern");
  const GgufValue* const value = file.find_value(key);
  if (value == nullptr) return architecture.global_every;
  if (value->type != GgufValueType::Array) return *keys.find_count("attention.sliding_window_pattern", 0);
  const std::vector<bool> windows = *file.find_bools(key);
  keys.require_layers("attention.sliding_window_pattern", windows.size(), layers);
  if (std::find(windows.begin(), windows.begin() + layers, false) == windows.begin() + layers) return 0;
  for (int32_t every = 1; every <= layers; ++every) {
    bool same = true;
    for (int32_t i = 0; i < layers; ++i) same = same && windows[static_cast<size_t>(i)] == ((i + 1) % every != 0);
    if (same) return every;
  }
  fail(ErrorCode::Unsupported, "{}: metadata key {}: supported are windows in all layers but the last of every N",
       file.path(), quote(key));
}

// Of local layers and of the others, where there are local ones.   REQUIRES: windows are set.
void read_local_kv_heads(const GgufFile& file, const std::string& key, std::span<const int64_t> counts,
                         ModelSpec& spec) {
  const int64_t local = counts.front();  // the first layer is local, the last of every global_every is not
  const int64_t other = counts[static_cast<size_t>(std::min(spec.global_every, spec.layer_count)) - 1];
  if (local < 1 || other < 1) {
    fail(ErrorCode::CorruptFile, "{}: metadata key {} has {}, allowed: at least 1", file.path(), quote(key),
         std::min(local, other));
  }
  for (int32_t i = 0; i < spec.layer_count; ++i) {
    const int64_t expected = spec.is_local(i) ? local : other, found = counts[static_cast<size_t>(i)];
    if (found == expected) continue;
    fail(ErrorCode::Unsupported,
         "{}: metadata key {} has {} and {} in layers {} a window; supported: one value for "
         "all of these",
         file.path(), quote(key), expected, found, spec.is_local(i) ? "with" : "without");
  }
  spec.kv_head_count = as_count(other);
  if (local != other) spec.local_kv_head_count = as_count(local);
}

// Which layers have states: stated of each layer, or by every how many layers one has none; else as the family has it.
std::vector<Mixing> read_mixing(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture,
                                int32_t layers) {
  if (layers < 1 || layers > limits::kLayerCountMax) return {};  // what validate() refuses
  auto stateful = file.find_bools(keys.key("attention.recurrent_layers"));
  if (!stateful) {
    const int32_t every = keys.find_count("full_attention_interval").value_or(architecture.attention_every);
    stateful.emplace();
    for (int32_t i = 0; i < layers; ++i) stateful->push_back((i + 1) % every != 0);
  }
  keys.require_layers("attention.recurrent_layers", stateful->size(), layers);
  std::vector<Mixing> mixing;
  for (int32_t i = 0; i < layers; ++i) {  // without those that predict further tokens
    mixing.push_back(stateful->at(static_cast<size_t>(i)) ? Mixing::State : Mixing::Attention);
  }
  return mixing;
}

StateShape read_delta_net(const GgufFile& file, const SpecKeys& keys, bool grouped_heads) {
  const int32_t size = keys.count("ssm.state_size"), inner = keys.count("ssm.inner_size");
  const StateShape state{.kind = StateKind::DeltaNet,
                         .key_heads = keys.count("ssm.group_count"),
                         .value_heads = keys.count("ssm.time_step_rank"),
                         .grouped_heads = grouped_heads,
                         .key_size = size,
                         .value_size = size,
                         .window = keys.count("ssm.conv_kernel")};
  if (inner != int64_t{state.value_heads} * size) {
    fail(ErrorCode::Unsupported, "{}: metadata key {} is {}, supported: {} heads of {}", file.path(),
         quote(keys.key("ssm.inner_size")), inner, state.value_heads, size);
  }
  return state;
}

StateShape read_mamba(const GgufFile& file, const SpecKeys& keys) {
  const int32_t heads = keys.count("ssm.time_step_rank"), inner = keys.count("ssm.inner_size");
  if (inner % heads != 0) {
    fail(ErrorCode::CorruptFile, "{}: metadata key {} is {}, no multiple of its {} heads", file.path(),
         quote(keys.key("ssm.inner_size")), inner, heads);
  }
  return {.kind = StateKind::Mamba2,
          .key_heads = keys.count("ssm.group_count"),
          .value_heads = heads,
          .grouped_heads = true,
          .key_size = keys.count("ssm.state_size"),
          .value_size = inner / heads,
          .window = keys.count("ssm.conv_kernel")};
}

}  // namespace

void read_feed_forward(const GgufFile& file, const SpecKeys& keys, ModelSpec& spec) {
  constexpr std::string_view kName = "feed_forward_length";
  const GgufValue* const value = file.find_value(keys.key(kName));
  if (value == nullptr || value->type != GgufValueType::Array) {
    // Where all layers have experts some files state these' size alone.
    const auto of_experts = keys.find_count("expert_feed_forward_length");
    const auto stated = keys.find_count(kName);
    spec.feed_forward_size = stated ? *stated : of_experts ? *of_experts : keys.count(kName);
    return;
  }
  const std::vector<int64_t> sizes = *file.find_integers(keys.key(kName));
  keys.require_layers(kName, sizes.size(), spec.layer_count);
  for (size_t i = 0; i < sizes.size() && std::cmp_less(i, spec.layer_count); ++i) {
    spec.feed_forward_sizes.push_back(as_count(sizes[i]));
    spec.feed_forward_size = std::max(spec.feed_forward_size, spec.feed_forward_sizes.back());
  }
}

void read_sharing(const GgufFile& file, const SpecKeys& keys, ModelSpec& spec) {
  if (!spec.norms_values) return;
  spec.layer_embedding_size = keys.find_count("embedding_length_per_layer_input", 0).value_or(0);
  if (const int32_t sharing = keys.find_count("attention.shared_kv_layers", 0).value_or(0); sharing > 0) {
    spec.first_sharing_layer = std::max(spec.layer_count - sharing, 1);
  }
  if (spec.local_window == 0) return;
  spec.local_head_size = keys.find_count("attention.key_length_swa").value_or(0);
  for (const std::string_view name : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    const int32_t found = keys.find_count(name).value_or(spec.local_head_size);
    if (found == spec.local_head_size) continue;
    fail(ErrorCode::Unsupported, "{}: metadata key {} is {}; supported: that of key_length_swa, {}", file.path(),
         quote(keys.key(name)), found, spec.local_head_size);
  }
}

void read_windows(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec) {
  const int32_t window = keys.find_count("attention.sliding_window", 0).value_or(0);  // 0: none
  const int32_t every = window > 0 ? read_global_every(file, keys, architecture, spec.layer_count) : 1;
  if (every == 1) return;
  if (every == 0) {  // who looks back on the whole context has no window
    spec.sliding_window = window < spec.context_length ? window : 0;
    return;
  }
  spec.local_window = window;
  spec.global_every = every;
  if (architecture.local_rope == LocalRope::Unscaled) spec.local_rope_base = spec.rope_base;
  if (architecture.local_rope == LocalRope::Base10000) spec.local_rope_base = 10000.0F;
  spec.local_rope_base = keys.find_float("rope.freq_base_swa").value_or(spec.local_rope_base);
  if (architecture.globals_unrotated) spec.unrotated_every = every;
}

void read_kv_heads(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec) {
  constexpr std::string_view kName = "attention.head_count_kv";
  const GgufValue* const value = file.find_value(keys.key(kName));
  const bool has_states = architecture.state && architecture.attention_every == 0;
  const bool has_local = spec.norms_values && spec.local_window > 0;
  if (value == nullptr || value->type != GgufValueType::Array || !(has_states || has_local)) {
    if (architecture.lone_parts) {
      fail(ErrorCode::CorruptFile, "{}: metadata key {} does not state a number for each layer", file.path(),
           quote(keys.key(kName)));
    }
    spec.kv_head_count = keys.find_count(kName).value_or(spec.head_count);
    return;
  }
  auto counts = *file.find_integers(keys.key(kName));
  keys.require_layers(kName, counts.size(), spec.layer_count);
  if (spec.layer_count < 1) return;  // what validate() refuses
  counts.resize(static_cast<size_t>(spec.layer_count));
  if (has_local) return read_local_kv_heads(file, keys.key(kName), counts, spec);
  int64_t heads = 0;
  for (const int64_t count : counts) {
    const auto layer = static_cast<int32_t>(spec.mixing.size());
    const bool alone = architecture.lone_parts && spec.feed_forward_size_of(layer) > 0;
    spec.mixing.push_back(alone ? Mixing::None : count == 0 ? Mixing::State : Mixing::Attention);
    if (alone) continue;
    if (heads == 0) heads = count;
    if (count == 0 || count == heads) continue;
    fail(ErrorCode::Unsupported, "{}: metadata key {} has {} and {}; supported: one value for all layers that attend",
         file.path(), quote(keys.key(kName)), heads, count);
  }
  spec.kv_head_count = as_count(heads);
}

void read_states(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec) {
  if (!architecture.state) return;
  if (architecture.state_beside && spec.layer_count <= limits::kLayerCountMax) {
    spec.mixing.assign(static_cast<size_t>(std::max(spec.layer_count, 0)), Mixing::Both);
  }
  if (architecture.attention_every > 0) spec.mixing = read_mixing(file, keys, architecture, spec.layer_count);
  if (!spec.has_state()) return;
  switch (*architecture.state) {
    case StateKind::DeltaNet:
      spec.state = read_delta_net(file, keys, architecture.grouped_heads);
      break;
    case StateKind::ShortConvolution:
      spec.state = {.kind = StateKind::ShortConvolution,
                    .value_heads = 1,
                    .value_size = spec.hidden_size,
                    .window = keys.count("shortconv.l_cache")};
      break;
    case StateKind::Mamba2:
      spec.state = read_mamba(file, keys);
      break;
  }
}

}  // namespace inflight
