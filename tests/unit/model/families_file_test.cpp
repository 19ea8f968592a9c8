// SPDX-License-Identifier: Apache-2.0
// What single families' files hold: names and keys that mean something there alone, and what is refused of them.
// Covers: model/architecture.cpp, model/gguf_spec.cpp, core/model_spec.cpp
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "model/lora_file.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

class FamilyFiles : public testing::Test {
 protected:
  LoadedModel load(const GgufWriter& writer) { return load_model(folder_.write("m.gguf", writer.bytes())); }
  LoadedModel load(const SyntheticModel& model) { return load(build_model(model)); }

  void expect_refused(ErrorCode code, const char* text, const SyntheticModel& model) {
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load(model); });
    INFLIGHT_EXPECT_ERROR(code, "m.gguf: ", [&] { (void)load(model); });
  }

 private:
  TempFolder folder_;  // bytes stay mapped while it is there

 protected:
  [[nodiscard]] std::string write(const char* name, const GgufWriter& writer) {
    return folder_.write(name, writer.bytes());
  }
};

// GLM 4.5 has norms of heads where it is large, and routers of sigmoids, which its files need not tell.
TEST_F(FamilyFiles, OfGlm4MoeMayHaveNormedHeads) {
  SyntheticModel model;
  model.make_mixture(6, 2, false);
  model.spec.architecture = "glm4moe";
  model.norm_renamed = true;
  model.spec.expert_gating = Gating{0};
  const LoadedModel large = load(model);
  EXPECT_TRUE(large.weights.layers[0].query_norm.present());
  EXPECT_EQ(large.weights.layers[1].feed_forward_norm.name, "blk.1.post_attention_norm.weight");
  EXPECT_EQ(large.spec.expert_gating, Gating::Sigmoid);
  model.query_key_norm = false;
  model.spec.expert_gating = Gating::Softmax;
  const LoadedModel air = load(model);
  EXPECT_FALSE(air.weights.layers[0].query_norm.present());
  EXPECT_EQ(air.spec.expert_gating, Gating::Softmax);
}

// Of GLM 4.1V, unlike GLM 4, which has no sections of pairs.
TEST_F(FamilyFiles, WithSectionsRotateHalves) {
  SyntheticModel model;
  model.spec.architecture = "glm4";
  model.norms_behind = model.joined = true;
  const auto style = [&](const std::vector<int32_t>& sections) {
    GgufWriter writer = build_model(model);
    if (!sections.empty()) writer.key_i32s("glm4.rope.dimension_sections", sections);
    return load(writer).spec.rope_style;
  };
  EXPECT_EQ(style({}), RopeStyle::Interleaved);
  EXPECT_EQ(style({0, 0, 0, 0}), RopeStyle::Interleaved);
  EXPECT_EQ(style({4, 2, 2, 0}), RopeStyle::HalfSplit);
}

TEST_F(FamilyFiles, OfExaone4RotateInLocalLayersAlone) {
  SyntheticModel model;
  model.make_exaone4();
  const ModelSpec spec = load(model).spec;
  for (int32_t layer = 0; layer < spec.layer_count; ++layer) EXPECT_EQ(spec.rotates(layer), spec.is_local(layer));
  EXPECT_EQ(spec.local_kv_layer_count(), 4);
  model.spec.local_window = 0;
  const ModelSpec without = load(model).spec;
  for (int32_t layer = 0; layer < without.layer_count; ++layer) EXPECT_TRUE(without.rotates(layer));
}

TEST_F(FamilyFiles, OfGptNeoxSayWhereTheFeedForwardStands) {
  SyntheticModel model;
  for (const bool parallel : {false, true}) {
    model.make_gpt_neox(parallel);
    const LoadedModel loaded = load(model);
    EXPECT_EQ(loaded.spec.parallel_residual, parallel);
    EXPECT_TRUE(loaded.spec.mean_norms);
    EXPECT_FALSE(loaded.spec.gated_feed_forward);
    EXPECT_EQ(loaded.spec.norm_epsilon, 1e-3F);
    const LayerWeights& layer = loaded.weights.layers[1];
    EXPECT_EQ(layer.attention_norm_bias.name, "blk.1.attn_norm.bias");
    EXPECT_EQ(layer.feed_forward_norm_bias.name, "blk.1.ffn_norm.bias");
    EXPECT_EQ(loaded.weights.output_norm_bias.columns, 64);
    EXPECT_FALSE(layer.gate.present());
    EXPECT_EQ(layer.up.rows, 96);
  }
}

// Converters write of StableLM that both stand side by side, which they do not.
TEST_F(FamilyFiles, OfOthersDoNot) {
  SyntheticModel model;
  model.spec.architecture = "stablelm";
  model.spec.mean_norms = model.norm_bias = true;
  EXPECT_FALSE(load(build_model(model).key_bool("stablelm.use_parallel_residual", true)).spec.parallel_residual);
}

