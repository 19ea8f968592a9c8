// SPDX-License-Identifier: Apache-2.0
// The host sampler against the rule done plainly (sorting, doubles), against the distribution it must follow, and bit
// for bit against the device: a model whose logits any sequence can look up is sampled by both.
#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "sample/logits_processor.h"
#include "support/executor_runner.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

std::vector<float> random_logits(size_t count, uint64_t seed, float spread) {
  Rng rng(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = spread * static_cast<float>(2.0 * rng.uniform() - 1.0);
  return logits;
}

// Kept ids and their probabilities, straight from the definition.
std::vector<std::pair<TokenId, double>> kept_tokens(const std::vector<float>& logits, const SamplingParams& sampling) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<std::pair<TokenId, double>> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double w = std::exp((static_cast<double>(logits[i]) - largest) / static_cast<double>(sampling.temperature));
    if (w >= static_cast<double>(sampling.min_p)) tokens.emplace_back(static_cast<TokenId>(i), w);
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (sampling.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(sampling.top_k)));
  double total = 0.0;
  for (const auto& token : tokens) total += token.second;
  double sum = 0.0;
  size_t kept = 0;
  while (kept < tokens.size() && (kept == 0 || sum < static_cast<double>(sampling.top_p) * total))
    sum += tokens[kept++].second;
  tokens.resize(kept);
  for (auto& token : tokens) token.second /= sum;
  return tokens;
}

TEST(ExpNonpositive, IsCloseToExpAndExactAtZero) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  for (float x = 0.0F; x > -80.0F; x -= 0.0137F) {
    const double truth = std::exp(static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(exp_nonpositive(x)), truth, 2e-7 * truth) << x;
  }
  EXPECT_LT(exp_nonpositive(-std::numeric_limits<float>::infinity()), 1e-37F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
}

TEST(DrawToken, GreedyTakesTheLowestIdOfTheLargest) {
  std::vector<float> logits = random_logits(5000, 1, 3.0F);
  logits[4500] = logits[77] = logits[4097] = 9.0F;
  const Draw result = draw_token(logits, {}, 0);
  EXPECT_EQ(result.token, 77);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - 9.0);
  EXPECT_NEAR(static_cast<double>(LogSoftmax(logits).of(result.token)), -std::log(sum), 1e-5);
}

TEST(DrawToken, TemperaturesWithoutAFiniteInverseAreGreedy) {
  const std::vector<float> logits = random_logits(5000, 1, 3.0F);
  for (const float temperature : {1e-45F, 1e-40F, 1e-31F, 1e-30F}) {
    EXPECT_EQ(draw_token(logits, {.temperature = temperature}, 0).token, draw_token(logits, {}, 0).token)
        << temperature;
  }
}

TEST(DrawToken, RefusesNanAndNothingFinite) {
  std::vector<float> logits = random_logits(100, 1, 3.0F);
  logits[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(draw_token(logits, {}, 0).valid);
  EXPECT_FALSE(draw_token(std::vector<float>(100, -std::numeric_limits<float>::infinity()), {}, 0).valid);
  logits[50] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(draw_token(logits, {}, 0).valid);
}

TEST(DrawToken, KeepsExactlyTheTokensOfTheDefinition) {
  const std::vector<float> logits = random_logits(300, 8, 4.0F);
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 1.0F, .top_k = 5}, SamplingParams{.temperature = 0.7F, .top_p = 0.6F},
        SamplingParams{.temperature = 1.5F, .min_p = 0.2F}, SamplingParams{.temperature = 2.0F, .top_k = 1},
        SamplingParams{.temperature = 1.3F, .top_k = 20, .top_p = 0.8F, .min_p = 0.05F}}) {
    std::set<TokenId> expected, found;
    for (const auto& [token, probability] : kept_tokens(logits, sampling)) expected.insert(token);
    for (int32_t position = 0; position < 4000; ++position) found.insert(draw_token(logits, sampling, position).token);
    EXPECT_EQ(found, expected);
  }
}

