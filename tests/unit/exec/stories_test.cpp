// SPDX-License-Identifier: Apache-2.0
// A real trained model, stories260K, greedy for 200 tokens: equal to the float64 reference, whichever way it is
// launched. Covers: exec/cl_executor.cpp, exec/forward_pass.cpp, exec/step_upload.cpp, exec/weight_store.cpp
#include <gtest/gtest.h>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/reference_model.h"
#include "support/test_data.h"

namespace inflight {
namespace {

class Stories : public testing::TestWithParam<LaunchMode> {};

TEST_P(Stories, EqualsTheReferenceFor200Tokens) {
  const std::string path = test::shared_path("stories260K/stories260K-f32.gguf");
  INFLIGHT_REQUIRE_FILE(path);
  const LoadedModel model = load_model(path);
  test::ReferenceModel reference(model);
  test::RunnerSequence sequence;
  sequence.tokens = {1, 403, 407, 261, 378};  // <s> Once upon a time
  const std::vector<double> logits = reference.logits(sequence.tokens);
  const std::vector<TokenId> expected = reference.greedy(logits, 200);

  Device device = Device::open({});
  if (GetParam() == LaunchMode::Fused && !device.info().host_code) {
    GTEST_SKIP() << device.info().name << " has a launch a stage";
  }
  ClExecutor executor(device, model.spec, model.weights,
                      {.kv = KvLayout::of(model.spec, 16, KvType::F32),
                       .kv_block_count = 32,
                       .max_num_seqs = 4,
                       .max_num_batched_tokens = 64,
                       .launch_mode = GetParam()});
  for (int32_t i = 0; i < 16; ++i) sequence.blocks.push_back(BlockId{31 - i});
  std::vector<TokenId> found;
  while (found.size() < expected.size()) {
    BatchPlan plan;
    test::add_entry(plan, sequence, static_cast<int32_t>(sequence.tokens.size()) - sequence.computed);
    executor.submit(plan);
    const StepResult& result = executor.wait();
    ASSERT_EQ(result.sampled.size(), 1U);
    ASSERT_TRUE(result.sampled[0].valid);
    sequence.computed = static_cast<int32_t>(sequence.tokens.size());
    sequence.tokens.push_back(result.sampled[0].token);
    found.push_back(result.sampled[0].token);
  }
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Launches, Stories, testing::Values(LaunchMode::Stages, LaunchMode::Fused),
                         [](const auto& test) { return test.param == LaunchMode::Fused ? "Fused" : "Stages"; });

}  // namespace
}  // namespace inflight
