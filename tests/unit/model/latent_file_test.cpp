// SPDX-License-Identifier: Apache-2.0
// Files of models with latent attention: what their keys and tensors become, and what is refused.
// Covers: model/gguf_spec.cpp, model/gguf_weights.cpp
#include <gtest/gtest.h>

#include <cmath>

#include "model/gguf_spec.h"
#include "model/model_loader.h"
#include "model/quantize_file.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

SyntheticModel deepseek2(bool query_rank) {
  SyntheticModel model;
  model.make_deepseek2(query_rank);
  return model;
}

LoadedModel load_latent(const TempFolder& folder, const SyntheticModel& model) {
  return load_model(folder.write("latent.gguf", build_model(model).bytes()));
}

TEST(LatentFiles, HaveEveryTensor) {
  const TempFolder folder;
  for (const bool query_rank : {false, true}) {
    SCOPED_TRACE(query_rank);
    const LoadedModel loaded = load_latent(folder, deepseek2(query_rank));
    const ModelSpec& spec = loaded.spec;
    EXPECT_TRUE(spec.is_latent());
    EXPECT_EQ(spec.head_size, 16 + 64);
    EXPECT_EQ(spec.kv_head_count, 1);
    EXPECT_EQ(spec.projected_query_size(), 16 + 32);
    EXPECT_EQ(spec.attended_size(), 48);
    EXPECT_EQ(spec.rope_scaling.magnitude, 1.0F);
    EXPECT_NEAR(spec.attention_scale, std::pow(1.0 + 0.0707 * std::log(8.0), 2) / std::sqrt(48.0), 1e-6);
    EXPECT_EQ(spec.expert_gating, query_rank ? Gating::Sigmoid : Gating::Softmax);
    for (const LayerWeights& layer : loaded.weights.layers) {
      EXPECT_EQ(layer.query.rows, 4 * 48);
      EXPECT_EQ(layer.query.columns, query_rank ? 96 : 64);
      EXPECT_EQ(layer.query_down.rows, query_rank ? 96 : 0);
      EXPECT_EQ(layer.query_down_norm.columns, query_rank ? 96 : 0);
      EXPECT_EQ(layer.latent.rows, 64);
      EXPECT_EQ(layer.rotated_key.rows, 16);
      EXPECT_EQ(layer.rotated_key.bytes.data(), layer.latent.bytes.data() + layer.latent.bytes.size());
      EXPECT_EQ(layer.latent_norm.columns, 64);
      EXPECT_EQ(layer.head_keys.rows, 4 * 64);
      EXPECT_EQ(layer.head_keys.columns, 32);
      EXPECT_EQ(layer.head_values.rows, 4 * 48);
      EXPECT_EQ(layer.head_values.columns, 64);
      EXPECT_EQ(layer.attention_output.columns, 4 * 48);
      EXPECT_FALSE(layer.key.present() || layer.value.present());
      EXPECT_EQ(layer.choice_bias.present(), query_rank && layer.has_experts());
    }
    EXPECT_FALSE(loaded.weights.layers[0].has_experts());
    EXPECT_EQ(loaded.weights.layers[1].down.name, "blk.1.ffn_down_shexp.weight");
  }
}

// Files of before April 2025: of each head the rows of its keys, which are turned, and those of its values.
TEST(LatentFiles, MayHaveJoinedHeads) {
  const TempFolder folder;
  SyntheticModel model = deepseek2(false);
  model.joined_heads = true;
  const LoadedModel loaded = load_latent(folder, model);
  EXPECT_EQ(loaded.spec.kv_head_count, 1);
  EXPECT_EQ(loaded.spec.head_size, 16 + 64);
  EXPECT_EQ(loaded.spec.latent.value_size, 48);
  EXPECT_EQ(loaded.spec.latent.unrotated_size, 32);
  const LayerWeights& layer = loaded.weights.layers[2];
  EXPECT_EQ(layer.head_keys.name, "blk.2.attn_kv_b.weight (keys)");
  EXPECT_EQ(layer.head_keys.rows, 4 * 64);
  EXPECT_EQ(layer.head_keys.columns, 32);
  EXPECT_EQ(layer.head_keys.place_of(65), size_t{80});
  EXPECT_EQ(layer.head_values.rows, 4 * 48);
  EXPECT_EQ(layer.head_values.columns, 64);
  EXPECT_EQ(layer.head_values.place_of(49), size_t{81});
  EXPECT_EQ(layer.head_values.bytes.data() - layer.head_keys.bytes.data(), 32 * 64 * 4);
}

TEST(LatentFiles, AreReadWhenConverted) {
  const TempFolder folder;
  for (const bool joined : {false, true}) {
    SyntheticModel model = deepseek2(true);
    model.joined_heads = joined;
    const std::string output = folder.file("out.gguf");
    (void)quantize_file({.input_path = folder.write("in.gguf", build_model(model).bytes()),
                         .output_path = output,
                         .type = TensorType::Q8_0},
                        [](const QuantizeProgress&) {});
    const LoadedModel loaded = load_model(output);
    const LayerWeights& layer = loaded.weights.layers[1];
    EXPECT_EQ(layer.head_keys.type, TensorType::Q8_0);
    EXPECT_EQ(layer.head_values.type, TensorType::Q8_0);
    EXPECT_EQ(layer.query_down.type, TensorType::Q8_0);
    EXPECT_EQ(layer.latent_norm.type, TensorType::F32);
    EXPECT_EQ(layer.query_down_norm.type, TensorType::F32);
  }
}

