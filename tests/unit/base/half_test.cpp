// SPDX-License-Identifier: Apache-2.0
// Goal: F16 and BF16 bit patterns mean what IEEE 754 says, and floats round to the nearest of them,
// ties to even.
// Method: all 65,536 patterns against the definition in doubles; every gap between two neighbours
// probed at its middle and one float to either side of it.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace inflight {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// sign, exponent (with its bias), fraction: the value of a binary interchange format (IEEE
// 754-2019, 3.4).
double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int exponent_max = (1 << exponent_bits) - 1;
  const int bias = exponent_max / 2;
  const int exponent = static_cast<int>(bits >> fraction_bits) & exponent_max;
  const double fraction = (bits & ((1U << fraction_bits) - 1)) / std::ldexp(1.0, fraction_bits);
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_max) {
    return fraction != 0.0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0 + fraction, exponent - bias);
}

struct Format {
  int exponent_bits;
  int fraction_bits;
  float (*to_float)(uint16_t);
  uint16_t (*from_float)(float);
};

class SixteenBits : public testing::TestWithParam<Format> {};

TEST_P(SixteenBits, EveryPatternHasItsValueAndComesBack) {
  const auto [exponent_bits, fraction_bits, to_float, from_float] = GetParam();
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = value_of(bits, exponent_bits, fraction_bits);
    const float value = to_float(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float(value)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      ASSERT_EQ(from_float(value), bits);
    }
  }
}

TEST_P(SixteenBits, RoundsToTheNearestTiesToEven) {
  const auto [exponent_bits, fraction_bits, to_float, from_float] = GetParam();
  const uint32_t infinity = ((1U << exponent_bits) - 1) << fraction_bits;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    // Above the largest finite number the next would be, so IEEE 754 rounds to infinity from half
    // way to it.
    const double low = value_of(bits, exponent_bits, fraction_bits);
    const double high = bits + 1 == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1))
                                             : value_of(bits + 1, exponent_bits, fraction_bits);
    const auto middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<uint16_t>(bits + bits % 2);
    ASSERT_EQ(from_float(middle), even) << bits;
    ASSERT_EQ(from_float(-middle), even | 0x8000) << bits;
    ASSERT_EQ(from_float(std::nextafterf(middle, 0.0F)), bits);
    ASSERT_EQ(from_float(std::nextafterf(middle, kInfinity)), bits + 1);
  }
  EXPECT_EQ(from_float(kInfinity), infinity);
  EXPECT_EQ(from_float(-kInfinity), infinity | 0x8000);
  EXPECT_EQ(from_float(std::numeric_limits<float>::max()), infinity);
}

INSTANTIATE_TEST_SUITE_P(F16, SixteenBits, testing::Values(Format{5, 10, float_of_half, half_of_float}));
INSTANTIATE_TEST_SUITE_P(BF16, SixteenBits, testing::Values(Format{8, 7, float_of_bfloat, bfloat_of_float}));

}  // namespace
}  // namespace inflight
