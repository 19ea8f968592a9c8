// SPDX-License-Identifier: Apache-2.0
// Files of models with states in the place of attention: what is read of them, what is refused.
// Covers: model/gguf_spec_layers.cpp, model/gguf_weights.cpp, exec/pack_rows.cpp
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/pack_rows.h"
#include "model/gguf_spec.h"
#include "model/model_loader.h"
#include "model/quantize_file.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

SyntheticModel qwen35() {
  SyntheticModel model;
  model.make_qwen35(false);
  return model;
}

SyntheticModel lfm2() {
  SyntheticModel model;
  model.make_lfm2(false);
  return model;
}

LoadedModel load_states(const TempFolder& folder, const SyntheticModel& model) {
  return load_model(folder.write("states.gguf", build_model(model).bytes()));
}

TEST(StateFiles, TellWhichLayersAttend) {
  const TempFolder folder;
  const LoadedModel loaded = load_states(folder, qwen35());
  const ModelSpec& spec = loaded.spec;
  EXPECT_EQ(spec.kv_layer_count(), 2);
  EXPECT_EQ(spec.stateful_layer_count(), 4);
  const int32_t places[] = {0, 1, 0, 2, 3, 1};
  for (int32_t layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(spec.attends(layer), layer == 2 || layer == 5) << layer;
    EXPECT_EQ(spec.attends(layer) ? spec.kv_place_of(layer) : spec.state_place_of(layer), places[layer]) << layer;
    const LayerWeights& weights = loaded.weights.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(weights.has_state(), !spec.attends(layer)) << layer;
    EXPECT_EQ(weights.key.present(), spec.attends(layer)) << layer;
    EXPECT_EQ(weights.feed_forward_norm.name, fmt::format("blk.{}.post_attention_norm.weight", layer));
  }
  // 4 layers of the last 3 of 256 numbers and 4 heads of 32 x 32.
  EXPECT_EQ(spec.state_bytes(), size_t{4} * (3 * 256 + 4 * 32 * 32) * sizeof(float));
}

// Of each head the file has 16 rows of the query, then 16 of its gate.
TEST(StateFiles, HoldQueriesAndGatesByTurns) {
  const TempFolder folder;
  const LoadedModel loaded = load_states(folder, qwen35());
  const LayerWeights& layer = loaded.weights.layers[2];
  ASSERT_EQ(layer.query.rows, 64);
  const auto* const file = reinterpret_cast<const float*>(layer.query.bytes.data());
  for (const WeightView* view : {&layer.query, &layer.query_gate}) {
    for (size_t panel = 0; panel < 4; ++panel) {  // of 16 outputs, so a head's
      std::vector<std::byte> packed(size_t{16} * 64 * sizeof(float));
      (void)pack_rows(*view, panel, packed);
      const auto* const numbers = reinterpret_cast<const float*>(packed.data());
      const size_t first = panel * 32 + (view == &layer.query ? 0 : 16);
      for (size_t k = 0; k < 64; ++k) {
        for (size_t n = 0; n < 16; ++n) ASSERT_EQ(numbers[k * 16 + n], file[(first + n) * 64 + k]) << panel << ' ' << n;
      }
    }
  }
}

TEST(StateFiles, MayHaveLayersThatPredictFurtherTokens) {
  const TempFolder folder;
  SyntheticModel model = qwen35();
  model.predicting_layers = 1;
  EXPECT_EQ(load_states(folder, model).spec.layer_count, 6);
  model.predicting_layers = 0;
  GgufWriter writer = build_model(model);
  writer.tensor("blk.6.nextn.enorm.weight", TensorType::F32, {64}, std::vector<float>(64));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "tensor 'blk.6.nextn.enorm.weight' is not part of architecture qwen35",
                        [&] { (void)load_model(folder.write("more.gguf", writer.bytes())); });
}

