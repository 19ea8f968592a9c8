// SPDX-License-Identifier: Apache-2.0
// Goal: logits that a plan wants are read back: of the right positions, the bits that sampling saw, however many rounds
// they take. Method: one prefill that wants all its positions, against one prefill a prefix of the same prompt.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"

namespace inflight {
namespace {

class WantedLogits : public testing::Test {
 protected:
  static constexpr int32_t kPrompt = 21;  // more rows than a round has with max_num_seqs 4

  WantedLogits() {
    for (int32_t i = 0; i < kPrompt; ++i) prompt_.push_back((i * 37 + 11) % model_.spec.vocabulary_size);
  }
  test::RunnerSequence sequence_of(int32_t length) {
    test::RunnerSequence sequence;
    sequence.tokens.assign(prompt_.begin(), prompt_.begin() + length);
    for (int32_t i = 0; i < 4; ++i) sequence.blocks.push_back(BlockId{i});
    sequence.sampling.temperature = 0.7F;
    sequence.sampling.seed = 5;
    return sequence;
  }
  ClExecutorOptions options(bool keep_logits) const {
    return {.kv = KvLayout::of(model_.spec, 16, KvType::F16),
            .kv_block_count = 8,
            .max_num_seqs = 4,
            .max_num_batched_tokens = 64,
            .keep_logits = keep_logits};
  }

  LoadedModel model_ = load_model(INFLIGHT_SOURCE_DIR "/models/tinyworld/tinyworld-q8_0.gguf");
  Device device_ = Device::open({});
  std::vector<TokenId> prompt_;
};

TEST_F(WantedLogits, AreThoseOfEachPosition) {
  std::vector<std::vector<float>> expected;
  TokenId drawn = 0;
  {
    ClExecutor executor(device_, model_.spec, model_.weights, options(true));
    for (int32_t length = 1; length <= kPrompt; ++length) {
      test::RunnerSequence sequence = sequence_of(length);
      BatchPlan plan;
      test::add_entry(plan, sequence, length);
      executor.submit(plan);
      drawn = executor.wait().sampled.at(0).token;
      expected.push_back(executor.logits().at(0));
    }
  }
  ClExecutor executor(device_, model_.spec, model_.weights, options(false));
  test::RunnerSequence sequence = sequence_of(kPrompt);
  BatchPlan plan;
  test::add_entry(plan, sequence, kPrompt);
  plan.entries[0].logits_wanted = kPrompt;
  executor.submit(plan);
  const StepResult& result = executor.wait();
  ASSERT_EQ(result.logits.size(), 1U);
  EXPECT_EQ(result.logits[0].first_position, 0);
  ASSERT_EQ(result.logits[0].row_count, kPrompt);
  const auto vocabulary = static_cast<size_t>(model_.spec.vocabulary_size);
  for (size_t row = 0; row < kPrompt; ++row) {
    const auto values = result.logits[0].values.subspan(row * vocabulary, vocabulary);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), expected[row]) << row;
  }
  EXPECT_EQ(result.sampled.at(0).token, drawn);
}

TEST_F(WantedLogits, LeaveTheOthersOfTheStepAlone) {
  ClExecutor executor(device_, model_.spec, model_.weights, options(false));
  const auto run = [&](bool wanted) {
    test::RunnerSequence first = sequence_of(9), second = sequence_of(14), third = sequence_of(5);
    second.row = 1;
    third.row = 2;
    for (auto& block : second.blocks) block = BlockId{to_integer(block) + 4};
    third.blocks = {BlockId{3}};
    first.blocks = {BlockId{0}};
    BatchPlan plan;
    test::add_entry(plan, first, 9);
    test::add_entry(plan, second, 14);
    test::add_entry(plan, third, 5);
    if (wanted) {
      plan.entries[0].logits_wanted = 1;
      plan.entries[0].host_samples = true;
      plan.entries[1].logits_wanted = 6;
    }
    executor.submit(plan);
    const StepResult& result = executor.wait();
    EXPECT_EQ(result.logits.size(), wanted ? 2U : 0U);
    return std::vector<SampledToken>(result.sampled);
  };
  const auto plain = run(false), wanted = run(true);
  ASSERT_EQ(plain.size(), 3U);
  ASSERT_EQ(wanted.size(), 3U);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(wanted[i].token, plain[i].token);
    EXPECT_EQ(wanted[i].logprob, plain[i].logprob);
  }
  EXPECT_EQ(plain[0].sequence, wanted[0].sequence);
}

}  // namespace
}  // namespace inflight
