// SPDX-License-Identifier: Apache-2.0
// Files of Gemma 4's shape: layers that share K and V, that differ in size, that have embeddings of their own.
// Covers: model/gguf_spec_layers.cpp, model/gguf_weights.cpp, core/model_spec.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
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
  EXPECT_EQ(KvLayout::of(spec, 16, KvType::F16).head_count, 2 * 1 + 2 * 2);  // two narrow heads lie in a wide one
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

// Local layers have more KV heads, in the others V is K; experts lie beside a dense feed-forward.
TEST_F(Gemma4Files, OfLargeModelsTellWhatEachLayerHas) {
  for (const bool mixture : {false, true}) {
    const LoadedModel loaded = load([&](SyntheticModel& model) { model.make_large_gemma4(mixture); });
    const ModelSpec& spec = loaded.spec;
    EXPECT_EQ(spec.kv_head_count, 1);
    EXPECT_EQ(spec.local_kv_head_count, 4);
    EXPECT_EQ(spec.first_sharing_layer, 0);
    EXPECT_EQ(spec.stored_head_count(), 2 * 2 + 2 * 1);
    EXPECT_EQ(spec.local_stored_head_count(), 2 * 2);
    EXPECT_DOUBLE_EQ(spec.local_share(), 4.0 / 6.0);
    EXPECT_EQ(spec.expert_count, mixture ? 6 : 0);
    EXPECT_EQ(spec.shared_expert_size, mixture ? 160 : 0);
    for (size_t layer = 0; layer < 4; ++layer) {
      const bool local = layer % 2 == 0;
      const LayerWeights& weights = loaded.weights.layers[layer];
      EXPECT_EQ(weights.key.rows, local ? 4 * 32 : 64);
      EXPECT_EQ(weights.value.present(), local);
      EXPECT_EQ(weights.gate.rows, 160);
      EXPECT_EQ(weights.output_scale.columns, 1);
      EXPECT_EQ(weights.has_experts(), mixture);
      for (const WeightView* norm :
           {&weights.router_norm, &weights.expert_norm, &weights.expert_post_norm, &weights.shared_post_norm}) {
        EXPECT_EQ(norm->columns, mixture ? 64 : 0);
      }
      if (!mixture) continue;
      EXPECT_EQ(weights.expert_scales.columns, 6);
      // Of each expert 48 rows of one, then 48 of the other.
      for (const WeightView* view : {&weights.expert_gate, &weights.expert_up}) {
        EXPECT_EQ(view->rows, 6 * 48);
        EXPECT_EQ(view->place_of(47), 47U);
        EXPECT_EQ(view->place_of(48), 96U);
      }
      EXPECT_EQ(weights.expert_up.bytes.data() - weights.expert_gate.bytes.data(), 48 * 64 * 4);
    }
  }
}

TEST_F(Gemma4Files, OfExpertsNeedAllNormsAndTheDenseFeedForward) {
  SyntheticModel model;
  model.make_gemma4();
  model.make_large_gemma4(true);
  const std::vector<std::byte> whole = build_model(model).bytes();
  for (const std::string name : {"ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_2.weight",
                                 "post_ffw_norm_1.weight", "ffn_gate.weight", "ffn_down.weight"}) {
    std::vector<std::byte> bytes = whole;
    const std::string tensor = "blk.1." + name;
    const auto found = std::ranges::search(bytes, std::as_bytes(std::span(tensor)));
    ASSERT_FALSE(found.empty()) << tensor;
    found.back() = std::byte{'_'};
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "tensor '" + tensor + "' of architecture gemma4 is missing",
                          [&] { (void)load_model(folder_.write("cut.gguf", bytes)); });
  }
}

TEST_F(Gemma4Files, StateTheKvHeadsOfEachLayer) {
  const auto read = [&](const std::vector<int32_t>& heads) {
    GgufWriter writer;
    writer.key_string("general.architecture", "gemma4").key_i32s("gemma4.attention.head_count_kv", heads);
    const std::vector<std::pair<const char*, uint32_t>> counts = {{"block_count", 6},
                                                                  {"context_length", 128},
                                                                  {"embedding_length", 64},
                                                                  {"feed_forward_length", 96},
                                                                  {"attention.head_count", 4},
                                                                  {"attention.sliding_window", 20},
                                                                  {"attention.sliding_window_pattern", 3},
                                                                  {"vocab_size", 100}};
    for (const auto& [key, value] : counts) writer.key_u32(std::string("gemma4.") + key, value);
    writer.key_f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6F);
    const GgufFile file(folder_.write("keys.gguf", writer.bytes()));
    const ModelSpec spec = read_spec(file);
    return std::pair(spec.kv_head_count, spec.local_kv_head_count);
  };
  EXPECT_EQ(read({4, 4, 1, 4, 4, 1}), std::pair(1, 4));
  EXPECT_EQ(read({2, 2, 2, 2, 2, 2}), std::pair(2, 0));
  const auto refused = [&](ErrorCode code, const char* text, const std::vector<int32_t>& heads) {
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)read(heads); });
  };
  refused(ErrorCode::Unsupported,
          "'gemma4.attention.head_count_kv' has 4 and 2 in layers with a window; supported: one value for all of these",
          {4, 4, 1, 4, 2, 1});
  refused(ErrorCode::Unsupported, "has 1 and 2 in layers without a window", {4, 4, 1, 4, 4, 2});
  refused(ErrorCode::CorruptFile, "'gemma4.attention.head_count_kv' has 5 elements, the model 6 layers",
          {4, 4, 1, 4, 4});
  refused(ErrorCode::CorruptFile, "the model has 4 query heads, not a multiple of the 3 KV heads of its local layers",
          {3, 3, 1, 3, 3, 1});
  refused(ErrorCode::CorruptFile, "the model's KV head count of local layers is 8, allowed: 1 to 4",
          {8, 8, 1, 8, 8, 1});
  refused(ErrorCode::CorruptFile, "'gemma4.attention.head_count_kv' has 0, allowed: at least 1", {4, 4, 0, 4, 4, 0});
  refused(ErrorCode::CorruptFile, "has -1, allowed: at least 1", {-1, -1, 1, -1, -1, 1});
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
