// SPDX-License-Identifier: Apache-2.0
// Goal: logprobs of prompt tokens are those of the right positions, with the bits that sampling saw, however many
// rounds they take, and so are logits that are read back. Method: one prefill that tells of all its positions, against
// one prefill a prefix of the same prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"
#include "support/executor_runner.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

// GetParam(): of a model whose last layers compute the wanted rows alone.
class WantedLogits : public testing::TestWithParam<bool> {
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

  [[nodiscard]] static LoadedModel load() {
    if (!GetParam()) return load_model(INFLIGHT_SOURCE_DIR "/models/tinyworld/tinyworld-q8_0.gguf");
    test::SyntheticModel model;
    model.make_gemma4();
    model.spec.local_window = 6;
    const test::TempFolder folder;
    return load_model(folder.write("gemma4.gguf", test::build_model(model).bytes()));
  }

  LoadedModel model_ = load();
  Device device_ = Device::open({});
  std::vector<TokenId> prompt_;
};

// Prompts in one piece or two, more rows than there are logits at a time.
TEST_P(WantedLogits, TellOfEachPosition) {
  std::vector<std::vector<float>> expected;
  {
    ClExecutor executor(device_, model_.spec, model_.weights, options(true));
    for (int32_t length = 1; length <= kPrompt; ++length) {
      test::RunnerSequence sequence = sequence_of(length);
      BatchPlan plan;
      test::add_entry(plan, sequence, length);
      executor.submit(plan);
      (void)executor.wait();
      expected.push_back(executor.logits().at(0));
    }
  }
  ClExecutor executor(device_, model_.spec, model_.weights, options(false));
  for (const int32_t first_chunk : {kPrompt, 17}) {
    for (const bool host : {false, true}) {
      test::RunnerSequence sequence = sequence_of(kPrompt);
      sequence.sampling.prompt_logprobs = 3;
      const TokenHistory history{.known_tokens = sequence.tokens, .end_tokens = {}};
      int32_t position = 0;
      for (const int32_t chunk : {first_chunk, kPrompt - first_chunk}) {
        if (chunk == 0) continue;
        BatchPlan plan;
        test::add_entry(plan, sequence, chunk);
        BatchEntry& entry = plan.entries[0];
        entry.sampling = &sequence.sampling;
        entry.history = &history;
        entry.prompt_token_count = kPrompt;
        entry.prompt_logprobs_wanted = std::min(entry.context_token_count(), kPrompt - 1) - sequence.computed;
        entry.host_samples = plan.read_before_next = host && entry.samples;
        executor.submit(plan);
        const StepResult& result = executor.wait();
        ASSERT_EQ(std::ssize(result.prompt_logprobs), entry.prompt_logprobs_wanted);
        for (const PromptLogprob& told : result.prompt_logprobs) {
          ASSERT_EQ(told.position, ++position);
          const LogSoftmax probabilities(expected[static_cast<size_t>(position) - 1]);
          EXPECT_EQ(told.logprob, probabilities.of(prompt_[static_cast<size_t>(position)])) << position;
          const std::vector<TokenLogprob> top = probabilities.top(3);
          ASSERT_EQ(told.top_logprobs.size(), 3U);
          for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(told.top_logprobs[i].token, top[i].token);
            EXPECT_EQ(told.top_logprobs[i].logprob, top[i].logprob);
          }
        }
        ASSERT_EQ(result.logits.size(), entry.host_samples ? 1U : 0U);
        const std::vector<float>& last = expected.back();
        if (entry.host_samples) {
          EXPECT_TRUE(std::ranges::equal(result.logits[0].values, last));
        } else if (entry.samples) {
          EXPECT_EQ(result.sampled.at(0).token, draw_token(last, sequence.sampling, kPrompt).token);
        }
        sequence.computed += chunk;
      }
      EXPECT_EQ(position, kPrompt - 1);
    }
  }
}

TEST_P(WantedLogits, LeaveTheOthersOfTheStepAlone) {
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
    const TokenHistory history{.known_tokens = second.tokens, .end_tokens = {}};
    if (wanted) {
      plan.entries[0].host_samples = plan.read_before_next = true;
      plan.entries[1].prompt_logprobs_wanted = 6;
      plan.entries[1].history = &history;
      plan.entries[1].prompt_token_count = 14;
    }
    executor.submit(plan);
    const StepResult& result = executor.wait();
    EXPECT_EQ(result.logits.size(), wanted ? 1U : 0U);
    EXPECT_EQ(result.prompt_logprobs.size(), wanted ? 6U : 0U);
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

INSTANTIATE_TEST_SUITE_P(Models, WantedLogits, testing::Bool(),
                         [](const auto& test) { return test.param ? "SharedKv" : "OwnKv"; });

}  // namespace
}  // namespace inflight
