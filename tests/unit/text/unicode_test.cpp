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

TEST(Unicode, ComposesAsPythonDoes) {  // unicodedata.normalize("NFC", ...)
  EXPECT_EQ(to_nfc("plain"), "plain");
  EXPECT_EQ(to_nfc("e\u0301 \u00e9"), "\u00e9 \u00e9");
  EXPECT_EQ(to_nfc("a\u0302\u0301"), "\u1ea5");
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");                // ordered by class
  EXPECT_EQ(to_nfc("s\u0307\u0323"), "\u1e69");                       // ordered, then composed
  EXPECT_EQ(to_nfc("\u0301\u0301e"), "\u0301\u0301e");                // nothing to compose with
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");                  // Hangul
  EXPECT_EQ(to_nfc("\u212b \u2126 \ufb01"), "\u00c5 \u03a9 \ufb01");  // singletons, but no compatibility forms
  EXPECT_EQ(to_nfc("\u0958 \u2adc"), "\u0915\u093c \u2add\u0338");    // never composed
  EXPECT_EQ(to_nfc("\xff"
                   "e\u0301\xe2\x82"),
            "\xff\u00e9\xe2\x82");
}

TEST(Unicode, ComposesLongRunsOfMarksInTime) {
  std::string marks, sorted;
  for (int i = 0; i < 500000; ++i) marks += i % 2 == 0 ? "\u0307" : "\u0323";
  for (int i = 0; i < 500000; ++i) sorted += i < 250000 ? "\u0323" : "\u0307";
  EXPECT_EQ(to_nfc("q" + marks), "q" + sorted);
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
