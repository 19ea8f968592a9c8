// SPDX-License-Identifier: Apache-2.0
// Goal: a model file becomes spec, vocabulary and weights as written; whatever is missing,
// contradicting or beyond this build is named.
// Covers: model/architecture.cpp, model/gguf_spec.cpp, model/gguf_vocabulary.cpp
// Covers: model/gguf_weights.cpp, model/model_loader.cpp
// Method: synthetic models written with known spec and numbers, one thing changed at a time; the
// vocabularies of other projects for what they really write.
#include "model/model_loader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "model/gguf_spec.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

LoadedModel load(const GgufWriter& writer) {
  const TempFolder folder;
  return load_model(folder.write("m.gguf", writer.bytes()));
}

LoadedModel load(const SyntheticModel& model) { return load(build_model(model)); }

template <typename Model>
void expect_refused(ErrorCode code, const char* text, const Model& model) {
  INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load(model); });
  INFLIGHT_EXPECT_ERROR(code, "m.gguf: ", [&] { (void)load(model); });
}

// The keys a llama file needs, without those in `left_out`; for files that lack or add something.
GgufWriter keys_without(const std::string& left_out) {
  GgufWriter writer;
  const auto add = [&](const char* key, uint32_t value) {
    if (left_out != key) writer.key_u32(key, value);
  };
  if (left_out != "general.architecture") writer.key_string("general.architecture", "llama");
  add("llama.block_count", 1);
  add("llama.context_length", 128);
  add("llama.embedding_length", 64);
  add("llama.feed_forward_length", 96);
  add("llama.attention.head_count", 4);
  add("llama.vocab_size", 100);
  if (left_out != "llama.attention.layer_norm_rms_epsilon") {
    writer.key_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  }
  return writer;
}

TEST(ReadSpec, HasEveryField) {
  SyntheticModel model;
  model.spec = {.architecture = "qwen2",
                .name = "odd",
                .layer_count = 3,
                .hidden_size = 40,
                .feed_forward_size = 56,
                .head_count = 6,
                .kv_head_count = 3,
                .head_size = 12,
                .vocabulary_size = 77,
                .context_length = 333,
                .norm_epsilon = 3e-6F,
                .rope_style = RopeStyle::HalfSplit,
                .rope_dimension_count = 8,
                .rope_base = 54321.0F,
                .rope_scaling = {.kind = RopeScaling::Kind::Llama3,
                                 .factor = 8.0F,
                                 .low_frequency_factor = 1.5F,
                                 .high_frequency_factor = 3.5F,
                                 .original_context_length = 111}};
  model.query_key_value_bias = true;
  const ModelSpec spec = load(model).spec;
  EXPECT_EQ(spec.architecture, "qwen2");
  EXPECT_EQ(spec.name, "odd");
  EXPECT_EQ(spec.layer_count, 3);
  EXPECT_EQ(spec.hidden_size, 40);
  EXPECT_EQ(spec.feed_forward_size, 56);
  EXPECT_EQ(spec.head_count, 6);
  EXPECT_EQ(spec.kv_head_count, 3);
  EXPECT_EQ(spec.head_size, 12);
  EXPECT_EQ(spec.vocabulary_size, 77);
  EXPECT_EQ(spec.context_length, 333);
  EXPECT_EQ(spec.norm_epsilon, 3e-6F);
  EXPECT_EQ(spec.rope_style, RopeStyle::HalfSplit);
  EXPECT_EQ(spec.rope_dimension_count, 8);
  EXPECT_EQ(spec.rope_base, 54321.0F);
  EXPECT_EQ(spec.rope_scaling.kind, RopeScaling::Kind::Llama3);
  EXPECT_EQ(spec.rope_scaling.factor, 8.0F);
  EXPECT_EQ(spec.rope_scaling.low_frequency_factor, 1.5F);
  EXPECT_EQ(spec.rope_scaling.high_frequency_factor, 3.5F);
  EXPECT_EQ(spec.rope_scaling.original_context_length, 111);
}

ModelSpec spec_of(const GgufWriter& writer) {
  const TempFolder folder;
  return read_spec(GgufFile(folder.write("m.gguf", writer.bytes())));
}