// Of 2^31 - 1 layers and as many but 6 that predict further tokens, a tensor that is none of theirs: at once.
TEST(StateFiles, WithHugeCountsAreRefusedAtOnce) {
  const TempFolder folder;
  SyntheticModel model = qwen35();
  model.predicting_layers = 1;
  GgufWriter writer = build_model(model);
  writer.tensor("blk.5.nextn.enorm.weight", TensorType::F32, {64}, std::vector<float>(64));
  std::vector<std::byte> bytes = writer.bytes();
  const auto set = [&](std::string_view key, int32_t value) {  // u32: 4 bytes of type, then the number
    const auto found = std::ranges::search(bytes, std::as_bytes(std::span(key)));
    std::memcpy(&*found.end() + 4, &value, sizeof value);
  };
  set("qwen35.nextn_predict_layers", 7);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "'qwen35.nextn_predict_layers' is 7, allowed: 0 to 6",
                        [&] { (void)load_model(folder.write("huge.gguf", bytes)); });
  set("qwen35.nextn_predict_layers", 1);
  set("qwen35.block_count", std::numeric_limits<int32_t>::max());
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "layer count is 2147483646, allowed: 1 to 1024",
                        [&] { (void)load_model(folder.write("huge.gguf", bytes)); });
  set("qwen35.nextn_predict_layers", std::numeric_limits<int32_t>::max() - 6);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "tensor 'blk.5.nextn.enorm.weight' is not part of architecture qwen35",
                        [&] { (void)load_model(folder.write("huge.gguf", bytes)); });
}

TEST(StateFiles, WithWindowsAreRefused) {
  const TempFolder folder;
  SyntheticModel model = lfm2();
  model.spec.sliding_window = 60;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "a sliding window of 60 tokens beside layers with states",
                        [&] { (void)load_states(folder, model); });
}

TEST(StateFiles, OfShapesThatAreNotComputedAreRefused) {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, const char* text, auto&& change) {
    SyntheticModel model = qwen35();
    change(model);
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load_states(folder, model); });
  };
  refused(ErrorCode::CorruptFile, "'qwen35.attention.recurrent_layers' has 5 elements, the model 6 layers",
          [](SyntheticModel& m) { m.spec.mixing.resize(5); });
  refused(ErrorCode::CorruptFile, "number of layers that attend is 0, allowed: 1 to 6",
          [](SyntheticModel& m) { m.spec.mixing.assign(6, Mixing::State); });
  refused(ErrorCode::Unsupported, "5 value heads for 2 key heads",
          [](SyntheticModel& m) { m.spec.state.value_heads = 5; });
  refused(ErrorCode::Unsupported, "key size is 48, supported: multiples of 32",
          [](SyntheticModel& m) { m.spec.state.key_size = m.spec.state.value_size = 48; });
  refused(ErrorCode::CorruptFile, "key size is 544, allowed: 1 to 512",
          [](SyntheticModel& m) { m.spec.state.key_size = m.spec.state.value_size = 544; });
  refused(ErrorCode::CorruptFile, "window is 9, allowed: 2 to 8", [](SyntheticModel& m) { m.spec.state.window = 9; });
}

TEST(StateFiles, OfShortConvolutions) {
  const TempFolder folder;
  const LoadedModel loaded = load_states(folder, lfm2());
  EXPECT_EQ(loaded.spec.mixing, lfm2().spec.mixing);
  EXPECT_EQ(loaded.spec.kv_head_count, 2);
  EXPECT_EQ(loaded.spec.kv_layer_count(), 2);
  EXPECT_EQ(loaded.spec.state_bytes(), 4U * 2 * 64 * sizeof(float));  // two tokens' 64 numbers of four layers
  const LayerWeights& layer = loaded.weights.layers[1];
  EXPECT_EQ(layer.mixed.name, "blk.1.shortconv.in_proj.weight");
  EXPECT_EQ(layer.mixed.rows, 3 * 64);
  EXPECT_EQ(layer.convolution.columns, 3);
  EXPECT_FALSE(layer.step.present());
  EXPECT_FALSE(layer.query.present());
  EXPECT_FALSE(loaded.weights.layers[2].has_state());
  EXPECT_EQ(loaded.weights.output_norm.name, "token_embd_norm.weight");
}

