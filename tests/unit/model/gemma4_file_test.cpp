// SPDX-License-Identifier: Apache-2.0
// Files of Gemma 4's shape: layers that share K and V, that differ in size, that have embeddings of their own.
// Covers: model/gguf_spec.cpp, model/gguf_weights.cpp, core/model_spec.cpp
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/kv_layout.h"
#include "model/gguf_spec.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

class Gemma4Files : public testing::Test {
 protected:
  LoadedModel load(const std::function<void(SyntheticModel&)>& change = [](SyntheticModel&) {}) {
    SyntheticModel model;
    model.make_gemma4();
    change(model);
    return load_model(folder_.write("gemma4.gguf", build_model(model).bytes()));
  }
  void expect_refused(ErrorCode code, const std::string& text, const std::function<void(ModelSpec&)>& change) {
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load([&](SyntheticModel& model) { change(model.spec); }); });
  }

  TempFolder folder_;
};

TEST_F(Gemma4Files, TellWhatEachLayerHas) {
  const LoadedModel loaded = load();
  const ModelSpec& spec = loaded.spec;
  EXPECT_EQ(spec.first_sharing_layer, 4);
  EXPECT_EQ(spec.kv_layer_count(), 4);
  EXPECT_EQ(spec.local_kv_layer_count(), 2);
  EXPECT_EQ(spec.stateful_layer_count(), 0);
  EXPECT_EQ(spec.attention_scale, 1.0F);
  EXPECT_EQ(spec.local_rope_base, 500.0F);
  EXPECT_EQ(KvLayout::of(spec, 16, KvType::F16).layer_count, 4);
  const int32_t places[] = {0, 1, 2, 3, 2, 3};
  for (int32_t layer = 0; layer < 6; ++layer) {
    SCOPED_TRACE(layer);
    const bool local = layer % 2 == 0;
    EXPECT_EQ(spec.is_local(layer), local);
    EXPECT_EQ(spec.kv_place_of(layer), places[layer]);
    EXPECT_EQ(spec.shares_kv(layer), layer >= 4);
    const LayerWeights& weights = loaded.weights.layers[static_cast<size_t>(layer)];
    EXPECT_EQ(weights.query.rows, local ? 4 * 32 : 4 * 64);
    EXPECT_EQ(weights.attention_output.columns, local ? 4 * 32 : 4 * 64);
    EXPECT_EQ(weights.query_norm.columns, local ? 32 : 64);
    EXPECT_EQ(weights.key.rows, layer >= 4 ? 0 : local ? 2 * 32 : 2 * 64);
    EXPECT_EQ(weights.value.present(), layer < 4);
    EXPECT_EQ(weights.gate.rows, layer >= 4 ? 160 : 96);
    EXPECT_EQ(weights.embedding_gate.rows, 32);
    EXPECT_EQ(weights.output_scale.columns, 1);
  }
  EXPECT_EQ(loaded.weights.layer_embeddings.columns, 6 * 32);
}

// Without the keys of local heads and embeddings all layers are alike but for K and V.
TEST_F(Gemma4Files, MayHaveEqualLayers) {
  const LoadedModel loaded = load([](SyntheticModel& model) {
    model.spec.local_head_size = model.spec.head_size;
    model.spec.layer_embedding_size = 0;
    model.spec.feed_forward_sizes.clear();
  });
  EXPECT_EQ(loaded.spec.feed_forward_size_of(0), 160);
  EXPECT_EQ(loaded.weights.layers[0].query.rows, 4 * 64);
  EXPECT_FALSE(loaded.weights.layers[0].embedding_gate.present());
  EXPECT_FALSE(loaded.weights.layer_embeddings.present());
}

TEST_F(Gemma4Files, AreRefusedWhereTheyCannotBeRun) {
  expect_refused(ErrorCode::CorruptFile, "the model's number of layers with K and V is 1, allowed: 2 to 6",
                 [](ModelSpec& spec) { spec.first_sharing_layer = 1; });
  expect_refused(ErrorCode::CorruptFile, "the model's head size of local layers is 96, allowed: 2 to 64",
                 [](ModelSpec& spec) { spec.local_head_size = 96; });
  expect_refused(ErrorCode::Unsupported, "the model's head size of local layers is 24, supported: multiples of 32",
                 [](ModelSpec& spec) { spec.local_head_size = 24; });
  expect_refused(ErrorCode::Unsupported, "the model rotates 32 of 64 numbers of a head; supported",
                 [](ModelSpec& spec) { spec.rope_dimension_count = 32; });
}

TEST_F(Gemma4Files, StateTheFeedForwardOfEachLayer) {
  const auto refused = [&](const char* text, const std::vector<int32_t>& sizes) {
    GgufWriter writer;
    writer.key_string("general.architecture", "gemma4").key_i32s("gemma4.feed_forward_length", sizes);
    const std::vector<std::pair<const char*, uint32_t>> counts = {{"block_count", 6},
                                                                  {"context_length", 128},
                                                                  {"embedding_length", 64},
                                                                  {"attention.head_count", 4},
                                                                  {"vocab_size", 100}};
    for (const auto& [key, value] : counts) writer.key_u32(std::string("gemma4.") + key, value);
    writer.key_f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6F);
    const GgufFile file(folder_.write("keys.gguf", writer.bytes()));
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, text, [&] { (void)read_spec(file); });
  };
  refused("'gemma4.feed_forward_length' has 5 elements, the model 6 layers", {96, 96, 96, 96, 160});
  refused("the model's feed-forward size is 0, allowed: 1 to 160", {96, 96, 0, 96, 160, 160});
  refused("the model's feed-forward size is 0, allowed: 1 to", {0, 0, 0, 0, 0, 0});
}

}  // namespace
}  // namespace inflight::test