TEST(ReadSpec, HasTheFormatsDefaults) {
  const ModelSpec spec = spec_of(keys_without(""));
  EXPECT_EQ(spec.rope_style, RopeStyle::Interleaved);
  EXPECT_EQ(spec.kv_head_count, 4);
  EXPECT_EQ(spec.head_size, 16);
  EXPECT_EQ(spec.rope_dimension_count, 16);
  EXPECT_EQ(spec.rope_base, 10000.0F);
  EXPECT_EQ(spec.rope_scaling.kind, RopeScaling::Kind::None);
  EXPECT_EQ(spec.vocabulary_size, 100);  // no embedding: the key
}

TEST(ReadSpec, NamesWhatIsMissing) {
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    const std::string expected = fmt::format("metadata key '{}' is missing", key);
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, expected, [&] { (void)spec_of(keys_without(key)); });
  }
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "nor metadata key 'llama.vocab_size' nor a vocabulary",
                        [&] { (void)spec_of(keys_without("llama.vocab_size")); });
}

TEST(ReadSpec, KnowsLinearScalingByItsNames) {
  const auto scaling = [](auto&& add) {
    GgufWriter writer = keys_without("");
    add(writer);
    return spec_of(writer).rope_scaling;
  };
  using Kind = RopeScaling::Kind;
  const RopeScaling stated = scaling([](GgufWriter& writer) {
    writer.key_string("llama.rope.scaling.type", "linear").key_f32("llama.rope.scaling.factor", 4.0F);
  });
  EXPECT_EQ(stated.kind, Kind::Linear);
  EXPECT_EQ(stated.factor, 4.0F);
  const RopeScaling old_name = scaling([](GgufWriter& writer) { writer.key_f32("llama.rope.scale_linear", 2.0F); });
  EXPECT_EQ(old_name.kind, Kind::Linear);
  EXPECT_EQ(old_name.factor, 2.0F);
  EXPECT_EQ(scaling([](GgufWriter& writer) { writer.key_f32("llama.rope.scaling.factor", 1.0F); }).kind, Kind::None);
  EXPECT_EQ(scaling([](GgufWriter& writer) {
              writer.key_string("llama.rope.scaling.type", "none").key_f32("llama.rope.scaling.factor", 4.0F);
            }).kind,
            Kind::None);
}

TEST(ReadSpec, ReadsYarn) {
  const auto scaling = [](auto&& add) {
    GgufWriter writer = keys_without("");
    writer.key_string("llama.rope.scaling.type", "yarn").key_f32("llama.rope.scaling.factor", 4.0F);
    add(writer);
    return spec_of(writer).rope_scaling;
  };
  const RopeScaling plain = scaling([](GgufWriter&) {});
  EXPECT_EQ(plain.kind, RopeScaling::Kind::Yarn);
  EXPECT_EQ(plain.factor, 4.0F);
  EXPECT_EQ(plain.original_context_length, 128);  // the context length
  EXPECT_EQ(plain.beta_fast, 32.0F);
  EXPECT_EQ(plain.beta_slow, 1.0F);
  EXPECT_NEAR(plain.magnitude, 1.1386294361119891, 1e-6);  // transformers'
  const RopeScaling stated = scaling([](GgufWriter& writer) {
    writer.key_u32("llama.rope.scaling.original_context_length", 32);
    writer.key_f32("llama.rope.scaling.yarn_beta_fast", 16.0F).key_f32("llama.rope.scaling.yarn_beta_slow", 2.0F);
    writer.key_f32("llama.rope.scaling.yarn_attn_factor", 1.5F).key_f32("llama.rope.scaling.yarn_ext_factor", 1.0F);
    writer.key_bool("llama.rope.scaling.finetuned", true);
  });
  EXPECT_EQ(stated.original_context_length, 32);
  EXPECT_EQ(stated.beta_fast, 16.0F);
  EXPECT_EQ(stated.beta_slow, 2.0F);
  EXPECT_EQ(stated.magnitude, 1.5F);
  const auto magnitude = [&](const char* key, float number) {
    return scaling([&](GgufWriter& writer) { writer.key_f32(key, number); }).magnitude;
  };
  EXPECT_NEAR(magnitude("llama.rope.scaling.attn_factor", 2.0F), 2.0 * 1.1386294361119891, 1e-6);
  // transformers' attention_factor with mscale 1 and mscale_all_dim 0.5
  EXPECT_NEAR(magnitude("llama.rope.scaling.yarn_log_multiplier", 0.5F), 1.1386294361119891 / 1.0693147180559945, 1e-6);
}

