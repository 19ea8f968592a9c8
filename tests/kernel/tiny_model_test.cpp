// SPDX-License-Identifier: Apache-2.0
// Every kernel once, as small as can be: what the interpreter oclgrind checks for accesses out of bounds and races.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/reference_model.h"
#include "support/stage_bench.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

class TinyModel : public testing::TestWithParam<LaunchMode> {};

TEST_P(TinyModel, RunsEveryKernel) {
  const bool groups = in_groups(GetParam());
  if (const char* why = test::why_not_tested(Device::open({}).info(), GetParam())) GTEST_SKIP() << why;
  struct Kind {
    TensorType type;
    KvType kv;
    void (*shape)(test::SyntheticModel&) = nullptr;  // whose stages are of work-items alone
  };
  for (const auto& [type, wanted_kv, shape] :
       {Kind{TensorType::F16, KvType::F16},
        {TensorType::Q8_0, KvType::I16},
        {TensorType::Q4_0, KvType::F16},
        {TensorType::Q4_1, KvType::I16},
        {TensorType::Q5_0, KvType::F32},
        {TensorType::Q6_K, KvType::Q8_0},
        {TensorType::MXFP4, KvType::I16},
        {TensorType::F16, KvType::F16, [](test::SyntheticModel& m) { m.make_mixture(5, 2, true); }},
        {TensorType::F16, KvType::F16,
         [](test::SyntheticModel& m) {
           m.make_deepseek2(true);
           m.spec.layer_count = 2;
         }},
        {TensorType::F16, KvType::F16, [](test::SyntheticModel& m) { m.make_gemma4(); }},
        {TensorType::F16, KvType::F16, [](test::SyntheticModel& m) {
           m.make_large_gemma4(true);
           m.spec.head_count = 4;
         }}}) {
    // Steps with such stages are never one launch.
    if (shape != nullptr && GetParam() == LaunchMode::FusedGroups) continue;
    const KvType kv_type = groups && wanted_kv == KvType::I16 ? KvType::F16 : wanted_kv;
    test::SyntheticModel synthetic;
    synthetic.matrix_type = type;
    synthetic.spec.layer_count = 1;
    const bool k_quant = type == TensorType::Q6_K;  // blocks of 256
    synthetic.spec.hidden_size = synthetic.spec.feed_forward_size = k_quant ? 256 : 32;
    synthetic.spec.head_count = 2;
    synthetic.spec.kv_head_count = 1;
    if (k_quant) synthetic.spec.head_size = synthetic.spec.rope_dimension_count = 128;
    synthetic.spec.vocabulary_size = 37;
    synthetic.query_key_value_bias = true;
    if (shape != nullptr) shape(synthetic);
    const test::TempFolder folder;
    const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
    Device device = Device::open({});
    ClExecutor executor(device, model.spec, model.weights,
                        {.kv = KvLayout::of(model.spec, 8, kv_type),
                         .kv_block_count = 12,
                         .host_block_count = 1,
                         .max_num_seqs = 2,
                         .max_num_batched_tokens = 48,
                         .launch_mode = GetParam(),
                         .keep_logits = true});
    std::vector<test::RunnerSequence> sequences(2);
    sequences[0].tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    sequences[1].tokens = {36};
    sequences[1].sampling = {.temperature = 1.0F, .top_k = 20, .top_p = 0.9F};
    // More rows than linear_few of groups_linear.cl takes.
    for (int32_t i = 0; groups && i < 24; ++i) sequences[0].tokens.push_back(i);
    for (size_t i = 0; i < 2; ++i) {
      sequences[i].id = SequenceId{i};
      sequences[i].row = static_cast<int32_t>(i);
      for (int32_t b = 0; b < 5; ++b) sequences[i].blocks.push_back(static_cast<BlockId>((i == 0 ? 10 : 5) - b));
    }
    test::ReferenceModel reference(model);
    for (int step = 0; step < 2; ++step) {
      BatchPlan plan;
      for (test::RunnerSequence& sequence : sequences) {
        test::add_entry(plan, sequence, static_cast<int32_t>(sequence.tokens.size()) - sequence.computed);
      }
      executor.submit(plan);
      const StepResult& result = executor.wait();
      const auto logits = executor.logits();
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_TRUE(result.sampled[i].valid);
        const std::vector<double> truth = reference.logits(sequences[i].tokens);
        for (size_t token = 0; token < truth.size(); ++token) {
          ASSERT_NEAR(static_cast<double>(logits[i][token]), truth[token], type == TensorType::F16 ? 5e-3 : 0.2)
              << static_cast<int>(type);
        }
        sequences[i].computed = static_cast<int32_t>(sequences[i].tokens.size());
        sequences[i].tokens.push_back(result.sampled[i].token);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Launches, TinyModel,
                         testing::Values(LaunchMode::Stages, LaunchMode::Groups, LaunchMode::FusedGroups),
                         [](const auto& test) {
                           if (test.param == LaunchMode::FusedGroups) return "FusedGroups";
                           return test.param == LaunchMode::Groups ? "Groups" : "Stages";
                         });

}  // namespace
}  // namespace inflight
