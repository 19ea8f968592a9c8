// SPDX-License-Identifier: Apache-2.0
// Files of models with states in the place of attention: what is read of them, what is refused.
// Covers: model/gguf_spec.cpp, model/gguf_weights.cpp, exec/pack_rows.cpp
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
    EXPECT_EQ(spec.place_of(layer), places[layer]) << layer;
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
          [](SyntheticModel& m) { m.spec.stateful.resize(5); });
  refused(ErrorCode::CorruptFile, "number of layers that attend is 0, allowed: 1 to 6",
          [](SyntheticModel& m) { m.spec.stateful.assign(6, true); });
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
  EXPECT_EQ(loaded.spec.stateful, (std::vector<bool>{true, true, false, true, false, true}));
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
        +[](SyntheticModel& m) { m.make_granite_hybrid(false); }}) {
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