TEST(ReadSpec, ReadsWhatEmbeddingsAreMadeOf) {
  const auto pooling = [](int32_t type) {
    GgufWriter writer = keys_without("");
    writer.key_raw("llama.pooling_type", 5, ByteWriter().number(type).bytes());
    return spec_of(writer).pooling;
  };
  EXPECT_EQ(spec_of(keys_without("")).pooling, "mean");
  EXPECT_EQ(pooling(-1), "mean");
  EXPECT_EQ(pooling(0), "mean");
  EXPECT_EQ(pooling(1), "mean");
  EXPECT_EQ(pooling(2), "cls");
  EXPECT_EQ(pooling(3), "last");
  EXPECT_EQ(pooling(4), "rank");
  EXPECT_EQ(pooling(9), "9");
}

TEST(LoadModel, TakesSeveralFilesForOne) {
  const LoadedModel several = load_model(source_path("tests/golden/parts-00001-of-00003.gguf"));
  const LoadedModel one = load_model(source_path("tests/golden/reference_gqa_linear.gguf"));
  EXPECT_EQ(several.weights.files.size(), 3U);
  EXPECT_EQ(several.vocabulary.tokens, one.vocabulary.tokens);
  const auto last = [](const LoadedModel& model) { return model.weights.layers.back().down.bytes; };
  EXPECT_TRUE(std::ranges::equal(last(several), last(one)));
  EXPECT_TRUE(std::ranges::equal(several.weights.output_norm.bytes, one.weights.output_norm.bytes));
}

TEST(ReadSpec, ReadsWhatAClassifierTells) {
  const auto labels = [](bool has_classifier, std::vector<std::string> named) {
    GgufWriter writer = keys_without("");
    if (!named.empty()) writer.key_strings("llama.classifier.output_labels", named);
    if (has_classifier) writer.tensor("cls.output.weight", TensorType::F32, {8, 2}, std::vector<float>(16));
    return spec_of(writer).labels;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels(true, {"yes", "no"}), Labels({"yes", "no"}));
  EXPECT_EQ(labels(true, {}), Labels({"LABEL_0"}));
  EXPECT_EQ(labels(false, {"yes", "no"}), Labels());  // what no tensor is there for
}

TEST(ReadSpec, TakesWhatChangesNothing) {
  GgufWriter writer = keys_without("");
  writer.key_u32("llama.attention.sliding_window", 0);
  writer.key_f32("llama.attention.scale", 0.0F).key_f32("llama.logit_scale", 0.0F);
  writer.key_f32("llama.embedding_scale", 0.0F).key_f32("llama.residual_scale", 0.0F);
  writer.key_f32("llama.final_logit_softcapping", 0.0F);
  const ModelSpec spec = spec_of(writer);
  EXPECT_EQ(spec.sliding_window, 0);
  EXPECT_EQ(spec.embedding_scale, 1.0F);
  EXPECT_EQ(spec.residual_scale, 1.0F);
  EXPECT_EQ(spec.logit_scale, 1.0F);
  EXPECT_EQ(spec.attention_scale, 0.0F);
}

TEST(ReadSpec, TakesScalesAndCaps) {
  GgufWriter writer = keys_without("");
  writer.key_f32("llama.attention.scale", 0.5F).key_f32("llama.logit_scale", 8.0F);
  writer.key_f32("llama.embedding_scale", 12.0F).key_f32("llama.residual_scale", 0.5F);
  writer.key_f32("llama.attn_logit_softcapping", 50.0F).key_f32("llama.final_logit_softcapping", 30.0F);
  const ModelSpec spec = spec_of(writer);
  EXPECT_EQ(spec.attention_scale, 0.5F);
  EXPECT_EQ(spec.logit_scale, 0.125F);
  EXPECT_EQ(spec.hidden_embedding_scale(), 24.0F);
  EXPECT_EQ(spec.hidden_epsilon(), 4e-6F);
  EXPECT_EQ(spec.attention_softcap, 50.0F);
  EXPECT_EQ(spec.logit_softcap, 30.0F);
}

