// SPDX-License-Identifier: Apache-2.0
// Files of mixtures of experts: what their keys and tensors become, and what is refused.
#include <gtest/gtest.h>

#include "model/gguf_spec.h"
#include "model/lora_file.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

// Bytes stay mapped while the folder is there.
LoadedModel load_from(const TempFolder& folder, const GgufWriter& writer) {
  return load_model(folder.write("m.gguf", writer.bytes()));
}

SyntheticModel mixture(bool shared) {
  SyntheticModel model;
  model.make_mixture(6, 2, shared);
  return model;
}

TEST(ExpertFiles, HaveEveryTensor) {
  SyntheticModel model = mixture(true);
  model.dense_layers = 1;
  const TempFolder folder;
  const LoadedModel loaded = load_from(folder, build_model(model));
  EXPECT_EQ(loaded.spec.expert_count, 6);
  EXPECT_EQ(loaded.spec.experts_used, 2);
  EXPECT_EQ(loaded.spec.expert_size, 48);
  EXPECT_EQ(loaded.spec.shared_expert_size, 80);
  EXPECT_FALSE(loaded.spec.expert_weights_normed);
  const LayerWeights& dense = loaded.weights.layers[0];
  EXPECT_FALSE(dense.has_experts());
  EXPECT_EQ(dense.gate.name, "blk.0.ffn_gate.weight");
  EXPECT_FALSE(dense.expert_gate.present());
  const LayerWeights& mixed = loaded.weights.layers[1];
  EXPECT_TRUE(mixed.has_experts());
  EXPECT_EQ(mixed.router.rows, 6);
  EXPECT_EQ(mixed.expert_gate.rows, 6 * 48);
  EXPECT_EQ(mixed.expert_up.columns, 64);
  EXPECT_EQ(mixed.expert_down.rows, 6 * 64);
  EXPECT_EQ(mixed.expert_down.columns, 48);
  EXPECT_EQ(mixed.down.name, "blk.1.ffn_down_shexp.weight");
  EXPECT_EQ(mixed.gate.rows, 80);
  EXPECT_EQ(mixed.shared_gate.columns, 64);
}

// Sizes that a file does not state.
TEST(ExpertFiles, FallBackToOtherKeys) {
  const auto spec_of = [](const char* architecture, auto&& add) {
    GgufWriter writer;
    const std::string name = architecture;
    const auto count = [&](const char* key, uint32_t value) { writer.key_u32(name + "." + key, value); };
    writer.key_string("general.architecture", name);
    count("block_count", 1);
    count("context_length", 128);
    count("embedding_length", 64);
    count("feed_forward_length", 96);
    count("attention.head_count", 4);
    count("vocab_size", 100);
    count("expert_count", 8);
    count("expert_used_count", 2);
    writer.key_f32(name + ".attention.layer_norm_rms_epsilon", 1e-6F);
    add(count);
    const TempFolder folder;
    return read_spec(GgufFile(folder.write("m.gguf", writer.bytes())));
  };
  const ModelSpec mixtral = spec_of("llama", [](auto&&) {});
  EXPECT_EQ(mixtral.expert_size, 96);
  EXPECT_EQ(mixtral.shared_expert_size, 0);
  EXPECT_TRUE(mixtral.expert_weights_normed);
  const ModelSpec qwen = spec_of("qwen2moe", [](auto&& count) { count("expert_feed_forward_length", 32); });
  EXPECT_EQ(qwen.expert_size, 32);
  EXPECT_FALSE(qwen.expert_weights_normed);
  const ModelSpec ernie = spec_of("ernie4_5-moe", [](auto&& count) { count("expert_shared_feed_forward_length", 64); });
  EXPECT_EQ(ernie.shared_expert_size, 64);  // of a file without tensors
  EXPECT_EQ(ernie.expert_gating, Gating::Softmax);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "m.gguf: metadata key 'llama.expert_gating_func' is 4, supported: 1",
                        [&] { (void)spec_of("llama", [](auto&& count) { count("expert_gating_func", 4); }); });
  const ModelSpec of_chosen = spec_of("olmoe", [](auto&& count) { count("expert_gating_func", 3); });
  EXPECT_EQ(of_chosen.expert_gating, Gating::Softmax);
  EXPECT_TRUE(of_chosen.expert_weights_normed);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "m.gguf: metadata key 'llama.expert_group_used_count' is missing",
                        [&] { (void)spec_of("llama", [](auto&& count) { count("expert_group_count", 4); }); });
}

