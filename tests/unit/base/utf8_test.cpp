// SPDX-License-Identifier: Apache-2.0
// Characters and ill-formed bytes against the Unicode standard's own examples (§3.9, tables 3-8 to 3-11).
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace inflight {
namespace {

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

TEST(Utf8, ReplacesMaximalSubpartsAsTheStandardShows) {
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), kBad + kBad + kBad + kBad + "A");
}

TEST(Utf8, WritesAndReadsEveryScalarValue) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    append_utf8(text, code_point);
    const Utf8Character character = first_utf8_character(text);
    ASSERT_EQ(character.status, Utf8Status::Valid) << static_cast<uint32_t>(code_point);
    ASSERT_EQ(character.code_point, code_point);
    ASSERT_EQ(character.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(first_utf8_character(std::string_view(text).substr(0, cut)).status, Utf8Status::Incomplete);
    }
  }
}

TEST(Utf8, CountsAndMeasures) {
  EXPECT_EQ(valid_utf8_length("aé字🙂"), 10U);
  EXPECT_EQ(count_utf8_characters("aé字🙂"), 4U);
  EXPECT_EQ(valid_utf8_length("ab\xFFz"), 2U);
  EXPECT_EQ(valid_utf8_length("ab\xE5\xAD"), 2U);
  EXPECT_EQ(count_utf8_characters("a\xFF\xE5\xADz"), 4U);
  EXPECT_EQ(valid_utf8_length(""), 0U);
}

}  // namespace
}  // namespace inflight