// A window in all layers, in all but each Nth (stated as N, or layer by layer), or in none.
TEST(ReadSpec, TakesWindowsOfSomeLayers) {
  const auto windows = [](auto&& add) {
    GgufWriter writer = keys_without("llama.block_count");
    writer.key_u32("llama.block_count", 3).key_u32("llama.attention.sliding_window", 100);
    add(writer);
    const ModelSpec spec = spec_of(writer);
    return std::array{spec.sliding_window, spec.local_window, spec.global_every};
  };
  const auto layers = [&](const std::vector<bool>& has_window) {
    return windows([&](GgufWriter& w) { w.key_bools("llama.attention.sliding_window_pattern", has_window); });
  };
  const auto number = [&](uint32_t every) {
    return windows([&](GgufWriter& w) { w.key_u32("llama.attention.sliding_window_pattern", every); });
  };
  EXPECT_EQ(windows([](GgufWriter&) {}), (std::array{100, 0, 0}));
  EXPECT_EQ(number(0), (std::array{100, 0, 0}));
  EXPECT_EQ(number(1), (std::array{0, 0, 0}));
  EXPECT_EQ(number(2), (std::array{0, 100, 2}));
  EXPECT_EQ(layers({true, false, true}), (std::array{0, 100, 2}));
  EXPECT_EQ(layers({true, true, false}), (std::array{0, 100, 3}));
  EXPECT_EQ(layers({true, true, true}), (std::array{100, 0, 0}));
  EXPECT_EQ(layers({false, false, false}), (std::array{0, 0, 0}));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported,
                        "'llama.attention.sliding_window_pattern': supported are windows in all",
                        [&] { (void)layers({false, true, true}); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "has 2 elements, the model 3 layers",
                        [&] { (void)layers({true, false}); });
}

TEST(ReadSpec, TakesPerLayerArraysOfOneValue) {
  GgufWriter same = keys_without("");
  same.key_i32s("llama.attention.head_count_kv", {2, 2, 2});
  EXPECT_EQ(spec_of(same).kv_head_count, 2);
  GgufWriter different = keys_without("");
  different.key_i32s("llama.attention.head_count_kv", {2, 4});
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'llama.attention.head_count_kv' differs from layer to layer",
                        [&] { (void)spec_of(different); });
}

TEST(ReadSpec, RefusesOtherModels) {
  const auto with = [](auto&& add) {
    return [add] {
      GgufWriter writer = keys_without("");
      add(writer);
      (void)spec_of(writer);
    };
  };
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported,
                        "architecture 'falcon' is not supported, only: llama, qwen2, qwen3, qwen2vl,",
                        [] { (void)spec_of(GgufWriter().key_string("general.architecture", "falcon")); });
  INFLIGHT_EXPECT_ERROR(
      ErrorCode::Unsupported,
      "'llama.rope.scaling.type' is 'longrope', supported: none, linear, llama3, yarn, longrope with its",
      with([](GgufWriter& writer) { writer.key_string("llama.rope.scaling.type", "longrope"); }));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "is not causal",
                        with([](GgufWriter& writer) { writer.key_bool("llama.attention.causal", false); }));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'llama.rope.scaling.yarn_ext_factor' is 0.5, supported: 1",
                        with([](GgufWriter& writer) {
                          writer.key_string("llama.rope.scaling.type", "yarn");
                          writer.key_f32("llama.rope.scaling.yarn_ext_factor", 0.5F);
                        }));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "m.gguf: metadata key 'llama.attention.clamp_kqv' is 0.5, supported: 0",
                        with([](GgufWriter& writer) { writer.key_f32("llama.attention.clamp_kqv", 0.5F); }));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "m.gguf: metadata key 'llama.rope.scaling.alpha' is 50, supported: 0",
                        with([](GgufWriter& writer) { writer.key_f32("llama.rope.scaling.alpha", 50.0F); }));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "heads have 16 numbers for K and 32 for V",
                        with([](GgufWriter& writer) { writer.key_u32("llama.attention.value_length", 32); }));
}