TEST_F(FamilyFiles, OfPhi2HaveOneNormALayerAndBiasedLogits) {
  SyntheticModel model;
  model.make_phi2();
  const LoadedModel loaded = load(model);
  EXPECT_TRUE(loaded.spec.parallel_residual);
  EXPECT_FALSE(loaded.weights.layers[0].feed_forward_norm.present());
  EXPECT_EQ(loaded.weights.output_bias.columns, 300);
}

TEST_F(FamilyFiles, OfCohereMultiplyLogits) {
  SyntheticModel model;
  model.make_cohere2();
  const LoadedModel loaded = load(model);
  EXPECT_EQ(loaded.spec.logit_scale, 0.25F);
  EXPECT_TRUE(loaded.spec.parallel_residual);
  EXPECT_FALSE(loaded.spec.rotates(2));
  EXPECT_FALSE(loaded.weights.layers[0].attention_norm_bias.present());
  model.spec.logit_scale = 1.0F;
  expect_refused(ErrorCode::CorruptFile, "metadata key 'cohere2.logit_scale' is missing", model);
}

TEST_F(FamilyFiles, OfOlmoHaveNormsOfOnes) {
  SyntheticModel model;
  model.make_olmo();
  const LoadedModel loaded = load(model);
  for (const WeightView* view : {&loaded.weights.output_norm, &loaded.weights.layers[1].feed_forward_norm}) {
    ASSERT_EQ(view->bytes.size(), 64 * sizeof(float));
    float last = 0.0F;
    std::memcpy(&last, view->bytes.data() + 63 * sizeof(float), sizeof last);
    EXPECT_EQ(last, 1.0F);
  }
}

TEST_F(FamilyFiles, WithoutGatesAreRefusedWithOthersTensors) {
  SyntheticModel model;
  model.make_nemotron();
  model.spec.norm_epsilon = -1.0F;
  expect_refused(ErrorCode::CorruptFile, "norms' epsilon is -1, allowed: a finite number above 0", model);
  model.make_nemotron();
  model.spec.mean_norms = false;  // the epsilon's key is another's
  expect_refused(ErrorCode::CorruptFile, "'nemotron.attention.layer_norm_epsilon' is missing", model);
  model.make_nemotron();
  model.norm_bias = false;
  expect_refused(ErrorCode::CorruptFile, "tensor 'blk.0.attn_norm.bias' of architecture nemotron is missing", model);
  model.make_nemotron();
  model.spec.gated_feed_forward = true;
  expect_refused(ErrorCode::Unsupported, "tensor 'blk.0.ffn_gate.weight' is not part of architecture nemotron", model);
  model.make_nemotron();
  model.joined = true;  // a gate's rows in ffn_up
  expect_refused(ErrorCode::CorruptFile, "tensor 'blk.0.ffn_up.weight' has shape [64, 192], expected [64, 96]", model);
  model.joined = false;
  model.query_key_norm = true;
  expect_refused(ErrorCode::Unsupported, "tensor 'blk.0.attn_q_norm.weight' is not part of architecture nemotron",
                 model);
  SyntheticModel llama;
  llama.norm_bias = true;
  expect_refused(ErrorCode::Unsupported, "tensor 'blk.0.attn_norm.bias' is not part of architecture llama", llama);
}

TEST_F(FamilyFiles, WithoutGatesTakeAdaptersOfAttentionOnly) {
  SyntheticModel model;
  model.make_gpt_neox(true);
  SyntheticAdapter adapter;
  const auto load = [&] {
    return load_lora(write("a.gguf", build_adapter(adapter, model.spec)), model.spec, 64).layers.size();
  };
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'blk.0.ffn_gate.weight.lora_a' adapts what cannot be adapted", load);
  adapter.targets.resize(kAttentionTargetCount);
  EXPECT_EQ(load(), 2U);
}

TEST_F(FamilyFiles, OfMinistral3HaveATemperature) {
  SyntheticModel model;
  model.make_ministral3();
  const ModelSpec spec = load(model).spec;
  EXPECT_EQ(spec.temperature_scale, 0.5F);
  EXPECT_EQ(spec.temperature_length, 100);
  model.spec.temperature_scale = -1.0F;
  expect_refused(ErrorCode::CorruptFile, "attention temperature scale is -1, allowed: a finite number above 0", model);
  model.make_ministral3();
  model.spec.rope_dimension_count = 8;
  expect_refused(ErrorCode::Unsupported, "temperature scale; supported only where all numbers of all heads", model);
  model.make_exaone4();
  model.spec.rope_dimension_count = 16;
  expect_refused(ErrorCode::Unsupported, "temperature scale; supported only where all numbers of all heads", model);
  SyntheticModel plain;
  GgufWriter writer = build_model(plain);
  writer.key_f32("llama.attention.temperature_scale", 0.5F);
  writer.key_u32("llama.rope.scaling.original_context_length", 0);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "'llama.rope.scaling.original_context_length' is 0, allowed: 1 to",
                        [&] { (void)load(writer); });
}

}  // namespace
}  // namespace inflight::test