// Rows of one tensor: the gate's, those that are convolved, the steps'.
TEST(StateFiles, OfMamba2) {
  const TempFolder folder;
  SyntheticModel model;
  model.make_granite_hybrid(false);
  const LoadedModel loaded = load_states(folder, model);
  EXPECT_EQ(loaded.spec.state.kind, StateKind::Mamba2);
  EXPECT_EQ(loaded.spec.state.value_size, 32);
  EXPECT_EQ(loaded.spec.state_bytes(), 3U * (3 * (128 + 2 * 2 * 64) + 4 * 64 * 32) * sizeof(float));
  EXPECT_FALSE(loaded.spec.rotates(2));
  const LayerWeights& layer = loaded.weights.layers[3];
  EXPECT_EQ(layer.output_gate.name, "blk.3.ssm_in.weight (gate)");
  EXPECT_EQ(layer.output_gate.rows, 128);
  EXPECT_EQ(layer.mixed.rows, 384);
  EXPECT_EQ(layer.step.rows, 4);
  EXPECT_EQ(layer.mixed.bytes.data(), layer.output_gate.bytes.data() + layer.output_gate.bytes.size());
  EXPECT_EQ(layer.step.bytes.data(), layer.mixed.bytes.data() + layer.mixed.bytes.size());
  EXPECT_EQ(layer.convolution_bias.columns, 384);
  EXPECT_EQ(layer.state_norm.bytes.size(), 128 * sizeof(float));
  EXPECT_FALSE(layer.correction.present());
  model.spec.state.key_size = 48;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "states' key size is 48, supported: multiples of 32",
                        [&] { (void)load_states(folder, model); });
  model.spec.state.key_size = 64;
  model.spec.state.key_heads = 3;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "4 value heads for 3 key heads; supported: a multiple",
                        [&] { (void)load_states(folder, model); });
}

TEST(StateFiles, OfLayersOfOneThingEach) {
  const TempFolder folder;
  SyntheticModel model;
  model.make_nemotron_h(false);
  const LoadedModel loaded = load_states(folder, model);
  const ModelSpec& spec = loaded.spec;
  EXPECT_EQ(spec.mixing, model.spec.mixing);
  EXPECT_EQ(spec.kv_layer_count(), 1);
  EXPECT_EQ(spec.stateful_layer_count(), 3);
  EXPECT_EQ(spec.kv_place_of(3), 0);
  EXPECT_EQ(spec.state_place_of(5), 2);
  EXPECT_FALSE(spec.rotates(3));
  EXPECT_EQ(spec.state_bytes(), 3U * (3 * (4 * 48 + 2 * 2 * 32) + 4 * 48 * 32) * sizeof(float));
  for (int32_t i = 0; i < 7; ++i) {
    const LayerWeights& layer = loaded.weights.layers[static_cast<size_t>(i)];
    const bool alone = i == 1 || i == 4 || i == 6;
    EXPECT_EQ((alone ? layer.feed_forward_norm : layer.attention_norm).name, fmt::format("blk.{}.attn_norm.weight", i));
    EXPECT_NE(layer.feed_forward_norm.present(), layer.attention_norm.present()) << i;
    EXPECT_EQ(layer.up.present(), alone) << i;
    EXPECT_EQ(layer.query.present(), i == 3) << i;
    EXPECT_EQ(layer.has_state(), !alone && i != 3) << i;
    EXPECT_FALSE(layer.gate.present()) << i;
  }
  model.spec.state.value_size = 40;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "states' value size is 40, supported: multiples of 16",
                        [&] { (void)load_states(folder, model); });
  model.spec.state = {.key_heads = 2, .value_heads = 2, .key_size = 32, .value_size = 48, .window = 4};
  model.spec.state.kind = StateKind::Mamba2;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "states' heads norm together is 48, supported: multiples of 32",
                        [&] { (void)load_states(folder, model); });
}

TEST(StateFiles, OfLayersOfOneThingEachWithExperts) {
  const TempFolder folder;
  SyntheticModel model;
  model.make_nemotron_h(true);
  const LoadedModel loaded = load_states(folder, model);
  EXPECT_EQ(loaded.spec.expert_gating, Gating::Sigmoid);
  EXPECT_EQ(loaded.spec.shared_expert_size, 80);
  const LayerWeights& layer = loaded.weights.layers[4];
  EXPECT_TRUE(layer.has_experts());
  EXPECT_TRUE(layer.expert_up.present());
  EXPECT_FALSE(layer.expert_gate.present());
  EXPECT_EQ(layer.up.name, "blk.4.ffn_up_shexp.weight");
  EXPECT_FALSE(loaded.weights.layers[3].has_experts());
  GgufWriter latent = build_model(model);
  latent.key_u32("nemotron_h_moe.moe_latent_size", 32);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'nemotron_h_moe.moe_latent_size' is 32, supported: 0",
                        [&] { (void)load_model(folder.write("latent.gguf", latent.bytes())); });
  GgufWriter more = build_model(model);  // of an attention layer
  more.tensor("blk.3.ffn_gate_inp.weight", TensorType::F32, {64, 6}, std::vector<float>(size_t{64} * 6));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "tensor 'blk.3.ffn_gate_inp.weight' is not part of architecture",
                        [&] { (void)load_model(folder.write("more.gguf", more.bytes())); });
}

