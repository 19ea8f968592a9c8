// SPDX-License-Identifier: Apache-2.0
// embed and norm against their definitions, by work-items and by work-groups.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/linear_case.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

class Rows : public testing::TestWithParam<LaunchMode> {
 protected:
  void SetUp() override {
    if (const char* why = test::why_not_tested(device_.info(), GetParam())) GTEST_SKIP() << why;
  }
  [[nodiscard]] test::StageBench bench(bool mean_norms = false) {
    return {device_, shape(mean_norms), 100'000, 1024, GetParam()};
  }

  [[nodiscard]] static KernelShape shape(bool mean_norms) {
    return {.head_count = 2,
            .kv_head_count = 1,
            .head_size = 16,
            .mean_norms = mean_norms,
            .rope_pair_count = 8,
            .block_token_count = 16,
            .kv_type = KvType::F16,
            .weight_types = 0};
  }
  Device device_ = Device::open({});
};

// Every type, tokens in all places of a panel, and one that was sampled: number -(1 + 1) is row 1's, which is 2.
TEST_P(Rows, EmbeddingsAreTheTablesRows) {
  constexpr int32_t kTokens = 37, kDepth = 512;
  constexpr float kScale = 2.5F;
  for (const PanelType type :
       {PanelType::F32, PanelType::F16, PanelType::BF16, PanelType::Q8_0, PanelType::Q4_0, PanelType::Q4_1,
        PanelType::Q5_1, PanelType::Q6_K, PanelType::IQ4_NL, PanelType::MXFP4}) {
    SCOPED_TRACE(static_cast<int>(type));
    const LinearCase c = make_linear_case({type, kTokens, kDepth, 1}, 17);
    test::StageBench bench = this->bench();
    bench.weights = c.panels;
    std::vector<int32_t> tokens, expected;
    for (int32_t token = 0; token < kTokens; ++token) tokens.push_back(token);
    expected = tokens;
    tokens.push_back(-2);
    expected.push_back(2);
    Stage stage{.operation = Operation::Embed, .items = static_cast<int32_t>(tokens.size())};
    stage.embed = {.table = {.type = type, .depth = kDepth, .outputs = kTokens},
                   .tokens = bench.add_words(tokens),
                   .out = bench.add_poison(tokens.size() * kDepth),
                   .scale = kScale};
    bench.run({stage});
    for (size_t row = 0; row < tokens.size(); ++row) {
      for (int32_t k = 0; k < kDepth; ++k) {
        const float number = weight_number(c, expected[row], k);
        ASSERT_NEAR(bench.activations[static_cast<size_t>(stage.embed.out) + row * kDepth + static_cast<size_t>(k)],
                    kScale * number, 1e-6F * std::abs(kScale * number))
            << "row " << row << " k " << k;
      }
    }
    EXPECT_TRUE(
        test::StageBench::poisoned(bench.activations[static_cast<size_t>(stage.embed.out) + tokens.size() * kDepth]));
  }
}

// Depths of whole vectors and others; with a weight, without, and added to what stands there.
TEST_P(Rows, NormsHaveTheMeanSquareTakenOut) {
  constexpr int32_t kRows = 5;
  constexpr float kEpsilon = 1e-3F, kScale = 0.75F;
  Rng rng(4);
  const auto numbers = [&](size_t count) {
    std::vector<float> made(count);
    for (float& number : made) number = static_cast<float>(4.0 * rng.uniform() - 2.0);
    return made;
  };
  for (const int32_t depth : {16, 24, 64, 90, 2880}) {
    for (const bool weighted : {false, true}) {
      for (const bool added : {false, true}) {
        SCOPED_TRACE(depth);
        const auto width = static_cast<size_t>(depth);
        const std::vector<float> x = numbers(kRows * width), before = numbers(kRows * width), weight = numbers(width);
        test::StageBench bench = this->bench();
        bench.vectors = weight;
        const int32_t out = bench.add_floats(before);
        Stage stage{.operation = Operation::Norm, .items = kRows};
        stage.norm = {.in = bench.add_floats(x),
                      .rows_from = bench.add_words(std::vector<int32_t>{4, 3, 2, 1, 0}),
                      .weight = weighted ? 0 : kNone,
                      .depth = depth,
                      .epsilon = kEpsilon,
                      .scale = kScale,
                      .rows = kRows,
                      .out = {.floats = added ? kNone : out},
                      .added_to = added ? out : kNone};
        bench.run({stage});
        for (size_t row = 0; row < kRows; ++row) {
          const float* const from = &x[(kRows - 1 - row) * width];
          double squares = 0.0;
          for (size_t k = 0; k < width; ++k) squares += static_cast<double>(from[k]) * static_cast<double>(from[k]);
          const double factor =
              weighted ? static_cast<double>(kScale) / std::sqrt(squares / depth + static_cast<double>(kEpsilon)) : 1.0;
          for (size_t k = 0; k < width; ++k) {
            const double normed =
                static_cast<double>(from[k]) * factor * (weighted ? static_cast<double>(weight[k]) : 1.0);
            const double expected = normed + (added ? static_cast<double>(before[row * width + k]) : 0.0);
            ASSERT_NEAR(static_cast<double>(bench.activations[static_cast<size_t>(out) + row * width + k]), expected,
                        1e-5)
                << "row " << row << " k " << k << (weighted ? " weighted" : "") << (added ? " added" : "");
          }
        }
      }
    }
  }
}

// With a bias and without; the mean is far from 0.
TEST_P(Rows, MeanNormsHaveTheMeanTakenOut) {
  constexpr int32_t kRows = 3;
  constexpr float kEpsilon = 1e-3F, kScale = 0.75F;
  Rng rng(5);
  const auto numbers = [&](size_t count, double centre) {
    std::vector<float> made(count);
    for (float& number : made) number = static_cast<float>(centre + 4.0 * rng.uniform() - 2.0);
    return made;
  };
  for (const int32_t depth : {16, 24, 64, 90, 2880}) {
    for (const bool biased : {false, true}) {
      SCOPED_TRACE(depth);
      const auto width = static_cast<size_t>(depth);
      const std::vector<float> x = numbers(kRows * width, 5.0), weight = numbers(width, 1.0),
                               bias = numbers(width, 0.0);
      test::StageBench bench = this->bench(true);
      bench.vectors = weight;
      bench.vectors.insert(bench.vectors.end(), bias.begin(), bias.end());
      Stage stage{.operation = Operation::Norm, .items = kRows};
      stage.norm = {.in = bench.add_floats(x),
                    .rows_from = kNone,
                    .weight = 0,
                    .depth = depth,
                    .epsilon = kEpsilon,
                    .scale = kScale,
                    .rows = kRows,
                    .out = {.floats = bench.add_poison(kRows * width)},
                    .bias = biased ? depth : kNone};
      bench.run({stage});
      for (size_t row = 0; row < kRows; ++row) {
        const float* const from = &x[row * width];
        double mean = 0.0, squares = 0.0;
        for (size_t k = 0; k < width; ++k) mean += static_cast<double>(from[k]) / depth;
        for (size_t k = 0; k < width; ++k) squares += std::pow(static_cast<double>(from[k]) - mean, 2.0);
        const double factor = 1.0 / std::sqrt(squares / depth + static_cast<double>(kEpsilon));
        for (size_t k = 0; k < width; ++k) {
          const double normed = (static_cast<double>(from[k]) - mean) * factor * static_cast<double>(weight[k]);
          const double expected =
              static_cast<double>(kScale) * (normed + (biased ? static_cast<double>(bias[k]) : 0.0));
          ASSERT_NEAR(
              static_cast<double>(bench.activations[static_cast<size_t>(stage.norm.out.floats) + row * width + k]),
              expected, 1e-5)
              << "row " << row << " k " << k << (biased ? " biased" : "");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Launches, Rows, testing::Values(LaunchMode::Stages, LaunchMode::Groups),
                         [](const auto& test) { return test.param == LaunchMode::Groups ? "Groups" : "Stages"; });

}  // namespace
}  // namespace inflight
