// SPDX-License-Identifier: Apache-2.0
// Goal: each option does to the logits what its source says. Method: small cases worked out by hand, and for DRY a
// comparison of every pair of places instead of the Z-algorithm.
#include "sample/logits_processor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/limits.h"
#include "base/rng.h"
#include "core/sampling_numbers.h"
#include "sample/allowed_tokens.h"
#include "support/bounded_run.h"

namespace inflight {
namespace {

constexpr float kBanned = -INFINITY;

// Allows the same tokens always.
class Fixed final : public TokenFilter {
 public:
  explicit Fixed(std::vector<uint32_t> words) : words_(std::move(words)) {}
  void allow(std::span<uint32_t> allowed) override { std::ranges::copy(words_, allowed.begin()); }
  void accept(TokenId) override {}
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Fixed>(*this); }

 private:
  std::vector<uint32_t> words_;
};

// filter: what it allows; empty: there is none.
std::vector<float> processed(const SamplingParams& sampling, std::vector<float> logits,
                             const std::vector<TokenId>& known = {}, int32_t prompt = 0,
                             const std::vector<TokenId>& ends = {}, const std::vector<uint32_t>& filter = {}) {
  TokenCounts counts(static_cast<size_t>(prompt), sampling.repetition_penalty != 1.0F);
  counts.advance(known);
  TokenHistory history{.known_tokens = known, .end_tokens = ends, .counts = &counts};
  std::vector<uint32_t> allowed((logits.size() + 31) / 32);
  if (!filter.empty() || !sampling.bad_words.empty()) {
    Fixed fixed(filter);
    const BatchEntry entry{.sampling = &sampling, .history = &history, .prompt_token_count = prompt};
    EXPECT_EQ(find_allowed(entry, filter.empty() ? nullptr : &fixed, allowed), 1U);
    history.allowed = allowed;
  }
  process_logits({.sampling = sampling, .history = history, .prompt_token_count = prompt}, logits);
  return logits;
}

using Values = std::vector<float>;

TEST(LogitsProcessor, DoesNothingByDefault) { EXPECT_EQ(processed({}, {1, -2, 3}, {0, 1, 2}, 1), (Values{1, -2, 3})); }

TEST(LogitsProcessor, PenalisesWhatWasThere) {
  // Token 0 is in the prompt, 1 twice in the output, 2 nowhere.
  const std::vector<TokenId> known = {0, 1, 1};
  EXPECT_EQ(processed({.repetition_penalty = 2.0F}, {4, -4, 4}, known, 1), (Values{2, -8, 4}));
  EXPECT_EQ(processed({.presence_penalty = 0.5F}, {4, 4, 4}, known, 1), (Values{4, 3.5F, 4}));
  EXPECT_EQ(processed({.frequency_penalty = 0.5F}, {4, 4, 4}, known, 1), (Values{4, 3, 4}));
}

TEST(LogitsProcessor, FiniteLogitsStayFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(processed({.repetition_penalty = 1e-38F}, {4, -4, 4, kBanned}, {0, 1, 3}, 1),
            (Values{kMost, -4 * 1e-38F, 4, kBanned}));
  EXPECT_EQ(processed({.repetition_penalty = 10.0F, .logit_bias = {{1, -kMost}}}, {0, 0, 4}, {1}, 1),
            (Values{0, -kMost, 4}));
}

TEST(LogitsProcessor, BiasesAndBans) {
  EXPECT_EQ(processed({.logit_bias = {{1, 2.5F}, {7, 1.0F}, {-1, 1.0F}}}, {0, 0, 0}), (Values{0, 2.5F, 0}));
  SamplingParams early{.max_tokens = 9, .stop_token_ids = {1}, .min_tokens = 2};
  EXPECT_EQ(processed(early, {0, 0, 0}, {5, 5}, 1, {2}), (Values{0, kBanned, kBanned}));
  EXPECT_EQ(processed(early, {0, 0, 0}, {5, 5, 5}, 1, {2}), (Values{0, 0, 0}));
  early.ignore_eos = true;
  EXPECT_EQ(processed(early, {0, 0, 0}, {5, 5}, 1, {2}), (Values{0, kBanned, 0}));
  // The run 4 5 2 is never completed, and 1 never begun; the prompt does not count.
  const SamplingParams words{.bad_words = {{4, 5, 2}, {1}}};
  EXPECT_EQ(processed(words, {0, 0, 0}, {4, 5}, 0), (Values{0, kBanned, kBanned}));
  EXPECT_EQ(processed(words, {0, 0, 0}, {4, 5}, 1), (Values{0, kBanned, 0}));
  EXPECT_EQ(processed({}, Values(34, 1.0F), {}, 0, {}, {2U, 2U})[33], 1.0F);
  EXPECT_EQ(processed({}, Values(34, 1.0F), {}, 0, {}, {2U, 2U})[32], kBanned);
  // Where a filter leaves only what is not wanted yet, it is obeyed.
  early.ignore_eos = false;
  EXPECT_EQ(processed(early, {0, 0, 0}, {5, 5}, 1, {2}, {0b110U}), (Values{kBanned, 0, 0}));
  EXPECT_EQ(processed(early, {0, 0, 0}, {5, 5}, 1, {2}, {0b101U}), (Values{0, kBanned, kBanned}));
}

TEST(LogitsProcessor, FindsRepetitionsAsComparingEveryPlaceDoes) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> tokens(rng.below(40));
    for (TokenId& token : tokens) token = rng.between(0, 2 + round % 3);
    const std::vector<TokenId> breakers = round % 2 == 0 ? std::vector<TokenId>{} : std::vector<TokenId>{1};
    std::map<TokenId, int32_t> expected, got;
    const auto n = static_cast<int32_t>(tokens.size());
    for (int32_t next = 1; next < n; ++next) {  // how many tokens before `next` equal those at the end
      if (std::ranges::find(breakers, tokens[static_cast<size_t>(next)]) != breakers.end()) continue;
      int32_t length = 0;
      while (next - 1 - length >= 0) {
        const TokenId token = tokens[static_cast<size_t>(n - 1 - length)];
        const bool breaks = std::ranges::find(breakers, token) != breakers.end();
        if (breaks || token != tokens[static_cast<size_t>(next - 1 - length)]) break;
        ++length;
      }
      int32_t& longest = expected[tokens[static_cast<size_t>(next)]];
      longest = std::max(longest, length);
    }
    for (const auto& [token, length] : repetitions(tokens, breakers)) got[token] = std::max(got[token], length);
    std::erase_if(expected, [](const auto& pair) { return pair.second == 0; });
    EXPECT_EQ(got, expected);
  }
}