TEST(ReadSpec, RefusesNumbersOutOfRange) {
  const auto refused = [](const char* text, const char* key, auto value) {
    GgufWriter writer = keys_without(key);
    writer.key_raw(key, sizeof value == 8 ? 11 : 5, ByteWriter().number(value).bytes());
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, text, [&] { (void)spec_of(writer); });
  };
  refused("'llama.block_count' is 0, allowed: 1 to 2147483647", "llama.block_count", 0);
  refused("'llama.block_count' is -5", "llama.block_count", -5);
  refused("'llama.embedding_length' is 4294967296", "llama.embedding_length", int64_t{1} << 32);
  refused("layer count is 100000, allowed: 1 to 1024", "llama.block_count", 100000);
  refused("hidden size 65 is no multiple of its 4 heads", "llama.embedding_length", 65);
  refused("4 query heads, not a multiple of its 3 KV heads", "llama.attention.head_count_kv", 3);
  refused("RoPE dimension count is 18, allowed: 2 to 16", "llama.rope.dimension_count", 18);
  refused("m.gguf: the model's context length is 1, allowed: 2 to", "llama.context_length", 1);
  refused("'llama.attention.sliding_window' is -1, allowed: 0 to 2147483647", "llama.attention.sliding_window", -1);
}

TEST(ReadWeights, GivesEachRoleItsTensor) {
  SyntheticModel model;
  model.query_key_value_bias = model.attention_output_bias = model.feed_forward_bias = true;
  model.tied_output = false;
  model.rope_factors = {1, 2, 3, 4, 5, 6, 7, 8};
  const LoadedModel loaded = load(model);
  ASSERT_EQ(loaded.weights.layers.size(), 2U);
  const LayerWeights& layer = loaded.weights.layers[1];
  const auto expect = [](const WeightView& view, const char* name, int32_t rows, int32_t columns) {
    EXPECT_EQ(view.name, name);
    EXPECT_EQ(view.rows, rows) << name;
    EXPECT_EQ(view.columns, columns) << name;
    EXPECT_EQ(view.bytes.size(), static_cast<size_t>(rows) * static_cast<size_t>(columns) * 4) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.bytes.data()) % 8, 0U) << name;
  };
  expect(layer.attention_norm, "blk.1.attn_norm.weight", 1, 64);
  expect(layer.query, "blk.1.attn_q.weight", 64, 64);
  expect(layer.key, "blk.1.attn_k.weight", 32, 64);
  expect(layer.value, "blk.1.attn_v.weight", 32, 64);
  expect(layer.query_bias, "blk.1.attn_q.bias", 1, 64);
  expect(layer.key_bias, "blk.1.attn_k.bias", 1, 32);
  expect(layer.value_bias, "blk.1.attn_v.bias", 1, 32);
  expect(layer.attention_output, "blk.1.attn_output.weight", 64, 64);
  expect(layer.attention_output_bias, "blk.1.attn_output.bias", 1, 64);
  expect(layer.feed_forward_norm, "blk.1.ffn_norm.weight", 1, 64);
  expect(layer.gate, "blk.1.ffn_gate.weight", 96, 64);
  expect(layer.up, "blk.1.ffn_up.weight", 96, 64);
  expect(layer.down, "blk.1.ffn_down.weight", 64, 96);
  expect(layer.gate_bias, "blk.1.ffn_gate.bias", 1, 96);
  expect(layer.up_bias, "blk.1.ffn_up.bias", 1, 96);
  expect(layer.down_bias, "blk.1.ffn_down.bias", 1, 64);
  expect(loaded.weights.token_embedding, "token_embd.weight", 300, 64);
  expect(loaded.weights.output, "output.weight", 300, 64);
  expect(loaded.weights.output_norm, "output_norm.weight", 1, 64);
  expect(loaded.weights.rope_factors, "rope_freqs.weight", 1, 8);
  EXPECT_FALSE(loaded.weights.tied_output);
  float factor = 0;
  std::memcpy(&factor, loaded.weights.rope_factors.bytes.data() + 28, sizeof factor);
  EXPECT_EQ(factor, 8.0F);
}