TEST(StateFiles, OfLayersOfOneThingEachTellWhichOne) {
  const TempFolder folder;
  const auto keys = [&](bool kv_heads, bool sizes, const char* epsilon) {
    GgufWriter writer;
    writer.key_string("general.architecture", "nemotron_h");
    const std::vector<std::pair<const char*, uint32_t>> counts = {
        {"block_count", 3},     {"context_length", 128},  {"embedding_length", 64}, {"attention.head_count", 4},
        {"vocab_size", 100},    {"ssm.conv_kernel", 4},   {"ssm.state_size", 32},   {"ssm.group_count", 1},
        {"ssm.inner_size", 64}, {"ssm.time_step_rank", 2}};
    for (const auto& [key, value] : counts) writer.key_u32(std::string("nemotron_h.") + key, value);
    const auto number = [&](const char* name, bool by_layers, const std::vector<int32_t>& values) {
      const std::string key = std::string("nemotron_h.") + name;
      if (by_layers) {
        writer.key_i32s(key, values);
      } else {
        writer.key_u32(key, static_cast<uint32_t>(values[1]));
      }
    };
    number("attention.head_count_kv", kv_heads, {0, 2, 2});
    number("feed_forward_length", sizes, {0, 96, 0});
    if (epsilon != nullptr) writer.key_f32(std::string("nemotron_h.attention.") + epsilon, 1e-3F);
    return read_spec(GgufFile(folder.write("keys.gguf", writer.bytes())));
  };
  const ModelSpec spec = keys(true, true, "layer_norm_epsilon");
  EXPECT_EQ(spec.mixing, (std::vector{Mixing::State, Mixing::None, Mixing::Attention}));
  EXPECT_EQ(spec.norm_epsilon, 1e-3F);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "'nemotron_h.attention.layer_norm_rms_epsilon' is missing",
                        [&] { (void)keys(true, true, nullptr); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile,
                        "'nemotron_h.attention.head_count_kv' does not state a number for each layer",
                        [&] { (void)keys(false, true, "layer_norm_rms_epsilon"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "KV head count is 0, allowed: 1 to 4",
                        [&] { (void)keys(true, false, "layer_norm_rms_epsilon"); });
}

TEST(StateFiles, OfStatesBesideAttention) {
  const TempFolder folder;
  SyntheticModel model;
  model.make_falcon_h1();
  for (const bool normed : {true, false}) {
    model.state_norm = normed;
    const LoadedModel loaded = load_states(folder, model);
    const ModelSpec& spec = loaded.spec;
    EXPECT_EQ(spec.mixing, std::vector(3, Mixing::Both));
    EXPECT_EQ(spec.kv_layer_count(), 3);
    EXPECT_EQ(spec.stateful_layer_count(), 3);
    EXPECT_EQ(spec.kv_place_of(2), 2);
    EXPECT_EQ(spec.state_place_of(2), 2);
    const LayerWeights& layer = loaded.weights.layers[2];
    EXPECT_TRUE(layer.has_state() && layer.query.present() && layer.up.present());
    EXPECT_EQ(layer.feed_forward_norm.name, "blk.2.ffn_norm");
    EXPECT_EQ(layer.state_norm.present(), normed);
  }
}

// Of the rows of a matrix as they are packed, the first number: those of the file from `first` on, by turns.
void expect_turns(const WeightView& view, const float* file, int32_t first, int32_t stride) {
  ASSERT_EQ(view.type, TensorType::F32);
  const auto columns = static_cast<size_t>(view.columns), rows = static_cast<size_t>(view.rows);
  std::vector<std::byte> packed((rows + 15) / 16 * 16 * columns * sizeof(float));
  (void)pack_rows(view, 0, packed);
  const auto* const numbers = reinterpret_cast<const float*>(packed.data());
  const auto piece = static_cast<int32_t>(rows) / 2;  // there are two key heads
  for (int32_t row = 0; row < view.rows; ++row) {
    const auto place = static_cast<size_t>(first + row / piece * stride + row % piece);
    ASSERT_EQ(numbers[static_cast<size_t>(row) / 16 * 16 * columns + static_cast<size_t>(row) % 16],
              file[place * columns])
        << view.name << " row " << row;
  }
}

// Of each of two key heads: rows of its value heads' corrections and steps; in older files of its queries, keys,
// values and gates, too.
TEST(StateFiles, OfGroupedDeltaNets) {
  const TempFolder folder;
  for (const bool joined : {false, true}) {
    SyntheticModel model;
    model.make_qwen3next(joined);
    const LoadedModel loaded = load_states(folder, model);
    EXPECT_TRUE(loaded.spec.state.grouped_heads);
    const LayerWeights& layer = loaded.weights.layers[1];
    const auto floats = [&](const char* name) {
      return reinterpret_cast<const float*>(loaded.file.find_tensor(name)->bytes.data());
    };
    const float* const steps = floats("blk.1.ssm_ba.weight");
    expect_turns(layer.correction, steps, 0, 6);
    expect_turns(layer.step, steps, 3, 6);
    EXPECT_EQ(layer.mixed_keys.present(), joined);
    EXPECT_EQ(layer.mixed.name, joined ? "blk.1.ssm_in.weight (queries)" : "blk.1.attn_qkv.weight");
    if (!joined) continue;
    const float* const inputs = floats("blk.1.ssm_in.weight");
    constexpr int32_t kStride = 2 * 32 + 2 * 96;
    expect_turns(layer.mixed, inputs, 0, kStride);
    expect_turns(layer.mixed_keys, inputs, 32, kStride);
    expect_turns(layer.mixed_values, inputs, 64, kStride);
    expect_turns(layer.output_gate, inputs, 160, kStride);
  }
}

TEST(StateFiles, OfLayersWithoutKvHeadsHaveOneCountOfThem) {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, const char* text, const std::vector<int32_t>& kv_heads) {
    GgufWriter writer;
    writer.key_string("general.architecture", "lfm2").key_i32s("lfm2.attention.head_count_kv", kv_heads);
    const std::vector<std::pair<const char*, uint32_t>> counts = {
        {"block_count", 6},          {"context_length", 128}, {"embedding_length", 64}, {"feed_forward_length", 96},
        {"attention.head_count", 4}, {"vocab_size", 100},     {"shortconv.l_cache", 3}};
    for (const auto& [key, value] : counts) writer.key_u32(std::string("lfm2.") + key, value);
    writer.key_f32("lfm2.attention.layer_norm_rms_epsilon", 1e-6F);
    const GgufFile file(folder.write("keys.gguf", writer.bytes()));
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)read_spec(file); });
  };
  refused(ErrorCode::Unsupported, "has 2 and 4; supported: one value for all layers that attend", {0, 2, 0, 4, 0, 0});
  refused(ErrorCode::CorruptFile, "'lfm2.attention.head_count_kv' has 3 elements, the model 6 layers", {0, 2, 0});
  refused(ErrorCode::CorruptFile, "KV head count is 0, allowed: 1 to 4", {0, 0, 0, 0, 0, 0});
  SyntheticModel model = lfm2();
  model.spec.hidden_size = model.spec.state.value_size = 72;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "convolved width is 72, supported: multiples of 32",
                        [&] { (void)load_states(folder, model); });
}

// Factors of convolutions stay floats, as they are read.
TEST(StateFiles, AreReadWhenConverted) {
  const TempFolder folder;
  for (void (*make)(SyntheticModel&) :
       {+[](SyntheticModel& m) { m.make_qwen35(false); }, +[](SyntheticModel& m) { m.make_lfm2(false); },
        +[](SyntheticModel& m) { m.make_granite_hybrid(false); }, +[](SyntheticModel& m) { m.make_nemotron_h(true); },
        +[](SyntheticModel& m) { m.make_qwen3next(false); }}) {
    SyntheticModel model;
    make(model);
    const std::string output = folder.file("out.gguf");
    (void)quantize_file({.input_path = folder.write("in.gguf", build_model(model).bytes()),
                         .output_path = output,
                         .type = TensorType::Q8_0},
                        [](const QuantizeProgress&) {});
    const LoadedModel loaded = load_model(output);
    EXPECT_EQ(loaded.weights.layers[0].mixed.type, TensorType::Q8_0) << model.spec.architecture;
    EXPECT_EQ(loaded.weights.layers[0].convolution.type, TensorType::F32) << model.spec.architecture;
  }
}

}  // namespace
}  // namespace inflight::test