// One token a million times, and as many breakers as there may be.
TEST(LogitsProcessor, FindsLongRepetitionsAmongManyBreakers) {
  const std::vector<TokenId> tokens(1'000'000, 3);
  std::vector<TokenId> breakers(limits::kDryBreakersMax);
  std::ranges::generate(breakers, [next = TokenId{4}]() mutable { return next++; });
  test::expect_bounded([&] {
    const auto found = repetitions(tokens, breakers);
    return found.size() == tokens.size() - 1 && found[0] == std::pair(TokenId{3}, int32_t{999'999});
  });
}

TEST(LogitsProcessor, DryGrowsWithTheRepetition) {
  // ... 1 2 3 | 0 1 2: token 3 would make a repetition of length 2 one longer.
  const std::vector<TokenId> known = {1, 2, 3, 0, 1, 2};
  SamplingParams dry{.dry_multiplier = 0.5F, .dry_base = 3.0F, .dry_allowed_length = 1};
  EXPECT_EQ(processed(dry, {0, 0, 0, 0}, known, 3), (Values{0, 0, 0, -0.5F * 3.0F}));
  dry.dry_allowed_length = 3;
  EXPECT_EQ(processed(dry, {0, 0, 0, 0}, known, 3), (Values{0, 0, 0, 0}));
  dry.dry_allowed_length = 1;
  dry.dry_penalty_last_n = 4;  // 3 0 1 2: nothing repeats
  EXPECT_EQ(processed(dry, {0, 0, 0, 0}, known, 3), (Values{0, 0, 0, 0}));
}

// p = .5 .25 .125 .125: entropy 1.75 bit; the tokens' distances from it are .75 .25 1.25 1.25 bit.
TEST(LogitsProcessor, TypicalKeepsWhatIsClosestToTheEntropy) {
  const Values logits = {std::log(0.5F), std::log(0.25F), std::log(0.125F), std::log(0.125F)};
  const auto kept = [&](float typical_p) {
    std::vector<int> ids;
    const Values after = processed({.typical_p = typical_p}, logits);
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i] != kBanned) ids.push_back(static_cast<int>(i));
    }
    return ids;
  };
  EXPECT_EQ(kept(0.2F), (std::vector<int>{1}));
  EXPECT_EQ(kept(0.7F), (std::vector<int>{0, 1}));
  EXPECT_EQ(kept(0.8F), (std::vector<int>{0, 1, 2}));
}

TEST(LogSoftmax, GivesProbabilitiesAndTheLikeliest) {
  const Values logits = {std::log(1.0F), std::log(4.0F), std::log(4.0F), std::log(1.0F), kBanned};
  const LogSoftmax softmax(logits);
  ASSERT_TRUE(softmax.valid());
  EXPECT_NEAR(softmax.of(1), std::log(0.4), 1e-6);
  EXPECT_EQ(softmax.of(4), kBanned);
  const auto top = softmax.top(3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_NEAR(top[2].logprob, std::log(0.1), 1e-6);
  EXPECT_TRUE(softmax.top(0).empty());
  EXPECT_EQ(softmax.top(20).size(), 5U);
  const Values nan = {1.0F, NAN}, none = {kBanned, kBanned};
  EXPECT_FALSE(LogSoftmax(nan).valid());
  Values half(size_t{3} * kStatisticsChunk, kBanned);  // sums are made chunk by chunk
  half[kStatisticsChunk] = half.back() = 2.0F;
  EXPECT_NEAR(LogSoftmax(half).of(static_cast<TokenId>(kStatisticsChunk)), std::log(0.5), 1e-6);
  EXPECT_FALSE(LogSoftmax(none).valid());
}

}  // namespace
}  // namespace inflight