TEST(ReadWeights, TakesJoinedTensorsApart) {
  SyntheticModel model;
  model.joined = model.query_key_value_bias = true;
  model.matrix_type = TensorType::Q8_0;
  const LoadedModel loaded = load(model);
  const LayerWeights& layer = loaded.weights.layers[1];
  const std::byte* end = layer.query.bytes.data();
  for (const auto& [view, rows] :
       {std::pair(&layer.query, 64), std::pair(&layer.key, 32), std::pair(&layer.value, 32)}) {
    EXPECT_EQ(view->rows, rows) << view->name;
    EXPECT_EQ(view->bytes.data(), end) << view->name;
    end = view->bytes.data() + static_cast<size_t>(rows) * row_bytes(TensorType::Q8_0, 64);
  }
  EXPECT_EQ(layer.key.name, "blk.1.attn_qkv.weight (attn_k.weight)");
  EXPECT_EQ(layer.value_bias.columns, 32);
  EXPECT_EQ(layer.value_bias.bytes.data(), layer.query_bias.bytes.data() + 96 * sizeof(float));
  EXPECT_EQ(layer.up.bytes.data(), layer.gate.bytes.data() + layer.gate.bytes.size());
  EXPECT_EQ(layer.up.rows, 96);
}

TEST(ReadWeights, RefusesAnglesThatAreNoNumbers) {
  for (const auto& [factor, text] :
       {std::pair(0.0F, "0"), std::pair(-1.0F, "-1"), std::pair(NAN, "nan"), std::pair(INFINITY, "inf")}) {
    GgufWriter model = build_model(SyntheticModel{});
    ByteWriter factors;
    for (const float number : {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, factor}) factors.number(number);
    model.tensor("rope_freqs.weight", 0U, {8}, factors.bytes());
    const std::string expected =
        fmt::format("tensor 'rope_freqs.weight' has the number {}, allowed: finite numbers above 0", text);
    expect_refused(ErrorCode::CorruptFile, expected.c_str(), model);
  }
}

TEST(ReadWeights, LeavesOptionalRolesEmptyAndTiesTheOutput) {
  const LoadedModel loaded = load(SyntheticModel{});
  const LayerWeights& layer = loaded.weights.layers[0];
  for (const WeightView* view : {&layer.query_bias, &layer.key_bias, &layer.value_bias, &layer.attention_output_bias,
                                 &layer.gate_bias, &layer.up_bias, &layer.down_bias, &loaded.weights.rope_factors}) {
    EXPECT_FALSE(view->present());
  }
  EXPECT_TRUE(loaded.weights.tied_output);
  EXPECT_EQ(loaded.weights.output.bytes.data(), loaded.weights.token_embedding.bytes.data());
}

TEST(ReadWeights, KeepsEveryStoredType) {
  for (const TensorType type : {TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0}) {
    SyntheticModel model;
    model.matrix_type = type;
    model.output_type = TensorType::F32;
    const LoadedModel loaded = load(model);
    EXPECT_EQ(loaded.weights.layers[0].down.type, type);
    EXPECT_EQ(loaded.weights.layers[0].down.bytes.size(), 64 * row_bytes(type, 96));
    EXPECT_EQ(loaded.weights.output.type, TensorType::F32);
  }
}

// llama3's factors come as a tensor; the keys must not apply them a second time.
TEST(ReadWeights, LetsRopeFactorsReplaceLlama3Keys) {
  SyntheticModel model;
  model.spec.rope_scaling = {.kind = RopeScaling::Kind::Llama3, .factor = 8.0F, .original_context_length = 64};
  model.rope_factors = std::vector<float>(8, 2.0F);
  EXPECT_EQ(load(model).spec.rope_scaling.kind, RopeScaling::Kind::None);
  model.rope_factors.clear();
  EXPECT_EQ(load(model).spec.rope_scaling.kind, RopeScaling::Kind::Llama3);
}

TEST(ReadWeights, NamesMissingAndLeftOverTensors) {
  SyntheticModel model;
  model.spec.architecture = "qwen2";
  expect_refused(ErrorCode::CorruptFile, "tensor 'blk.0.attn_q.bias' of architecture qwen2 is missing", model);
  model.spec.architecture = "minicpm";
  expect_refused(ErrorCode::CorruptFile, "metadata key 'minicpm.embedding_scale' is missing", model);
  model.spec.architecture = "gemma3";
  expect_refused(ErrorCode::CorruptFile, "tensor 'blk.0.attn_q_norm.weight' of architecture gemma3 is missing", model);
  expect_refused(ErrorCode::CorruptFile, "tensor 'token_embd.weight' of architecture llama is missing",
                 keys_without(""));
  GgufWriter extra = build_model(SyntheticModel{});
  extra.tensor("blk.0.attn_q_norm.weight", TensorType::F32, {16}, std::vector<float>(16));
  expect_refused(ErrorCode::Unsupported, "tensor 'blk.0.attn_q_norm.weight' is not part of architecture llama", extra);
  GgufWriter layers = build_model(SyntheticModel{});
  layers.tensor("blk.2.attn_norm.weight", TensorType::F32, {64}, std::vector<float>(64));
  expect_refused(ErrorCode::Unsupported, "tensor 'blk.2.attn_norm.weight' is not part", layers);
}

