// SPDX-License-Identifier: Apache-2.0
// Goal: an adapter file is read as written, and whatever does not fit the model is named.
// Method: adapters written with known numbers; one thing changed at a time.
#include "model/lora_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

constexpr const char* kTargetNames[] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

LoraFile load_adapter(const GgufWriter& writer, int32_t rank_max = 16) {
  const TempFolder folder;
  return load_lora(folder.write("a.gguf", writer.bytes()), SyntheticModel::small_spec(), rank_max);
}

void expect_adapter_refused(ErrorCode code, const char* text, const GgufWriter& writer, int32_t rank_max = 16) {
  INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load_adapter(writer, rank_max); });
  INFLIGHT_EXPECT_ERROR(code, "a.gguf: ", [&] { (void)load_adapter(writer, rank_max); });
}

struct Keys {
  const char* type = "adapter";
  const char* adapter_type = "lora";
  const char* architecture = "llama";
};

GgufWriter keys(const Keys& keys = {}) {
  GgufWriter writer;
  if (keys.type != nullptr) writer.key_string("general.type", keys.type);
  if (keys.adapter_type != nullptr) writer.key_string("adapter.type", keys.adapter_type);
  if (keys.architecture != nullptr) writer.key_string("general.architecture", keys.architecture);
  writer.key_f32("adapter.lora.alpha", 8.0F);
  return writer;
}

GgufWriter& add(GgufWriter& writer, const std::string& name, uint64_t columns, uint64_t rows) {
  return writer.tensor(name, TensorType::F32, {columns, rows}, std::vector<float>(columns * rows, 0.5F));
}

// A checkpoint of Llama's has rows of queries and keys in another order than its GGUF files, which adapters follow.
TEST(LoraFile, AdaptsNoQueriesOfACheckpoint) {
  ModelSpec spec = SyntheticModel::small_spec();
  spec.checkpoint_rows = true;
  const TempFolder folder;
  const auto load = [&](std::vector<std::string> targets) {
    const SyntheticAdapter adapter{.targets = std::move(targets)};
    return load_lora(folder.write("a.gguf", build_adapter(adapter, spec).bytes()), spec, 16).layers.size();
  };
  EXPECT_EQ(load({"attn_v", "attn_output", "ffn_up"}), 2U);
  for (const char* const target : {"attn_q", "attn_k"}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "adapts queries or keys in the order of GGUF files",
                          [&] { (void)load({"attn_v", target}); });
  }
}

// Every matrix of every layer, at its place, with its numbers.
TEST(LoraFile, IsReadAsWritten) {
  const SyntheticAdapter adapter{.rank = 5, .alpha = 20.0F};
  const ModelSpec spec = SyntheticModel::small_spec();
  const TempFolder folder;
  const LoraFile lora = load_lora(folder.write("a.gguf", build_adapter(adapter, spec).bytes()), spec, 5);
  EXPECT_EQ(lora.alpha, 20.0F);
  EXPECT_EQ(lora.rank, 5);
  ASSERT_EQ(lora.layers.size(), 2U);
  const auto written = low_ranks(adapter, spec);
  ASSERT_EQ(written.size(), 14U);
  for (size_t i = 0; i < written.size(); ++i) {
    const LowRank& one = written[i];
    const auto target = static_cast<LoraTarget>(i % 7);
    EXPECT_EQ(one.target, kTargetNames[i % 7]);
    const LoraShape shape = lora_shape(spec, target);
    EXPECT_EQ(shape.depth, one.depth);
    EXPECT_EQ(shape.outputs, one.outputs);
    const LoraPair& pair = lora.layers[i / 7][i % 7];
    EXPECT_EQ(pair.rank(), 5);
    EXPECT_EQ(lora.scale(pair), 4.0F);
    ASSERT_EQ(pair.a.bytes.size(), one.a.size() * sizeof(float));
    ASSERT_EQ(pair.b.bytes.size(), one.b.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(pair.a.bytes.data(), one.a.data(), pair.a.bytes.size()), 0);
    EXPECT_EQ(std::memcmp(pair.b.bytes.data(), one.b.data(), pair.b.bytes.size()), 0);
  }
}

// llama.cpp's rule: no alpha, or alpha 0, is a factor of 1.
TEST(LoraFile, WithoutAlphaTheFactorIsOne) {
  for (const float alpha : {-1.0F, 0.0F}) {
    const LoraFile lora = load_adapter(build_adapter({.alpha = alpha}, SyntheticModel::small_spec()));
    EXPECT_EQ(lora.scale(lora.layers[0][0]), 1.0F);
  }
}

