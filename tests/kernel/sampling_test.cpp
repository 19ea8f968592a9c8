// SPDX-License-Identifier: Apache-2.0
// The sampling kernels against the host sampler, whose arithmetic is the definition's (its own test shows that): the
// same token for logits that are flat, peaked, equal, nearly equal or not there, and every kind of edge; with the bins
// that CPUs have and those of GPUs.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>

#include "base/math.h"
#include "base/rng.h"
#include "core/sampling_numbers.h"
#include "sample/sampler.h"
#include "support/pretended_device.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

struct Logits {
  const char* name;
  int32_t vocabulary;
  std::function<float(Rng& rng)> next;
};

float uniform(Rng& rng, double low, double high) { return static_cast<float>(low + (high - low) * rng.uniform()); }

constexpr KernelShape kShape = {
    .layer_count = 1, .head_count = 1, .kv_head_count = 1, .head_size = 16, .rope_pair_count = 8};

class Sampling : public testing::TestWithParam<Logits> {};

std::vector<SamplingParams> every_edge(int32_t vocabulary) {
  std::vector<SamplingParams> all;
  for (const float temperature : {0.0F, 1e-40F, 2e-30F, 0.3F, 1.0F, 50.0F}) {
    for (const int32_t top_k : {0, 1, 40, vocabulary - 1}) {
      for (const float top_p : {1.0F, 0.95F, 0.3F, 1e-7F}) {
        for (const float min_p : {0.0F, 0.2F}) {
          all.push_back({.temperature = temperature,
                         .top_k = top_k,
                         .top_p = top_p,
                         .min_p = min_p,
                         .seed = 0x9E3779B97F4A7C15U * (all.size() + 1)});
        }
      }
    }
  }
  return all;
}

void expect_host_tokens(Device& device, const Logits& kind, LaunchMode mode = LaunchMode::Stages) {
  const int32_t vocabulary = kind.vocabulary, chunks = div_ceil(vocabulary, kStatisticsChunk);
  const std::vector<SamplingParams> samplings = every_edge(vocabulary);
  const auto rows = static_cast<int32_t>(samplings.size());
  const auto width = static_cast<size_t>(vocabulary);
  const size_t count = samplings.size() * width;
  test::StageBench bench(device, kShape, count + samplings.size() * 4 * 8, 64, mode);
  Rng rng(11);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = kind.next(rng);
  std::vector<int32_t> list;
  for (size_t row = 0; row < samplings.size(); ++row) {
    const SamplingParams& s = samplings[row];
    list.insert(list.end(),
                {0, static_cast<int32_t>(row), static_cast<int32_t>(s.seed), static_cast<int32_t>(s.seed >> 32),
                 std::bit_cast<int32_t>(inverse_temperature(s.temperature)), std::bit_cast<int32_t>(s.min_p),
                 std::bit_cast<int32_t>(s.top_p), s.top_k});
  }
  Stage statistics{.operation = Operation::Statistics, .items = rows * chunks};
  statistics.statistics = {.logits = bench.add_floats(logits),
                           .out = bench.add_poison(samplings.size() * 4 * static_cast<size_t>(chunks)),
                           .vocabulary = vocabulary,
                           .chunks = chunks};
  Stage sample{.operation = Operation::Sample, .items = rows};
  const int32_t results = bench.add_words(std::vector<int32_t>(samplings.size() * kResultWords, -7));
  sample.sample = {.logits = statistics.statistics.logits,
                   .statistics = statistics.statistics.out,
                   .vocabulary = vocabulary,
                   .chunks = chunks,
                   .list = bench.add_words(list),
                   .results = results};
  bench.run({statistics, sample});
  for (size_t row = 0; row < samplings.size(); ++row) {
    const Draw expected =
        draw_token(std::span(logits).subspan(row * width, width), samplings[row], static_cast<int32_t>(row));
    const size_t at = static_cast<size_t>(results) + row * kResultWords;
    EXPECT_EQ(bench.words()[at + 1], int{expected.valid}) << "row " << row;
    EXPECT_EQ(bench.words()[at], expected.token)
        << "temperature " << samplings[row].temperature << " top_k " << samplings[row].top_k << " top_p "
        << samplings[row].top_p << " min_p " << samplings[row].min_p;
  }
}

TEST_P(Sampling, DrawsTheTokenOfTheHostSampler) {
  Device device = Device::open({});
  expect_host_tokens(device, GetParam());
}

TEST_P(Sampling, DrawsItInSmallItems) {
  Device device = test::open_as_gpu();
  expect_host_tokens(device, GetParam());
}

TEST_P(Sampling, DrawsItByWorkGroups) {
  Device device = Device::open({});
  expect_host_tokens(device, GetParam(), LaunchMode::Groups);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(
    Distributions, Sampling,
    testing::Values(
        Logits{"Flat", 9001, [](Rng& rng) { return uniform(rng, -1.0, 1.0); }},
        Logits{"Peaked", 4097, [](Rng& rng) { return rng.chance(0.001) ? uniform(rng, 20, 30) : uniform(rng, -9, 2); }},
        Logits{"Equal", 1000, [](Rng&) { return 0.5F; }},
        Logits{"ManyTies", 5000, [](Rng& rng) { return 0.25F * static_cast<float>(rng.between(-20, 20)); }},
        Logits{"NeighbouringFloats", 4500,
               [](Rng& rng) { return std::bit_cast<float>(std::bit_cast<int32_t>(3.0F) + rng.between(0, 3000)); }},
        Logits{"AroundZero", 777, [](Rng& rng) { return uniform(rng, -1e-30, 1e-30); }},
        Logits{"FewAllowed", 8192, [](Rng& rng) { return rng.chance(0.002) ? uniform(rng, -3, 3) : -kInfinity; }},
        Logits{"FarApart", 300, [](Rng& rng) { return uniform(rng, -3e4, 3e4); }},
        Logits{"Three", 3, [](Rng& rng) { return uniform(rng, -1, 1); }}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace inflight