TEST(ReadWeights, RefusesWrongShapesAndTypes) {
  const auto with_embedding = [](uint32_t type, std::vector<uint64_t> dimensions, size_t bytes) {
    return std::move(
        keys_without("llama.vocab_size").tensor("token_embd.weight", type, dimensions, std::vector<std::byte>(bytes)));
  };
  expect_refused(ErrorCode::CorruptFile, "tensor 'token_embd.weight' has shape [32, 10], expected [64, 10]",
                 with_embedding(0, {32, 10}, 1280));
  expect_refused(ErrorCode::CorruptFile, "tensor 'token_embd.weight' has shape [64, 5, 2], expected [64, 10]",
                 with_embedding(0, {64, 5, 2}, 2560));
  expect_refused(ErrorCode::Unsupported,
                 "tensor 'token_embd.weight' has type Q8_1; supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_1, Q6_K, "
                 "IQ4_NL, MXFP4, Q5_0, Q2_K, Q3_K, Q4_K, Q5_K, IQ4_XS; convert it",
                 with_embedding(9, {64, 10}, 800));
  GgufWriter norm = with_embedding(0, {64, 10}, 2560);
  norm.tensor("blk.0.attn_norm.weight", TensorType::F16, {64}, std::vector<float>(64));
  expect_refused(ErrorCode::Unsupported,
                 "tensor 'blk.0.attn_norm.weight' has type F16; supported for norms, biases and the like: F32", norm);
}

TEST(ReadVocabulary, HasEveryField) {
  SyntheticModel model;
  model.with_vocabulary = true;
  GgufWriter writer = build_model(model);
  writer.key_string("tokenizer.ggml.pre", "default").key_strings("tokenizer.ggml.merges", {"a b", "ab c"});
  writer.key_u32("tokenizer.ggml.eot_token_id", 299).key_u32("tokenizer.ggml.eom_token_id", 4);
  writer.key_u32("tokenizer.ggml.unknown_token_id", 0);
  writer.key_u32("tokenizer.ggml.fim_pre_token_id", 7).key_u32("tokenizer.ggml.prefix_token_id", 8);
  writer.key_u32("tokenizer.ggml.suffix_token_id", 9).key_u32("tokenizer.ggml.fim_mid_token_id", 300);
  writer.key_i32s("tokenizer.ggml.suppress_tokens", {299, -1, 300, 0});
  writer.key_bool("tokenizer.ggml.add_bos_token", true).key_bool("tokenizer.ggml.add_space_prefix", false);
  writer.key_string("tokenizer.chat_template", "{{ messages }}");
  const VocabularyData data = load(writer).vocabulary;
  EXPECT_NE(data.path.find("m.gguf"), std::string::npos);
  EXPECT_EQ(data.model, "llama");
  EXPECT_EQ(data.pre, "default");
  ASSERT_EQ(data.tokens.size(), 300U);
  EXPECT_EQ(data.tokens[3], "<0x00>");
  EXPECT_EQ(data.tokens[299], "▁d40");
  EXPECT_EQ(data.scores.size(), 300U);
  EXPECT_EQ(data.types[0], TokenType::Unknown);
  EXPECT_EQ(data.types[1], TokenType::Control);
  EXPECT_EQ(data.types[258], TokenType::Byte);
  EXPECT_EQ(data.types[259], TokenType::Normal);
  EXPECT_EQ(data.merges, (std::vector<std::string>{"a b", "ab c"}));
  EXPECT_EQ(data.bos, 1);
  EXPECT_EQ(data.eos, 2);
  EXPECT_EQ(data.eot, 299);
  EXPECT_EQ(data.eom, 4);
  EXPECT_EQ(data.unknown, 0);
  EXPECT_EQ(data.infill_prefix, 7);
  EXPECT_EQ(data.infill_suffix, 9) << "by its older name";
  EXPECT_EQ(data.infill_middle, std::nullopt) << "no token";
  EXPECT_EQ(data.suppressed, (std::vector<TokenId>{299, 0})) << "those that are tokens";
  EXPECT_EQ(data.add_bos, true);
  EXPECT_EQ(data.add_eos, std::nullopt);
  EXPECT_EQ(data.add_space_prefix, false);
  EXPECT_EQ(data.chat_template, "{{ messages }}");
}