TEST(ExpertFiles, RefuseWhatCannotBeRun) {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, const char* text, auto&& change) {
    SyntheticModel model = mixture(false);
    change(model);
    INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)load_from(folder, build_model(model)); });
    INFLIGHT_EXPECT_ERROR(code, "m.gguf: ", [&] { (void)load_from(folder, build_model(model)); });
  };
  refused(ErrorCode::CorruptFile, "number of experts used is 7, allowed: 1 to 6",
          [](SyntheticModel& m) { m.spec.experts_used = 7; });
  refused(ErrorCode::CorruptFile, "6 experts in 4 groups, 2 of 1 used, allowed: equal groups",
          [](SyntheticModel& m) { m.spec.expert_groups = 4; });
  refused(ErrorCode::CorruptFile, "6 experts in 6 groups, 2 of 2 used, allowed: equal groups", [](SyntheticModel& m) {
    m.spec.expert_groups = 6;
    m.spec.expert_groups_used = 2;
  });
  refused(ErrorCode::CorruptFile, "number of expert groups used is 4, allowed: 1 to 3", [](SyntheticModel& m) {
    m.spec.expert_groups = 3;
    m.spec.expert_groups_used = 4;
  });
  refused(ErrorCode::CorruptFile, "expert count is 1025, allowed: 1 to 1024",
          [](SyntheticModel& m) { m.make_mixture(1025, 2, false); });
  refused(ErrorCode::Unsupported,
          "expert's feed-forward size of a mixture of experts is 40, supported: multiples of 16",
          [](SyntheticModel& m) { m.spec.expert_size = 40; });
  refused(ErrorCode::Unsupported, "hidden size of a mixture of experts is 72, supported: multiples of 16",
          [](SyntheticModel& m) { m.spec.hidden_size = 72; });
  refused(ErrorCode::Unsupported, "is a mixture of 6 experts; supported of architecture qwen3: dense models",
          [](SyntheticModel& m) { m.spec.architecture = "qwen3"; });
  refused(ErrorCode::CorruptFile, "tensor 'blk.0.ffn_gate_inp_shexp.weight' of architecture qwen2moe is missing",
          [](SyntheticModel& m) {
            m.make_mixture(6, 2, true);
            m.query_key_norm = m.shared_gate = false;
          });
  refused(ErrorCode::Unsupported, "tensor 'blk.0.ffn_gate_inp_shexp.weight' is not part of architecture qwen3moe",
          [](SyntheticModel& m) {
            m.spec.shared_expert_size = 32;
            m.shared_gate = true;  // which this family has not
          });
}

TEST(ExpertFiles, OfGptOssHaveSinksAndBiases) {
  const TempFolder folder;
  SyntheticModel model;
  model.make_gpt_oss(6, 2);
  const LoadedModel loaded = load_from(folder, build_model(model));
  EXPECT_EQ(loaded.spec.activation, Activation::ClampedSwiglu);
  EXPECT_EQ(loaded.spec.expert_gating, Gating::Softmax);
  EXPECT_TRUE(loaded.spec.expert_weights_normed);
  EXPECT_TRUE(loaded.spec.is_local(0));
  EXPECT_FALSE(loaded.spec.is_local(1));
  const LayerWeights& layer = loaded.weights.layers.at(3);
  EXPECT_EQ(layer.attention_sinks.columns, loaded.spec.head_count);
  EXPECT_EQ(layer.feed_forward_norm.name, "blk.3.post_attention_norm.weight");
  EXPECT_FALSE(layer.attention_post_norm.present());
  EXPECT_EQ(layer.router_bias.columns, 6);
  EXPECT_EQ(layer.expert_up_bias.rows, 6);
  EXPECT_EQ(layer.expert_up_bias.columns, 48);
  EXPECT_EQ(layer.expert_down_bias.columns, 64);
  model.sinks = false;
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "tensor 'blk.0.attn_sinks.weight' of architecture gpt-oss is missing",
                        [&] { (void)load_from(folder, build_model(model)); });
  model.make_mixture(6, 2, false);  // whose family has none
  model.sinks = true;
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "tensor 'blk.0.ffn_norm.weight' of architecture qwen3moe is missing",
                        [&] { (void)load_from(folder, build_model(model)); });
}

TEST(ExpertFiles, TakeAdaptersOfAttentionOnly) {
  const ModelSpec spec = mixture(false).spec;
  const TempFolder folder;
  SyntheticAdapter adapter;
  const auto load = [&] {
    const LoraFile lora = load_lora(folder.write("a.gguf", build_adapter(adapter, spec).bytes()), spec, 64);
    return lora.layers[1][static_cast<size_t>(LoraTarget::Value)].a.present();
  };
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'blk.0.ffn_gate.weight.lora_a' adapts what cannot be adapted", load);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "attn_v.weight, attn_output.weight", load);
  adapter.targets.resize(kAttentionTargetCount);
  EXPECT_TRUE(load());
}

}  // namespace
}  // namespace inflight::test
