// SPDX-License-Identifier: Apache-2.0
// Goal: automata accept what their definitions say. Truth: every text up to some length, judged by std::regex, by
// counting, or by C++'s own arithmetic.
#include "text/grammar_dfa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "base/limits.h"
#include "support/expect_error.h"
#include "text/grammar_json_string.h"
#include "text/grammar_numbers.h"

namespace inflight::grammar {
namespace {

// All texts over `letters` of up to `length` letters.
std::vector<std::string> all_texts(const std::string& letters, size_t length) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0, end = 1; length > 0; --length, begin = end, end = texts.size()) {
    for (size_t i = begin; i < end; ++i) {
      for (const char letter : letters) texts.push_back(texts[i] + letter);
    }
  }
  return texts;
}

TEST(GrammarDfa, IsWhatTheExpressionsSay) {
  const std::vector<std::string> expressions{"", "^a", "b$", "^(ab|a)*b?$", "a[^b]", "^[ab]{2,4}$|c", "^$", "(a|bc)+a"};
  const auto texts = all_texts("abc", 6);
  Budget budget;
  for (const std::string& first : expressions) {
    for (const std::string& second : expressions) {
      const Dfa one = pattern_texts(first, budget);
      const Dfa other = pattern_texts(second, budget);
      const Dfa both = intersection(one, other, budget);
      const Dfa rest = difference(one, other, budget);
      const Dfa sized = of_length(one, 2, 4, budget);
      const Dfa open = of_length(one, 3, std::nullopt, budget);
      const std::regex mine(first);
      const std::regex theirs(second);
      bool any = false;
      for (const std::string& text : texts) {
        const bool in_one = std::regex_search(text, mine);
        const bool in_other = std::regex_search(text, theirs);
        any = any || (in_one && !in_other);
        ASSERT_EQ(one.accepts(text), in_one) << first << ": " << text;
        ASSERT_EQ(both.accepts(text), in_one && in_other) << first << ", " << second << ": " << text;
        ASSERT_EQ(rest.accepts(text), in_one && !in_other) << first << ", " << second << ": " << text;
        ASSERT_EQ(sized.accepts(text), in_one && text.size() >= 2 && text.size() <= 4) << first << ": " << text;
        ASSERT_EQ(open.accepts(text), in_one && text.size() >= 3) << first << ": " << text;
      }
      ASSERT_EQ(rest.is_empty(), !any) << first << ", " << second;
    }
  }
}

TEST(GrammarDfa, LengthsAreOfCharacters) {
  Budget budget;
  const Dfa three = of_length(pattern_texts("", budget), 3, 3, budget);
  EXPECT_TRUE(three.accepts("é字🙂"));
  EXPECT_TRUE(three.accepts("a\n\""));
  EXPECT_FALSE(three.accepts("é字"));
  EXPECT_FALSE(three.accepts("é字🙂a"));
  EXPECT_FALSE(three.accepts("ab\xC3"));  // no UTF-8
}

TEST(GrammarDfa, LongTextsAreLeftOutWhereThatTakesTooMuch) {
  Budget budget;
  const Dfa uri = pattern_texts(format_pattern("uri"), budget);
  const Dfa sized = of_length(uri, 1, 2083, budget);  // Pydantic's HttpUrl
  EXPECT_LE(sized.states.size(), limits::kGrammarDfaStatesMax);
  const std::string url = "https://example.org/";
  EXPECT_TRUE(sized.accepts(url + std::string(200, 'a')));
  EXPECT_FALSE(sized.accepts(url + std::string(2083, 'a')));
  const Dfa digits = pattern_texts("^[0-9]+$", budget);
  EXPECT_TRUE(of_length(digits, 4, 3000, budget).accepts(std::string(3000, '7')));
  EXPECT_FALSE(of_length(digits, 4, 3000, budget).accepts(std::string(3001, '7')));
  EXPECT_TRUE(of_length(digits, 2, 1'000'000, budget).accepts("123"));  // no count needs to go so far
  const std::string too_large = "an automaton of more than 10000 states is not supported";
  EXPECT_EQ(test::error_of(ErrorCode::Unsupported, [&] { (void)of_length(uri, 2000, 2083, budget); }), too_large);
  EXPECT_EQ(test::error_of(ErrorCode::Unsupported, [&] { (void)pattern_texts("a[ab]{16}$", budget); }), too_large);
  const Dfa long_end = pattern_texts("^(a{1,200}b)*c{60}$", budget);  // no text is as short as it would have to be
  EXPECT_EQ(test::error_of(ErrorCode::Unsupported, [&] { (void)of_length(long_end, 0, 1000, budget); }), too_large);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "texts of at least 10001 characters, allowed: 10000",
                        [&] { (void)of_length(digits, 10'001, std::nullopt, budget); });
}

TEST(GrammarDfa, PathsShareTheirBeginnings) {
  Dfa dfa;
  const int32_t end = dfa.add_state(true);
  for (const char* const text : {"\\n", "\\u0001", "\\u0011", "x"}) dfa.add_path(0, text, end);
  EXPECT_EQ(dfa.states.size(), 2U + 1 + 3 + 2);
  for (const char* const text : {"\\n", "\\u0001", "\\u0011", "x"}) EXPECT_TRUE(dfa.accepts(text));
  for (const char* const text : {"", "\\", "\\u00", "\\u0012", "n", "xx"}) EXPECT_FALSE(dfa.accepts(text));
}

TEST(GrammarDfa, Multiples) {
  for (const char* const step : {"1", "2", "7", "30", "0.5", "0.01", "1.25", "0.3", "12.5", "1000"}) {
    const DecimalBound bound = decimal_bound(step, false);
    const Dfa whole = multiples_of(bound, true);
    const Dfa all = multiples_of(bound, false);
    const int64_t step_cents = std::llround(std::stod(step) * 100);
    for (int64_t cents = -40'000; cents <= 40'000; cents += cents % 700 == 0 ? 1 : 3) {
      const int64_t magnitude = std::abs(cents);
      const std::string sign = cents < 0 ? "-" : "";
      const bool is_multiple = cents % step_cents == 0;
      const std::string units = sign + std::to_string(magnitude / 100);
      // Only as many digits behind the point as the step has are written.
      const std::string fraction = fmt::format("{:02}", magnitude % 100).substr(0, bound.fraction.size());
      const bool is_spelt =
          magnitude % 100 == 0 || (fraction.size() == 1 && magnitude % 10 == 0) || fraction.size() == 2;
      if (is_spelt && !fraction.empty()) {
        ASSERT_EQ(all.accepts(units + "." + fraction), is_multiple) << step << ": " << units << "." << fraction;
      }
      if (magnitude % 100 == 0) {
        ASSERT_EQ(all.accepts(units), is_multiple) << step << ": " << units;
        ASSERT_EQ(whole.accepts(units), is_multiple) << step << ": " << units;
        ASSERT_FALSE(whole.accepts(units + ".0"));
      }
    }
    for (const char* const text : {"", "-", "007", "00", ".5", "5.", "+1", "1e3", "1.", "0.", "-0."}) {
      EXPECT_FALSE(all.accepts(text)) << step << ": " << text;
      EXPECT_FALSE(whole.accepts(text)) << step << ": " << text;
    }
  }
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "keyword 'multipleOf' is not supported with so many digits",
                        [] { (void)multiples_of(decimal_bound("123456", false), true); });
}

}  // namespace
}  // namespace inflight::grammar
