// SPDX-License-Identifier: Apache-2.0
// Expected values are Python's.
#include "text/unicode.h"

#include <gtest/gtest.h>

namespace inflight {
namespace {

TEST(Unicode, StripsWhiteSpaceAsPythonDoes) {
  EXPECT_EQ(strip_left(" \t\u00a0\u3000\x1f x "), "x ");
  EXPECT_EQ(strip_right(" x\u2028\u0085\n"), " x");
  EXPECT_EQ(strip_right("x\u200b"), "x\u200b");  // zero-width space is no space
  EXPECT_EQ(strip_left("   "), "");
  EXPECT_EQ(strip_left("ééx", "é"), "x");
  EXPECT_EQ(strip_right("x字é", "é字"), "x");
  EXPECT_EQ(strip_right("x\xA9", "\xA9"), "x");
}

TEST(Unicode, MapsCase) {
  EXPECT_EQ(to_upper("aéжx1"), "AÉЖX1");
  EXPECT_EQ(to_lower("AÉЖX\xFF"), "aéжx\xFF");
  EXPECT_TRUE(is_upper(U'É'));
  EXPECT_TRUE(is_lower(U'é'));
}

TEST(Unicode, KnowsKinds) {
  EXPECT_TRUE(is_letter(U'字'));
  EXPECT_FALSE(is_letter(U'1'));
  EXPECT_TRUE(is_decimal(U'٣'));
  EXPECT_FALSE(is_decimal(U'½'));
  EXPECT_FALSE(is_white_space(0x180E));
}

}  // namespace
}  // namespace inflight
