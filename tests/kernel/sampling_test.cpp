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
#include "sample/logits_processor.h"
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
    .head_count = 1, .kv_head_count = 1, .head_size = 16, .rope_pair_count = 8, .weight_types = 0};

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

// A row's changes: biases, of which some ban and some name one token twice, penalties of random tokens, of which the
// last are the row's own, and tokens that may not come.
struct Changes {
  SamplingParams sampling;
  std::vector<TokenId> known;  // the last `own` of these not counted by the host
  int32_t prompt = 0, own = 0;
  std::vector<TokenId> ends;      // banned
  std::vector<uint32_t> allowed;  // TokenHistory's
};

Changes random_changes(Rng& rng, const SamplingParams& sampling, int32_t vocabulary) {
  Changes result{.sampling = sampling};
  SamplingParams& s = result.sampling;
  const auto token = [&] { return rng.between(0, vocabulary - 1); };
  for (int32_t i = rng.between(0, 5); i > 0; --i) s.logit_bias.emplace_back(token(), uniform(rng, -4, 4));
  if (rng.chance(0.3)) s.logit_bias.emplace_back(token(), std::numeric_limits<float>::max());
  for (int32_t i = rng.between(0, 3); i > 0; --i) result.ends.push_back(token());
  s.min_tokens = s.max_tokens = 1000;
  if (rng.chance(0.5)) {
    result.allowed.resize((static_cast<size_t>(vocabulary) + 31) / 32);
    // All tokens, some of 32 or all or none of them, 32 tokens or one of all as in most grammars, none.
    const int32_t kind = rng.between(0, 4);
    for (uint32_t& word : result.allowed) {
      word = kind == 0 ? ~0U : kind == 1 ? static_cast<uint32_t>(rng.next()) * (rng.chance(0.5) ? 1U : 0U) : 0U;
    }
    const int32_t one = token();
    uint32_t& word = result.allowed[static_cast<size_t>(one) / 32];
    if (kind == 2) word = ~0U;
    if (kind == 3) word = 1U << one % 32;
    result.ends.clear();
  }
  if (rng.chance(0.2)) return result;
  s.repetition_penalty = uniform(rng, 0.5, 2);
  s.presence_penalty = uniform(rng, -1, 1);
  s.frequency_penalty = uniform(rng, -0.5, 0.5);
  result.own = rng.chance(0.1) ? kOwnTokensMax : rng.between(0, 4);
  for (int32_t i = rng.between(1, 300) + result.own; i > 0; --i) {
    result.known.push_back(rng.chance(0.3) && !result.known.empty() ? result.known.front() : token());
  }
  result.prompt = rng.between(0, static_cast<int32_t>(result.known.size()) - result.own);
  return result;
}

// As step_upload.cpp lays them out.
std::vector<int32_t> words_of(const Changes& changes, int32_t own_token, int32_t mask) {
  const SamplingParams& s = changes.sampling;
  std::vector<std::pair<TokenId, float>> biases;
  for (const TokenId token : changes.ends) biases.emplace_back(token, -std::numeric_limits<float>::infinity());
  biases.insert(biases.end(), s.logit_bias.begin(), s.logit_bias.end());
  TokenCounts counts(static_cast<size_t>(changes.prompt), true);
  counts.advance(std::span(changes.known).first(changes.known.size() - static_cast<size_t>(changes.own)));
  std::vector<int32_t> words = {static_cast<int32_t>(biases.size()),
                                static_cast<int32_t>(counts.tokens().size()),
                                changes.own,
                                own_token,
                                std::bit_cast<int32_t>(1.0F / s.repetition_penalty),
                                std::bit_cast<int32_t>(s.repetition_penalty),
                                std::bit_cast<int32_t>(s.presence_penalty),
                                std::bit_cast<int32_t>(s.frequency_penalty),
                                -7,
                                -7,
                                -7,
                                static_cast<int32_t>(counts.tokens().size()) + changes.own,
                                mask};
  for (const auto& [token, bias] : biases) words.push_back(token);
  for (const auto& [token, bias] : biases) words.push_back(std::bit_cast<int32_t>(bias));
  words.insert(words.end(), counts.tokens().begin(), counts.tokens().end());
  words.resize(words.size() + static_cast<size_t>(changes.own));
  words.insert(words.end(), counts.counts().begin(), counts.counts().end());
  words.resize(words.size() + static_cast<size_t>(changes.own));
  return words;
}

