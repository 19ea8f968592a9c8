// SPDX-License-Identifier: Apache-2.0
// Whole forward passes of small models of every kind against the float64 reference: weight types, head layouts, RoPE
// styles and scalings, biases, block sizes, KV types, prompt lengths around the sizes of tiles, blocks and partitions.
// Rows quantised to int8 leave the reference by a few per cent in such small models; tests/kernel checks their kernels
// exactly.
// Covers: exec/arena.cpp, exec/forward_pass.cpp, exec/forward_pass_attention.cpp, exec/forward_pass_fit.cpp,
// exec/weight_store.cpp
// Covers: ops/step_program.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/reference_model.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

struct Kind {
  const char* name;
  void (*shape)(test::SyntheticModel&);
  double tolerance = 2e-5;  // of the logits' root mean square
  KvType kv = KvType::F32;
  int32_t block_tokens = 16;
};

// To rows of whole blocks of K-quants.
void widen(test::SyntheticModel& model) {
  model.spec.hidden_size = model.spec.feed_forward_size = 256;
  model.spec.head_count = 4;
  model.spec.head_size = model.spec.rope_dimension_count = 64;
}

// LongRoPE, of a model whose context is 640 tokens.
void add_long_rope(test::SyntheticModel& model, int32_t original_context) {
  model.spec.rope_scaling.original_context_length = original_context;
  model.rope_factors = {1.0F, 1.5F, 2.0F, 2.5F, 3.0F, 4.0F, 6.0F, 8.0F};
  model.rope_factors_long = {2.0F, 2.5F, 3.0F, 4.5F, 5.0F, 6.0F, 8.0F, 9.0F};
}

class AgainstReference : public testing::TestWithParam<Kind> {};