TEST(LoraFile, AMatrixMayBeLeftOut) {
  const LoraFile lora = load_adapter(build_adapter({.targets = {"attn_v"}}, SyntheticModel::small_spec()));
  EXPECT_TRUE(lora.layers[1][static_cast<size_t>(LoraTarget::Value)].a.present());
  EXPECT_FALSE(lora.layers[1][static_cast<size_t>(LoraTarget::Query)].a.present());
}

TEST(LoraFile, RefusesWhatIsNoAdapterOfThisModel) {
  expect_adapter_refused(ErrorCode::Unsupported, "key 'general.type' is missing", keys({.type = nullptr}));
  expect_adapter_refused(ErrorCode::Unsupported, "key 'general.type' is 'model'", keys({.type = "model"}));
  expect_adapter_refused(ErrorCode::Unsupported,
                         "'adapter.type' is 'control_vector', a LoRA adapter for this model has 'lora'",
                         keys({.adapter_type = "control_vector"}));
  expect_adapter_refused(ErrorCode::Unsupported,
                         "'general.architecture' is 'qwen2', a LoRA adapter for this model has 'llama'",
                         keys({.architecture = "qwen2"}));
  GgufWriter activated = keys();
  activated.key_i32s("adapter.alora.invocation_tokens", {1, 2});
  expect_adapter_refused(ErrorCode::Unsupported, "activated LoRA", activated);
  GgufWriter endless = keys();
  expect_adapter_refused(ErrorCode::CorruptFile, "adapts no matrix at all", endless);
}

TEST(LoraFile, RefusesTensorsThatDoNotFit) {
  const auto with = [](const char* name, uint64_t columns, uint64_t rows) {
    GgufWriter writer = keys();
    add(writer, name, columns, rows);
    return writer;
  };
  expect_adapter_refused(ErrorCode::Unsupported, "'blk.0.attn_q.weight.bias' is neither",
                         with("blk.0.attn_q.weight.bias", 64, 4));
  for (const char* name :
       {"output.weight.lora_a", "token_embd.weight.lora_b", "blk.2.attn_q.weight.lora_a", "blk.x.attn_q.weight.lora_a",
        "blk.0.attn_norm.weight.lora_a", "blk.0.lora_a", "lora_a.lora_a"}) {
    expect_adapter_refused(ErrorCode::Unsupported,
                           "adapts what cannot be adapted, allowed: blk.0 to blk.1 with attn_q.weight",
                           with(name, 64, 4));
  }
  expect_adapter_refused(ErrorCode::CorruptFile, "'blk.0.attn_q.weight.lora_a' is there without its .lora_b",
                         with("blk.0.attn_q.weight.lora_a", 64, 4));
  expect_adapter_refused(ErrorCode::CorruptFile, "'blk.1.ffn_down.weight.lora_b' is there without its .lora_a",
                         with("blk.1.ffn_down.weight.lora_b", 4, 64));
  const auto pair = [](uint64_t depth, uint64_t rank_a, uint64_t rank_b, uint64_t outputs) {
    GgufWriter writer = keys();
    add(writer, "blk.0.ffn_up.weight.lora_a", depth, rank_a);
    return add(writer, "blk.0.ffn_up.weight.lora_b", rank_b, outputs);
  };
  EXPECT_EQ(load_adapter(pair(64, 4, 4, 96)).rank, 4);
  for (const GgufWriter& wrong : {pair(63, 4, 4, 96), pair(64, 4, 5, 96), pair(64, 4, 4, 95), pair(4, 64, 96, 4)}) {
    expect_adapter_refused(ErrorCode::CorruptFile, "do not fit, expected [64, R] and [R, 96]", wrong);
  }
  expect_adapter_refused(ErrorCode::InvalidArgument, "has rank 9, allowed: 1 to 8 (max_lora_rank)", pair(64, 9, 9, 96),
                         8);
}

TEST(LoraFile, RefusesAnAlphaThatIsNoNumber) {
  GgufWriter writer;
  writer.key_string("general.type", "adapter").key_string("adapter.type", "lora");
  writer.key_string("general.architecture", "llama").key_f32("adapter.lora.alpha", INFINITY);
  expect_adapter_refused(ErrorCode::CorruptFile, "'adapter.lora.alpha' is inf", writer);
}

}  // namespace
}  // namespace inflight::test