// Every second row's logits are changed, every fourth one's token is given.
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
  std::vector<Changes> changes;
  for (size_t row = 0; row < samplings.size(); ++row) {
    const SamplingParams& s = samplings[row];
    changes.push_back(row % 2 == 1 ? random_changes(rng, s, vocabulary) : Changes{.sampling = s});
    const int32_t told = std::min(rng.between(0, 20), vocabulary);
    int32_t offset = kNone;
    if (row % 2 == 1) {
      const Changes& c = changes.back();
      const int32_t own = bench.add_words(std::span(c.known).last(static_cast<size_t>(c.own)));
      const auto bits = std::span(reinterpret_cast<const int32_t*>(c.allowed.data()), c.allowed.size());
      const int32_t mask = c.allowed.empty() ? kNone : bench.add_words(bits);
      offset = bench.add_words(words_of(c, own + c.own - 1, mask));
    }
    list.insert(list.end(),
                {0, static_cast<int32_t>(row), static_cast<int32_t>(s.seed), static_cast<int32_t>(s.seed >> 32),
                 std::bit_cast<int32_t>(inverse_temperature(s.temperature)), std::bit_cast<int32_t>(s.min_p),
                 std::bit_cast<int32_t>(s.top_p), s.top_k, offset, told,
                 bench.add_words(std::vector<int32_t>(2 * static_cast<size_t>(told))),
                 row % 4 == 2 ? rng.between(0, vocabulary - 1) : kNone});
  }
  Stage statistics{.operation = Operation::Statistics, .items = rows * chunks};
  statistics.statistics = {.logits = bench.add_floats(logits),
                           .out = bench.add_poison(samplings.size() * 4 * static_cast<size_t>(chunks)),
                           .vocabulary = vocabulary,
                           .chunks = chunks,
                           .list = kNone};
  Stage sample{.operation = Operation::Sample, .items = rows};
  const int32_t results = bench.add_words(std::vector<int32_t>(samplings.size() * kResultWords, -7));
  sample.sample = {.logits = statistics.statistics.logits,
                   .statistics = statistics.statistics.out,
                   .vocabulary = vocabulary,
                   .chunks = chunks,
                   .list = bench.add_words(list),
                   .results = results};
  Stage change = sample, again = statistics;
  change.operation = Operation::Change;
  again.statistics.list = sample.sample.list;
  bench.run({statistics, change, again, sample});
  for (size_t row = 0; row < samplings.size(); ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * width);
    std::vector<float> changed(begin, begin + static_cast<std::ptrdiff_t>(width));
    const Changes& c = changes[row];
    TokenCounts counts(static_cast<size_t>(c.prompt), true);
    counts.advance(c.known);
    const TokenHistory history{.known_tokens = c.known, .end_tokens = c.ends, .counts = &counts, .allowed = c.allowed};
    process_logits({.sampling = c.sampling, .history = history, .prompt_token_count = c.prompt}, changed);
    Draw expected = draw_token(changed, samplings[row], static_cast<int32_t>(row));
    const size_t at = static_cast<size_t>(results) + row * kResultWords;
    const size_t sample_at = static_cast<size_t>(sample.sample.list) + row * kSampleWords;
    if (const int32_t given = bench.words()[sample_at + 11]; given != kNone) expected.token = given;
    const auto top = LogSoftmax(std::span(logits).subspan(row * width, width)).top(bench.words()[sample_at + 9]);
    for (size_t i = 0; i < top.size(); ++i) {
      const size_t told = static_cast<size_t>(bench.words()[sample_at + 10]) + 2 * i;
      EXPECT_EQ(bench.words()[told], top[i].token) << "row " << row << ", likeliest " << i;
      EXPECT_EQ(std::bit_cast<float>(bench.words()[told + 1]), begin[top[i].token]);
    }
    // What is told is of the logits as they were, and so they are again, but for banned ones.
    if (expected.valid) {
      EXPECT_EQ(std::bit_cast<float>(bench.words()[at + 2]), begin[expected.token]) << "row " << row;
    }
    const float most = *std::max_element(begin, begin + vocabulary);
    EXPECT_EQ(std::bit_cast<float>(bench.words()[at + 3]), most);
    EXPECT_EQ(std::bit_cast<float>(bench.words()[at + 4]),
              exp_sum(std::span(logits).subspan(row * width, width), most));
    EXPECT_EQ(bench.words()[at + 1], int{expected.valid}) << "row " << row;
    EXPECT_EQ(bench.words()[at], expected.token)
        << "temperature " << samplings[row].temperature << " top_k " << samplings[row].top_k << " top_p "
        << samplings[row].top_p << " min_p " << samplings[row].min_p;
  }
  const auto after = std::span(bench.activations).subspan(static_cast<size_t>(sample.sample.logits), count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<uint32_t>& allowed = changes[i / width].allowed;
    const size_t token = i % width;
    if (!allowed.empty() && (allowed[token / 32] >> token % 32 & 1U) == 0) continue;
    EXPECT_EQ(std::bit_cast<int32_t>(after[i]), std::bit_cast<int32_t>(logits[i])) << i;
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
