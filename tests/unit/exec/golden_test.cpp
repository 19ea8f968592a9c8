// SPDX-License-Identifier: Apache-2.0
// The demo model against what its makers' framework computed (models/tinyworld/golden.json): every token, and the
// logits of the first.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/test_data.h"

namespace inflight {
namespace {

struct GoldenCase {
  const char* file;
  double tolerance;  // of logits, relative to the largest
  bool all_tokens;   // also behind near ties, and behind the end token
};

class Golden : public testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, TokensAndLogits) {
  const LoadedModel model = load_model(test::source_path(std::string("models/tinyworld/") + GetParam().file));
  Device device = Device::open({});
  ClExecutor executor(device, model.spec, model.weights,
                      {.kv = KvLayout::of(model.spec, 16, KvType::F16),
                       .kv_block_count = 40,
                       .max_num_seqs = 1,
                       .max_num_batched_tokens = 512,
                       .keep_logits = true});
  std::ifstream file(test::source_path("models/tinyworld/golden.json"));
  const nlohmann::json all = nlohmann::json::parse(file);
  int compared = 0;
  for (const nlohmann::json& golden : all.at("cases")) {
    ++compared;
    SCOPED_TRACE(golden["name"].get<std::string>());
    test::RunnerSequence sequence;
    sequence.tokens = golden["prompt_ids"].get<std::vector<TokenId>>();
    for (int32_t i = 0; i < 40; ++i) sequence.blocks.push_back(BlockId{i});
    const auto expected = golden["greedy_ids"].get<std::vector<TokenId>>();
    std::vector<TokenId> found;
    while (found.size() < expected.size()) {
      BatchPlan plan;
      test::add_entry(plan, sequence, static_cast<int32_t>(sequence.tokens.size()) - sequence.computed);
      executor.submit(plan);
      const StepResult& result = executor.wait();
      if (found.empty()) {
        const std::vector<float> logits = executor.logits().at(0);
        const double largest = golden["top5"][0]["logit"].get<double>();
        for (const nlohmann::json& top : golden["top5"]) {
          const auto logit = static_cast<double>(logits[top["id"].get<size_t>()]);
          EXPECT_NEAR(logit, top["logit"].get<double>(), GetParam().tolerance * std::abs(largest));
        }
      }
      sequence.computed = static_cast<int32_t>(sequence.tokens.size());
      // Go on along the expected tokens, so that one near tie does not hide all that follows.
      sequence.tokens.push_back(expected[found.size()]);
      found.push_back(result.sampled.at(0).token);
    }
    if (GetParam().all_tokens || golden["min_margin"].get<double>() > 0.5) {
      EXPECT_EQ(found, expected);
    }
  }
  EXPECT_EQ(compared, 15);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values(GoldenCase{"tinyworld-f16.gguf", 1e-3, true},
                                         GoldenCase{"tinyworld-q8_0.gguf", 5e-2, false}),
                         [](const auto& test) { return test.param.all_tokens ? "F16" : "Q8"; });

}  // namespace
}  // namespace inflight