TEST(DrawToken, TiesAtTheEdgeGoToTheLowerIds) {
  std::vector<float> logits(10, 0.0F);
  logits[9] = 1.0F;
  std::set<TokenId> found;
  for (int32_t position = 0; position < 500; ++position) {
    found.insert(draw_token(logits, {.temperature = 1.0F, .top_k = 4}, position).token);
  }
  EXPECT_EQ(found, (std::set<TokenId>{0, 1, 2, 9}));
}

TEST(DrawToken, FollowsTheDistribution) {
  const std::vector<float> logits = random_logits(40, 4, 2.0F);
  const SamplingParams sampling{.temperature = 0.8F, .top_p = 0.9F, .seed = 99};
  constexpr int32_t kDraws = 40000;
  std::vector<int32_t> counts(logits.size());
  for (int32_t position = 0; position < kDraws; ++position) {
    ++counts[static_cast<size_t>(draw_token(logits, sampling, position).token)];
  }
  double chi_squared = 0.0;
  const auto tokens = kept_tokens(logits, sampling);
  for (const auto& [token, probability] : tokens) {
    const double expected = probability * kDraws;
    chi_squared += std::pow(counts[static_cast<size_t>(token)] - expected, 2) / expected;
  }
  // 99.99 % of fair samplers stay below degrees of freedom + 4 standard deviations + 8.
  const double freedom = static_cast<double>(tokens.size()) - 1.0;
  EXPECT_LT(chi_squared, freedom + 4.0 * std::sqrt(2.0 * freedom) + 8.0);
}

TEST(DrawToken, EqualsTheDeviceBitForBit) {
  const test::TempFolder folder;
  test::SyntheticModel synthetic;
  synthetic.spec.vocabulary_size = 9001;  // three chunks and a tail
  const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
  Device device = Device::open({});
  ClExecutor executor(device, model.spec, model.weights,
                      {.kv = KvLayout::of(model.spec, 16, KvType::F16),
                       .kv_block_count = 64,
                       .max_num_seqs = 16,
                       .max_num_batched_tokens = 256,
                       .keep_logits = true});
  std::vector<test::RunnerSequence> sequences(16);
  Rng rng(17);
  // Off, a value between low and high, or one at the edges.
  const auto draw = [&rng](float off, double low, double high, std::initializer_list<float> edges) {
    const uint64_t kind = rng.below(4);
    if (kind == 0) return off;
    if (kind == 1) return *(edges.begin() + static_cast<std::ptrdiff_t>(rng.below(edges.size())));
    return static_cast<float>(low + (high - low) * rng.uniform());
  };
  for (int round = 0; round < 12; ++round) {
    BatchPlan plan;
    for (size_t i = 0; i < sequences.size(); ++i) {
      test::RunnerSequence& sequence = sequences[i];
      sequence.id = SequenceId{i};
      sequence.row = static_cast<int32_t>(i);
      sequence.blocks = {static_cast<BlockId>(i)};
      sequence.tokens.assign(1 + rng.below(8), 0);
      for (TokenId& token : sequence.tokens) token = rng.between(0, 9000);
      sequence.sampling.seed = rng.next();
      sequence.sampling.temperature = draw(0, 0.2, 2.2, {1e-3F, 100.0F});
      sequence.sampling.top_k = static_cast<int32_t>(draw(0, 1, 200, {1, 2, 9000, 9001, 20000}));
      sequence.sampling.top_p = draw(1, 0.1, 1.0, {1e-6F, 0.999999F});
      sequence.sampling.min_p = draw(0, 0.0, 0.1, {1.0F, 1e-6F});
      test::add_entry(plan, sequence, static_cast<int32_t>(sequence.tokens.size()));
    }
    executor.submit(plan);
    const StepResult& result = executor.wait();
    const auto logits = executor.logits();
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Draw expected =
          draw_token(logits[i], sequences[i].sampling, static_cast<int32_t>(sequences[i].tokens.size()));
      EXPECT_EQ(result.sampled[i].token, expected.token)
          << "round " << round << " sequence " << i << ": temperature " << sequences[i].sampling.temperature
          << ", top_k " << sequences[i].sampling.top_k << ", top_p " << sequences[i].sampling.top_p << ", min_p "
          << sequences[i].sampling.min_p;
      EXPECT_EQ(result.sampled[i].logprob, LogSoftmax(logits[i]).of(expected.token));
    }
  }
}

}  // namespace
}  // namespace inflight
