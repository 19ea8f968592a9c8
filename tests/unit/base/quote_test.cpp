// SPDX-License-Identifier: Apache-2.0
// Goal: whatever a file calls its things, a message about them is one line of valid UTF-8.
#include "base/quote.h"

#include <gtest/gtest.h>

namespace inflight {
namespace {

TEST(Quote, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(quote("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(quote("héllo 日本 🙂"), "'héllo 日本 🙂'");
  EXPECT_EQ(escape("a\nb\tc\rd\\e", 80), R"(a\nb\tc\rd\\e)");
  EXPECT_EQ(escape(std::string("\0\x1B[31m\x7F", 7), 80), R"(\x00\x1B[31m\x7F)");
}

// Table 3-7 of the Unicode standard: what is well formed, byte by byte.
TEST(Quote, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(escape("\xFF\xC0\xAF", 80), R"(\xFF\xC0\xAF)");
  EXPECT_EQ(escape("\xE0\x9F\xBF", 80), R"(\xE0\x9F\xBF)");          // overlong
  EXPECT_EQ(escape("\xED\xA0\x80", 80), R"(\xED\xA0\x80)");          // surrogate
  EXPECT_EQ(escape("\xF4\x90\x80\x80", 80), R"(\xF4\x90\x80\x80)");  // above U+10FFFF
  EXPECT_EQ(escape("\xF0\x9F\x99", 80), R"(\xF0\x9F\x99)");          // cut
  EXPECT_EQ(escape("\xF4\x8F\xBF\xBF", 80), "\xF4\x8F\xBF\xBF");
}

TEST(Quote, MessagesKeepWhatWasQuotedBefore) {
  EXPECT_EQ(one_line("'a\\nb' h\xC3\xA9\r\n\xFF"), "'a\\nb' h\xC3\xA9\\r\\n\\xFF");
  EXPECT_EQ(one_line(std::string(500, 'x')), std::string(500, 'x'));
  EXPECT_EQ(one_line(""), "");
}

TEST(Quote, CutsBetweenCharacters) {
  EXPECT_EQ(escape("abcdef", 6), "abcdef");
  EXPECT_EQ(escape("abcdef", 3), "abc...");
  EXPECT_EQ(escape("日本", 4), "日...");
  EXPECT_EQ(escape("a\\\n", 3), "a\\\\\\n");
  EXPECT_EQ(escape("a\\\n", 1), "a...");
  EXPECT_EQ(quote(std::string(100, 'x')).size(), 80U + 3 + 2);
}

}  // namespace
}  // namespace inflight