// What converters write where a model has no such token.
TEST(ReadVocabulary, PassesOverIdsOutOfRange) {
  GgufWriter writer;
  writer.key_string("tokenizer.ggml.model", "llama").key_strings("tokenizer.ggml.tokens", {"a", "b"});
  writer.key_u32("tokenizer.ggml.eos_token_id", 2).key_u32("tokenizer.ggml.bos_token_id", UINT32_MAX);
  writer.key_raw("tokenizer.ggml.unknown_token_id", 5, ByteWriter().number(int32_t{-1}).bytes());
  writer.key_u32("tokenizer.ggml.padding_token_id", UINT32_MAX).key_u32("tokenizer.ggml.eot_token_id", 1);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::Warning);
  const TempFolder folder;
  const VocabularyData data = load_vocabulary(folder.write("m.gguf", writer.bytes()));
  set_log_sink({}, LogLevel::Error);
  EXPECT_EQ(data.eos, std::nullopt);
  EXPECT_EQ(data.bos, std::nullopt);
  EXPECT_EQ(data.unknown, std::nullopt);
  EXPECT_EQ(data.eot, 1);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[1].find("m.gguf: metadata key 'tokenizer.ggml.eos_token_id' is 2, which is none of the 2 tokens"),
            std::string::npos);
}

TEST(ReadVocabulary, RefusesWhatDoesNotFitTogether) {
  const auto vocabulary = [](auto&& add) {
    return [add] {
      GgufWriter writer;
      writer.key_string("tokenizer.ggml.model", "llama");
      add(writer);
      const TempFolder folder;
      (void)load_vocabulary(folder.write("m.gguf", writer.bytes()));
    };
  };
  const std::vector<std::string> two = {"a", "b"};
  const auto refused = [&](const char* text, auto&& add) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, text, vocabulary(add));
  };
  refused("'tokenizer.ggml.tokens' is missing", [](GgufWriter&) {});
  refused("the vocabulary has 0 tokens", [](GgufWriter& w) { w.key_strings("tokenizer.ggml.tokens", {}); });
  refused("'tokenizer.ggml.scores' has 1 elements for 2 tokens",
          [&](GgufWriter& w) { w.key_strings("tokenizer.ggml.tokens", two).key_f32s("tokenizer.ggml.scores", {1}); });
  refused("'tokenizer.ggml.token_type' has 3 elements for 2 tokens", [&](GgufWriter& w) {
    w.key_strings("tokenizer.ggml.tokens", two).key_i32s("tokenizer.ggml.token_type", {1, 1, 1});
  });
  refused("token 1 has type 7, allowed: 0 to 6", [&](GgufWriter& w) {
    w.key_strings("tokenizer.ggml.tokens", two).key_i32s("tokenizer.ggml.token_type", {1, 7});
  });
  SyntheticModel model;
  GgufWriter writer = build_model(model);
  writer.key_string("tokenizer.ggml.model", "llama").key_strings("tokenizer.ggml.tokens", two);
  expect_refused(ErrorCode::CorruptFile, "the vocabulary has 2 tokens, but tensor 'token_embd.weight' 300 rows",
                 writer);
}

TEST(LoadVocabulary, TakesFilesWithoutWeights) {
  const TempFolder folder;
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "has no vocabulary",
                        [&] { (void)load_vocabulary(folder.write("m.gguf", GgufWriter().key_u32("k", 1).bytes())); });
  const std::string path = shared_path("vocab/falcon.gguf");
  INFLIGHT_REQUIRE_FILE(path);
  const VocabularyData data = load_vocabulary(path);
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.pre, "falcon");
  EXPECT_EQ(data.tokens.size(), 65024U);
  EXPECT_EQ(data.tokens[0], ">>TITLE<<");
  EXPECT_EQ(data.merges[3], "h e");
  EXPECT_EQ(data.eos, 11);
}

}  // namespace
}  // namespace inflight::test
