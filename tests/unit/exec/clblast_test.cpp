// SPDX-License-Identifier: Apache-2.0
// A whole model of float weights by CLBlast: every bit of the logits is that of the own kernels, whatever the chunks.
//
// Covers: exec/cl_executor.cpp
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

// Logits behind a prompt of 41 tokens, computed `chunk` tokens at a time, and behind 3 tokens more.
std::vector<std::vector<float>> logits_of(const LoadedModel& model, const ClblastUse& clblast, int32_t chunk) {
  Device device = Device::open({});
  ClExecutor executor(device, model.spec, model.weights,
                      {.kv = KvLayout::of(model.spec, 16, KvType::F16),
                       .kv_block_count = 8,
                       .max_num_seqs = 2,
                       .max_num_batched_tokens = 64,
                       .launch_mode = LaunchMode::Automatic,
                       .clblast = clblast,
                       .keep_logits = true});
  test::RunnerSequence sequence;
  for (int32_t i = 0; i < 41; ++i) sequence.tokens.push_back(i * 7 % 37);
  sequence.blocks = {BlockId{3}, BlockId{1}, BlockId{6}};
  std::vector<std::vector<float>> all;
  while (all.size() < 4) {
    const auto left = static_cast<int32_t>(sequence.tokens.size()) - sequence.computed;
    BatchPlan plan;
    test::add_entry(plan, sequence, std::min(left, chunk));
    executor.submit(plan);
    const StepResult& result = executor.wait();
    sequence.computed += std::min(left, chunk);
    if (left > chunk) continue;
    all.push_back(executor.logits().at(0));
    sequence.tokens.push_back(result.sampled.at(0).token);
  }
  return all;
}

TEST(ClblastModel, GivesTheBitsOfTheOwnKernels) {
  if (!Clblast::available()) GTEST_SKIP() << "libclblast.so.1 is not installed";
  for (const bool gated : {true, false}) {
    for (const TensorType type : {TensorType::F16, TensorType::BF16, TensorType::Q8_0}) {
      test::SyntheticModel synthetic;
      if (!gated) synthetic.make_gpt_neox(true);
      synthetic.matrix_type = type;
      synthetic.spec.vocabulary_size = 37;
      synthetic.query_key_value_bias = true;
      const test::TempFolder folder;
      const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
      const auto expected = logits_of(model, {}, 64);
      EXPECT_EQ(logits_of(model, {.from_rows = 1}, 64), expected) << static_cast<int>(type);
      EXPECT_EQ(logits_of(model, {.from_rows = 5}, 9), expected) << static_cast<int>(type);
    }
  }
}

TEST(ClblastModel, AFusedStepCannotHaveIt) {
  if (!Clblast::available()) GTEST_SKIP() << "libclblast.so.1 is not installed";
  test::SyntheticModel synthetic;
  const test::TempFolder folder;
  const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
  Device device = Device::open({});
  ClExecutorOptions options{.kv = KvLayout::of(model.spec, 16, KvType::F16), .kv_block_count = 8};
  const size_t without = plan_memory(device.info(), model.spec, model.weights, options).activation_bytes;
  options.clblast.from_rows = 1;
  EXPECT_GT(plan_memory(device.info(), model.spec, model.weights, options).activation_bytes, without);
  options.launch_mode = LaunchMode::Fused;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "fused",
                        [&] { const ClExecutor executor(device, model.spec, model.weights, options); });
}

}  // namespace
}  // namespace inflight
