// SPDX-License-Identifier: Apache-2.0
// Goal: behind guesses (checklist 124) the tokens that may come are those that could come had the guesses been drawn:
// by a filter, by bad words, by min_tokens; what a filter forces is the only one; nothing is found behind a guess that
// may not come, or where the filter gives up. Method: a small filter whose rule the test knows.
#include "sample/allowed_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace inflight {
namespace {

constexpr size_t kWidth = 2;  // words of a mask

// The next token is one or two more than the last; multiples of 10 bring 40 and 41 with them.
class Rising final : public TokenFilter {
 public:
  explicit Rising(TokenId last) : last_(last) {}
  void allow(std::span<uint32_t> allowed) override {
    if (last_ >= 60) throw std::runtime_error("too high");
    std::ranges::fill(allowed, 0U);
    for (const TokenId token : {last_ + 1, last_ + 2}) {
      allowed[static_cast<size_t>(token) / 32] |= 1U << static_cast<uint32_t>(token) % 32;
    }
  }
  void accept(TokenId token) override {
    EXPECT_TRUE(token == last_ + 1 || token == last_ + 2);
    last_ = token;
  }
  std::vector<TokenId> take_forced() override {
    if (last_ % 10 != 0) return {};
    last_ = 41;
    return {40, 41};
  }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Rising>(*this); }

 private:
  TokenId last_;
};

using Masks = std::vector<std::vector<TokenId>>;

// known: behind a prompt of one token.
Masks allowed_behind(TokenFilter* filter, const std::vector<TokenId>& known, const std::vector<TokenId>& guesses,
                     const SamplingParams& sampling = {}) {
  const std::vector<TokenId> ends = {63};
  std::vector<TokenId> all = {0};
  all.insert(all.end(), known.begin(), known.end());
  const TokenHistory history{.known_tokens = all, .end_tokens = ends};
  std::vector<TokenId> tokens = {all.back()};
  tokens.insert(tokens.end(), guesses.begin(), guesses.end());
  const BatchEntry entry{.draft_token_count = static_cast<int32_t>(guesses.size()),
                         .tokens = tokens,
                         .sampling = &sampling,
                         .history = &history,
                         .prompt_token_count = 1};
  std::vector<uint32_t> allowed((1 + guesses.size()) * kWidth, 0x5A5A5A5AU);
  Masks masks(find_allowed(entry, filter, allowed));
  for (size_t i = 0; i < masks.size(); ++i) {
    for (TokenId token = 0; token < 64; ++token) {
      const uint32_t word = allowed[i * kWidth + static_cast<size_t>(token) / 32];
      if ((word >> static_cast<uint32_t>(token) % 32 & 1U) != 0) masks[i].push_back(token);
    }
  }
  return masks;
}

TEST(AllowedTokens, ThoseBehindGuessesAreWhatTheFilterAllowsThere) {
  Rising filter(4);
  EXPECT_EQ(allowed_behind(&filter, {4}, {}), (Masks{{5, 6}}));
  EXPECT_EQ(allowed_behind(&filter, {4}, {6, 7}), (Masks{{5, 6}, {7, 8}, {8, 9}}));
  EXPECT_EQ(allowed_behind(&filter, {4}, {5}), (Masks{{5, 6}, {6, 7}}));  // the filter itself has not moved
}

TEST(AllowedTokens, NothingIsFoundBehindAGuessThatMayNotCome) {
  Rising filter(4);
  EXPECT_EQ(allowed_behind(&filter, {4}, {7, 8}), (Masks{{5, 6}}));
  EXPECT_EQ(allowed_behind(&filter, {4}, {6, 6, 7}), (Masks{{5, 6}, {7, 8}}));
}

TEST(AllowedTokens, WhatIsForcedIsTheOnlyOne) {
  Rising filter(8);
  EXPECT_EQ(allowed_behind(&filter, {8}, {10, 40, 41, 42}), (Masks{{9, 10}, {40}, {41}, {42, 43}, {43, 44}}));
  EXPECT_EQ(allowed_behind(&filter, {8}, {10, 11}), (Masks{{9, 10}, {40}}));
  EXPECT_EQ(allowed_behind(&filter, {8}, {10, 11}, {.logprobs = 1}), (Masks{{9, 10}, {11, 12}, {12, 13}}));
}

TEST(AllowedTokens, AFilterThatGivesUpBehindAGuessIsAskedAgainWhenItIsThere) {
  Rising filter(58);
  const SamplingParams told{.logprobs = 1};  // nothing is forced
  EXPECT_EQ(allowed_behind(&filter, {58}, {60, 61}, told), (Masks{{59, 60}}));
  Rising there(60);
  EXPECT_THROW(allowed_behind(&there, {60}, {61}, told), std::runtime_error);
}

TEST(AllowedTokens, WordsMayEndBehindGuesses) {
  Rising filter(4);
  const SamplingParams sampling{.min_tokens = 3, .bad_words = {{6, 7}, {9}}};
  EXPECT_EQ(allowed_behind(&filter, {4}, {6, 8}, sampling), (Masks{{5, 6}, {8}, {10}}));
  EXPECT_EQ(allowed_behind(&filter, {4}, {6, 7, 8}, sampling), (Masks{{5, 6}, {8}}));
  const SamplingParams all{.bad_words = {{6, 7}, {8}}};
  EXPECT_EQ(allowed_behind(&filter, {4}, {6, 7}, all), (Masks{{5, 6}, {7, 8}, {9}}));  // nothing else is left behind 6
  const Masks any = allowed_behind(nullptr, {4}, {6, 5, 6}, sampling);
  ASSERT_EQ(any.size(), 4U);
  const auto has = [&](size_t i, TokenId token) { return std::ranges::find(any[i], token) != any[i].end(); };
  EXPECT_TRUE(has(0, 7) && !has(1, 7) && has(2, 7) && !has(3, 7));      // behind 6
  EXPECT_TRUE(!has(0, 63) && !has(1, 63) && has(2, 63) && has(3, 63));  // the end, from the fourth token on
  for (size_t i = 0; i < 4; ++i) EXPECT_FALSE(has(i, 9)) << i;
}

}  // namespace
}  // namespace inflight
