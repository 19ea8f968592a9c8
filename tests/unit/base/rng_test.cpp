// SPDX-License-Identifier: Apache-2.0
// Goal: the generator is Philox4x32-10 itself, so that any other implementation gives the same draws.
// Method: the known answers published with the paper's reference code (Random123 kat_vectors), and moments of the
// draws.
#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace inflight {
namespace {

TEST(Philox, MatchesThePublishedKnownAnswers) {
  const std::array<uint32_t, 4> zero = philox({0, 0, 0, 0}, {0, 0});
  EXPECT_EQ(zero, (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(SamplingUniform, IsAFunctionOfSeedAndPositionInTheUnitInterval) {
  double sum = 0.0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = sampling_uniform(7, static_cast<uint32_t>(i));
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    sum += double{u};
  }
  // The mean of n uniforms has standard deviation 1/sqrt(12 n); 5 of them.
  EXPECT_NEAR(sum / kDraws, 0.5, 5.0 / std::sqrt(12.0 * kDraws));
  EXPECT_EQ(sampling_uniform(7, 3), sampling_uniform(7, 3));
  EXPECT_NE(sampling_uniform(7, 3), sampling_uniform(8, 3));
  EXPECT_NE(sampling_uniform(1ULL << 32, 3), sampling_uniform(0, 3));
}

// The hash's published test vectors, and streams that have nothing in common.
TEST(Rng, NamedStreamsAreApart) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "ba"}) seeds.insert(named_seed(seed, name));
    seeds.insert(seed);
  }
  EXPECT_EQ(seeds.size(), 6000U);
  Rng prompt(named_seed(1, "prompt")), output(named_seed(1, "output"));
  double product = 0.0;
  constexpr int kDraws = 10000;
  for (int i = 0; i < kDraws; ++i) product += (prompt.uniform() - 0.5) * (output.uniform() - 0.5);
  EXPECT_NEAR(product / kDraws, 0.0, 5.0 / 12.0 / std::sqrt(kDraws));  // five standard deviations
}

TEST(Rng, CoversItsRangeAndRepeats) {
  Rng a(1), b(1);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const int32_t x = a.between(-2, 3);
    ASSERT_GE(x, -2);
    ASSERT_LE(x, 3);
    low |= x == -2;
    high |= x == 3;
    ASSERT_EQ(x, b.between(-2, 3));
  }
  EXPECT_TRUE(low && high);
}

}  // namespace
}  // namespace inflight