TEST_P(AgainstReference, LogitsBehindPromptsOfManyLengths) {
  test::SyntheticModel synthetic;
  synthetic.spec.context_length = 640;
  GetParam().shape(synthetic);
  const test::TempFolder folder;
  const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
  Device device = Device::open({});
  ClExecutor executor(device, model.spec, model.weights,
                      {.kv = KvLayout::of(model.spec, GetParam().block_tokens, GetParam().kv),
                       .kv_block_count = 640 / GetParam().block_tokens,
                       .max_num_seqs = 2,
                       .max_num_batched_tokens = 600,
                       .keep_logits = true});
  test::ReferenceModel reference(model);
  std::vector<TokenId> tokens;
  Rng rng(3);
  for (int32_t i = 0; i < 520; ++i) tokens.push_back(rng.between(0, model.spec.vocabulary_size - 1));
  const std::vector<std::vector<double>> expected = reference.feed_all(tokens);
  for (const int32_t count : {1, 2, 3, 7, 15, 16, 17, 33, 255, 256, 257, 520}) {
    SCOPED_TRACE(count);
    test::RunnerSequence sequence;
    sequence.tokens.assign(tokens.begin(), tokens.begin() + count);
    const int32_t blocks = 640 / GetParam().block_tokens;
    for (int32_t i = 0; i < blocks; ++i) sequence.blocks.push_back(BlockId{(i * 7 + count) % blocks});  // 7: coprime
    BatchPlan plan;
    test::add_entry(plan, sequence, count);
    executor.submit(plan);
    ASSERT_TRUE(executor.wait().sampled.at(0).valid);
    const std::vector<float> logits = executor.logits().at(0);
    const std::vector<double>& truth = expected[static_cast<size_t>(count - 1)];
    double squares = 0.0, worst = 0.0;
    for (size_t i = 0; i < truth.size(); ++i) {
      squares += truth[i] * truth[i];
      worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - truth[i]));
    }
    EXPECT_LT(worst, GetParam().tolerance * std::sqrt(squares / static_cast<double>(truth.size())));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, AgainstReference,
    testing::Values(Kind{"F32", [](test::SyntheticModel&) {}},
                    Kind{"F16", [](test::SyntheticModel& m) { m.matrix_type = TensorType::F16; }},
                    Kind{"BF16", [](test::SyntheticModel& m) { m.matrix_type = TensorType::BF16; }},
                    Kind{"Q8", [](test::SyntheticModel& m) { m.matrix_type = TensorType::Q8_0; }, 0.12},
                    Kind{"Q4", [](test::SyntheticModel& m) { m.matrix_type = TensorType::Q4_0; }, 0.12},
                    Kind{"Q41", [](test::SyntheticModel& m) { m.matrix_type = TensorType::Q4_1; }, 0.12},
                    Kind{"Q4KAsQ41",
                         [](test::SyntheticModel& m) {
                           m.matrix_type = TensorType::Q4_K;
                           widen(m);
                         },
                         0.12},
                    Kind{"Q50AsQ51", [](test::SyntheticModel& m) { m.matrix_type = TensorType::Q5_0; }, 0.12},
                    Kind{"Q6K",
                         [](test::SyntheticModel& m) {
                           m.matrix_type = TensorType::Q6_K;
                           widen(m);
                         },
                         0.12},
                    Kind{"MixedOutput",
                         [](test::SyntheticModel& m) {
                           m.matrix_type = TensorType::Q4_0;
                           m.output_type = TensorType::F16;
                         },
                         0.12},
                    Kind{"UntiedOutputOfAnotherType",
                         [](test::SyntheticModel& m) {
                           m.tied_output = false;
                           m.output_type = TensorType::Q8_0;
                         },
                         6e-2},
                    Kind{"KvHalf", [](test::SyntheticModel&) {}, 5e-3, KvType::F16},
                    Kind{"KvInts", [](test::SyntheticModel&) {}, 2e-3, KvType::I16},
                    Kind{"BlocksOf8", [](test::SyntheticModel&) {}, 2e-5, KvType::F32, 8},
                    Kind{"BlocksOf128", [](test::SyntheticModel&) {}, 2e-5, KvType::F32, 128},
                    Kind{"Window", [](test::SyntheticModel& m) { m.spec.sliding_window = 70; }},
                    Kind{"OneKvHead", [](test::SyntheticModel& m) { m.spec.kv_head_count = 1; }},
                    Kind{"EqualHeads", [](test::SyntheticModel& m) { m.spec.kv_head_count = 4; }},
                    Kind{"ManySharedHeads",
                         [](test::SyntheticModel& m) {
                           m.spec.head_count = 20;
                           m.spec.kv_head_count = 1;
                         }},
                    Kind{"OddSizes",
                         [](test::SyntheticModel& m) {
                           m.spec.hidden_size = 60;
                           m.spec.feed_forward_size = 172;
                           m.spec.head_size = 6;
                           m.spec.rope_dimension_count = 4;
                           m.spec.vocabulary_size = 301;
                         }},
                    Kind{"HalfSplitWithBiases",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "qwen2";
                           m.spec.rope_style = RopeStyle::HalfSplit;
                           m.query_key_value_bias = true;
                         }},
                    Kind{"NormedHeads",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "qwen3";
                           m.spec.rope_style = RopeStyle::HalfSplit;
                           m.query_key_norm = true;
                         }},
                    Kind{"Scales",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "granite";
                           m.spec.embedding_scale = 6.0F;
                           m.spec.residual_scale = 0.25F;
                           m.spec.attention_scale = 0.5F;
                           m.spec.logit_scale = 0.125F;
                         }},
                    Kind{"ScalesOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "minicpm";
                           m.spec.embedding_scale = 12.0F;
                           m.spec.residual_scale = 0.5F;
                           m.spec.logit_scale = 4.0F;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.12},
                    Kind{"SomeLayersUnrotated",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "smollm3";
                           m.spec.layer_count = 5;
                         }},
                    Kind{"JoinedTensors",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "phi3";
                           m.spec.rope_style = RopeStyle::HalfSplit;
                           m.spec.rope_dimension_count = 12;
                           m.joined = m.query_key_value_bias = true;
                           m.matrix_type = TensorType::F16;
                         }},
                    Kind{"LongFactors", [](test::SyntheticModel& m) { add_long_rope(m, 600); }},
                    Kind{"ShortFactors", [](test::SyntheticModel& m) { add_long_rope(m, 640); }},
                    Kind{"Gemma", [](test::SyntheticModel& m) { m.make_gemma(1); }},
                    Kind{"Gemma2", [](test::SyntheticModel& m) { m.make_gemma(2); }},
                    Kind{"Gemma3", [](test::SyntheticModel& m) { m.make_gemma(3); }},
                    Kind{"Gemma3OfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_gemma(3);
                           m.spec.local_window = 300;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.12, KvType::I16},
                    Kind{"Gemma4", [](test::SyntheticModel& m) { m.make_gemma4(); }},
                    Kind{"Gemma4OfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_gemma4();
                           m.seed = 2;
                           m.spec.local_window = 300;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.2, KvType::I16},
                    Kind{"Gemma4OfHalves",
                         [](test::SyntheticModel& m) {
                           m.make_gemma4();
                           m.spec.kv_head_count = 1;
                           m.matrix_type = TensorType::F16;
                           m.output_type = TensorType::Q8_0;
                         },
                         6e-2, KvType::F16},
                    Kind{"Gemma4Large", [](test::SyntheticModel& m) { m.make_large_gemma4(false); }},
                    Kind{"Gemma4LargeOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_large_gemma4(false);
                           m.spec.kv_head_count = 2;
                           m.spec.local_window = 300;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.2, KvType::I16},
                    Kind{"Gemma4HeadsOf26B",
                         [](test::SyntheticModel& m) {
                           m.make_large_gemma4(false);
                           m.spec.layer_count = 2;
                           m.spec.head_count = 16;
                           m.spec.kv_head_count = 2;
                           m.spec.local_kv_head_count = 8;
                           m.spec.head_size = m.spec.rope_dimension_count = 512;
                           m.spec.local_head_size = 256;
                           m.rope_factors.assign(256, 1e30F);
                           std::fill_n(m.rope_factors.begin(), 64, 1.0F);
                           m.matrix_type = TensorType::F16;
                         },
                         5e-3, KvType::I16},
                    Kind{"Gemma4LargeOfEightBits", [](test::SyntheticModel& m) { m.make_large_gemma4(false); }, 6e-2,
                         KvType::Q8_0},
                    Kind{"Gemma4Experts", [](test::SyntheticModel& m) { m.make_large_gemma4(true); }},
                    Kind{"Gemma4ExpertsInSharingLayers",
                         [](test::SyntheticModel& m) {
                           m.make_gemma4();
                           m.make_large_gemma4(true);
                           m.spec.layer_count = 6;
                           m.spec.first_sharing_layer = 4;
                           m.spec.layer_embedding_size = 32;
                         }},
                    Kind{"Gemma4ExpertsOfBlocks",  // all: which are chosen would depend on rounding
                         [](test::SyntheticModel& m) {
                           m.make_large_gemma4(true);
                           m.spec.experts_used = m.spec.expert_count;
                           m.spec.expert_size = 96;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"NormsBehindAlone",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "olmo2";
                           m.spec.rope_style = RopeStyle::HalfSplit;
                           m.norms_before = false;
                           m.norms_behind = m.query_key_norm = m.spec.norms_heads_together = true;
                           m.spec.local_window = 100;
                           m.spec.global_every = 2;
                           m.spec.rope_scaling = {.kind = RopeScaling::Kind::Linear, .factor = 4.0F};
                         }},
                    Kind{"Experts", [](test::SyntheticModel& m) { m.make_mixture(8, 2, false); }},
                    Kind{"ExpertsOfHalves",
                         [](test::SyntheticModel& m) {
                           m.make_mixture(8, 3, false);
                           m.matrix_type = TensorType::F16;
                         }},
                    Kind{"ManyExperts", [](test::SyntheticModel& m) { m.make_mixture(67, 5, false); }},
                    Kind{"SharedExpert", [](test::SyntheticModel& m) { m.make_mixture(6, 2, true); }},
                    Kind{"SharedExpertWithoutGate",
                         [](test::SyntheticModel& m) {
                           m.make_mixture(6, 2, false);
                           m.spec.architecture = "bailingmoe";
                           m.spec.rope_style = RopeStyle::Interleaved;
                           m.query_key_norm = false;
                           m.spec.shared_expert_size = 80;
                           m.spec.expert_weight_scale = 2.5F;
                           m.dense_layers = 1;
                         }},
                    Kind{"ChoiceBias",
                         [](test::SyntheticModel& m) {
                           m.make_mixture(8, 2, false);
                           m.spec.architecture = "ernie4_5-moe";
                           m.spec.rope_style = RopeStyle::Interleaved;
                           m.query_key_norm = false;
                           m.choice_bias = true;
                         }},
                    Kind{"GroupsOfExperts",
                         [](test::SyntheticModel& m) {
                           m.make_mixture(24, 4, false);
                           m.spec.architecture = "bailingmoe2";
                           m.spec.shared_expert_size = 48;
                           m.spec.expert_gating = Gating::Sigmoid;
                           m.spec.expert_groups = 6;
                           m.spec.expert_groups_used = 2;
                           m.choice_bias = true;
                         }},
                    Kind{"GptOss", [](test::SyntheticModel& m) { m.make_gpt_oss(8, 3); }},
                    Kind{"GptOssOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_gpt_oss(4, 4);
                           m.spec.expert_size = 96;
                           m.matrix_type = TensorType::MXFP4;
                         },
                         0.12, KvType::I16},
                    Kind{"States", [](test::SyntheticModel& m) { m.make_qwen35(false); }},
                    Kind{"StatesAndExperts", [](test::SyntheticModel& m) { m.make_qwen35(true); }},
                    Kind{"StatesOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_qwen35(false);
                           m.spec.layer_count = 3;
                           m.spec.mixing.resize(3);
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"ShortConvolutions", [](test::SyntheticModel& m) { m.make_lfm2(false); }},
                    Kind{"ShortConvolutionsAndExperts", [](test::SyntheticModel& m) { m.make_lfm2(true); }},
                    Kind{"ShortConvolutionsOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_lfm2(false);
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"Mamba2", [](test::SyntheticModel& m) { m.make_granite_hybrid(false); }},
                    Kind{"Mamba2AndExperts",
                         [](test::SyntheticModel& m) {
                           m.make_granite_hybrid(true);
                           m.spec.unrotated_every = 0;
                         }},
                    Kind{"Mamba2OfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_granite_hybrid(false);
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"NemotronH", [](test::SyntheticModel& m) { m.make_nemotron_h(false); }},
                    Kind{"NemotronHAndExperts", [](test::SyntheticModel& m) { m.make_nemotron_h(true); }},
                    Kind{"NemotronHOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_nemotron_h(true);
                           m.spec.experts_used = m.spec.expert_count;  // which are chosen would depend on rounding
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"FalconH1", [](test::SyntheticModel& m) { m.make_falcon_h1(); }},
                    Kind{"FalconH1OfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_falcon_h1();
                           m.state_norm = false;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"Qwen3Next", [](test::SyntheticModel& m) { m.make_qwen3next(false); }},
                    Kind{"Qwen3NextOfJoinedStates",
                         [](test::SyntheticModel& m) {
                           m.make_qwen3next(true);
                           m.matrix_type = TensorType::F16;
                         },
                         5e-5},
                    Kind{"LatentAttention", [](test::SyntheticModel& m) { m.make_deepseek2(false); }},
                    Kind{"LatentAttentionOfRankedQueries", [](test::SyntheticModel& m) { m.make_deepseek2(true); }},
                    Kind{"LatentAttentionOfHalves",
                         [](test::SyntheticModel& m) {
                           m.make_deepseek2(true);
                           m.matrix_type = TensorType::F16;
                           m.spec.latent.unrotated_size = 24;
                           m.spec.head_count = 5;
                         }},
                    Kind{"LatentAttentionOfJoinedHeads",
                         [](test::SyntheticModel& m) {
                           m.make_deepseek2(false);
                           m.joined_heads = true;
                         }},
                    Kind{"LatentAttentionOfJoinedHeadsOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_deepseek2(true);
                           m.joined_heads = true;
                           m.spec.experts_used = m.spec.expert_count;
                           m.spec.expert_size = 96;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25},
                    Kind{"LatentAttentionOfDeepSeekV2Lite",  // its heads
                         [](test::SyntheticModel& m) {
                           m.make_deepseek2(false);
                           m.spec.layer_count = 2;
                           m.spec.head_count = 16;
                           m.spec.rope_dimension_count = 64;
                           m.spec.latent = {.rank = 512, .unrotated_size = 128, .value_size = 128};
                           m.spec.head_size = 576;
                           m.matrix_type = TensorType::F16;
                         },
                         5e-3, KvType::I16},
                    Kind{"LatentAttentionOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_deepseek2(true);
                           m.spec.experts_used = m.spec.expert_count;  // which are chosen would depend on rounding
                           m.spec.expert_size = 96;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.25, KvType::I16},
                    Kind{"AllExpertsOfBlocks",  // which are chosen would depend on rounding
                         [](test::SyntheticModel& m) {
                           m.make_mixture(4, 4, true);
                           m.spec.expert_size = m.spec.shared_expert_size = 96;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.12, KvType::I16},
                    Kind{"AllBiases",
                         [](test::SyntheticModel& m) {
                           m.query_key_value_bias = m.attention_output_bias = m.feed_forward_bias = true;
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.12},
                    Kind{"NormedRotatedHeads",
                         [](test::SyntheticModel& m) {
                           m.spec.architecture = "hunyuan-dense";
                           m.query_key_norm = true;
                         }},
                    Kind{"GptNeox", [](test::SyntheticModel& m) { m.make_gpt_neox(true); }},
                    Kind{"GptNeoxSequential",
                         [](test::SyntheticModel& m) {
                           m.make_gpt_neox(false);
                           m.matrix_type = TensorType::F16;
                         }},
                    Kind{"GptNeoxOfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_gpt_neox(true);
                           m.matrix_type = TensorType::Q8_0;
                         },
                         0.12, KvType::I16},
                    Kind{"GptNeoxOfOddSizes",
                         [](test::SyntheticModel& m) {
                           m.make_gpt_neox(true);
                           m.spec.hidden_size = 60;
                           m.spec.feed_forward_size = 172;
                           m.spec.vocabulary_size = 301;
                         }},
                    Kind{"Phi2", [](test::SyntheticModel& m) { m.make_phi2(); }},
                    Kind{"Nemotron", [](test::SyntheticModel& m) { m.make_nemotron(); }},
                    Kind{"Cohere2", [](test::SyntheticModel& m) { m.make_cohere2(); }},
                    Kind{"Cohere2OfBlocks",
                         [](test::SyntheticModel& m) {
                           m.make_cohere2();
                           m.matrix_type = TensorType::Q4_0;
                         },
                         0.12, KvType::I16},
                    Kind{"Olmo", [](test::SyntheticModel& m) { m.make_olmo(); }},
                    Kind{"UnrotatedGlobals", [](test::SyntheticModel& m) { m.make_exaone4(); }},
                    Kind{"Temperature", [](test::SyntheticModel& m) { m.make_ministral3(); }},
                    Kind{"LinearScaling",
                         [](test::SyntheticModel& m) {
                           m.spec.rope_scaling = {.kind = RopeScaling::Kind::Linear, .factor = 4.0F};
                         }},
                    Kind{"Llama3Scaling",
                         [](test::SyntheticModel& m) {
                           m.spec.rope_scaling = {.kind = RopeScaling::Kind::Llama3,
                                                  .factor = 8.0F,
                                                  .low_frequency_factor = 1.0F,
                                                  .high_frequency_factor = 4.0F,
                                                  .original_context_length = 128};
                         }},
                    Kind{"YarnScaling",
                         [](test::SyntheticModel& m) {
                           m.spec.rope_scaling = {.kind = RopeScaling::Kind::Yarn,
                                                  .factor = 4.0F,
                                                  .original_context_length = 128,
                                                  .beta_fast = 8.0F,
                                                  .magnitude = 1.25F};
                         }},
                    Kind{"RopeFactors",
                         [](test::SyntheticModel& m) {
                           m.rope_factors = {1.0F, 1.5F, 2.0F, 2.5F, 3.0F, 4.0F, 6.0F, 8.0F};
                         }}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace inflight