// Keys of a file without tensors.
ModelSpec spec_of_keys(int32_t layers, uint32_t vocabulary, auto&& change) {
  GgufWriter writer;
  const auto count = [&](const char* key, uint32_t value) { writer.key_u32("deepseek2." + std::string(key), value); };
  writer.key_string("general.architecture", "deepseek2");
  count("block_count", static_cast<uint32_t>(layers));
  count("context_length", 128);
  count("embedding_length", 2048);
  count("feed_forward_length", 1024);
  count("expert_count", 64);
  count("expert_used_count", 4);
  count("attention.head_count", 20);
  count("attention.head_count_kv", 1);
  count("attention.kv_lora_rank", 512);
  count("attention.q_lora_rank", 768);
  count("attention.key_length", 576);
  count("attention.value_length", 512);
  count("rope.dimension_count", 64);
  count("vocab_size", vocabulary);
  writer.key_f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6F);
  change(writer);
  const TempFolder folder;
  return read_spec(GgufFile(folder.write("keys.gguf", writer.bytes())));
}

void state_head_sizes(GgufWriter& writer) {
  writer.key_u32("deepseek2.attention.key_length_mla", 256);
  writer.key_u32("deepseek2.attention.value_length_mla", 256);
}

// GLM 4.7 Flash's files do not say that its routers are sigmoids.
TEST(LatentFiles, OfGlmHaveSigmoids) {
  const ModelSpec glm = spec_of_keys(47, 154880, state_head_sizes);
  EXPECT_EQ(glm.expert_gating, Gating::Sigmoid);
  EXPECT_EQ(glm.head_size, 576);
  EXPECT_EQ(glm.latent.query_rank, 768);
  EXPECT_EQ(glm.latent.unrotated_size, 192);
  EXPECT_FLOAT_EQ(glm.attention_scale, 1.0F / 16.0F);
  EXPECT_EQ(spec_of_keys(47, 102400, state_head_sizes).expert_gating, Gating::Softmax);
  EXPECT_EQ(spec_of_keys(27, 154880, state_head_sizes).expert_gating, Gating::Softmax);
}

TEST(LatentFiles, RefuseWhatCannotBeRun) {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, const char* text, auto&& change) {
    SyntheticModel model = deepseek2(true);
    change(model);
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load_latent(folder, model); });
    INFLIGHT_EXPECT_ERROR(code, "latent.gguf: ", [&] { (void)load_latent(folder, model); });
  };
  refused(ErrorCode::Unsupported, "the model's latent rank is 72, supported: multiples of 16", [](SyntheticModel& m) {
    m.spec.latent.rank = 72;
    m.spec.head_size = 88;
  });
  refused(ErrorCode::Unsupported, "the model's heads' value size is 40, supported: multiples of 16",
          [](SyntheticModel& m) { m.spec.latent.value_size = 40; });
  refused(ErrorCode::CorruptFile, "the model's head size is 1025, allowed: 2 to 1024", [](SyntheticModel& m) {
    m.spec.latent.rank = 2048;
    m.spec.head_size = 1025;
  });
  refused(ErrorCode::CorruptFile,
          "metadata key 'deepseek2.attention.key_length' is 96, allowed with a latent rank of 64 and 16 rotated "
          "numbers: 80",
          [](SyntheticModel& m) { m.spec.head_size = 96; });
  refused(ErrorCode::Unsupported, "the model has 2 KV heads, supported of latent attention: 1",
          [](SyntheticModel& m) { m.spec.kv_head_count = 2; });
  refused(ErrorCode::Unsupported, "the model's experts are in 3 groups, supported beside latent attention: 1",
          [](SyntheticModel& m) { m.spec.expert_groups = 3; });
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported,
                        "keys.gguf: metadata key 'deepseek2.attention.temperature_scale' is 0.1, supported: 0", [&] {
                          (void)spec_of_keys(47, 1000, [](GgufWriter& writer) {
                            state_head_sizes(writer);
                            writer.key_f32("deepseek2.attention.temperature_scale", 0.1F);
                          });
                        });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "the model's heads' unrotated size is -8, allowed: 1 to 1024", [&] {
    (void)spec_of_keys(47, 1000, [](GgufWriter& writer) {
      writer.key_u32("deepseek2.attention.key_length_mla", 56);
      writer.key_u32("deepseek2.attention.value_length_mla", 256);
    });
  });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "metadata key 'deepseek2.rope.scaling.yarn_log_multiplier' is missing",
                        [&] {
                          (void)spec_of_keys(47, 1000, [](GgufWriter& writer) {
                            state_head_sizes(writer);
                            writer.key_string("deepseek2.rope.scaling.type", "yarn");
                            writer.key_f32("deepseek2.rope.scaling.factor", 40.0F);
                          });
                        });
  SyntheticModel plain = deepseek2(true);
  plain.spec.architecture = "qwen3moe";  // whose tensors are others
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "its heads have 80 numbers for K and 64 for V; supported: equal",
                        [&] { (void)load_latent(folder, plain); });
}

}  // namespace
}  // namespace inflight::test
