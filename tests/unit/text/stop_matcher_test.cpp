// SPDX-License-Identifier: Apache-2.0
// Goal: stop strings are found wherever the pieces are cut, and nothing of one is ever let out. Method: random texts
// over a small alphabet in random pieces, against a search in the whole text.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace inflight::test {
namespace {

// The text before the stop string that ends first, and whether there is one.
std::pair<std::string, bool> search(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, FindsWhatASearchInTheWholeTextFinds) {
  Rng rng(7);
  const auto word = [&rng](int32_t length) {
    std::string text;
    for (int32_t i = 0; i < length; ++i) text += static_cast<char>('a' + rng.between(0, 2));
    return text;
  };
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(static_cast<size_t>(rng.between(1, 3)));
    for (std::string& stop : stops) stop = word(rng.between(1, 6));
    const std::string text = word(rng.between(0, 30));
    const auto [expected, stopped] = search(text, stops);
    StopMatcher matcher(stops);
    std::string out;
    bool stop = false;
    for (size_t at = 0; at < text.size() && !stop;) {
      const auto piece = static_cast<size_t>(rng.between(1, 4));
      stop = matcher.push(std::string_view(text).substr(at, piece), out);
      EXPECT_TRUE(expected.starts_with(out)) << out;
      at += piece;
    }
    if (!stop) matcher.flush(out);
    EXPECT_EQ(out, expected);
    EXPECT_EQ(stop, stopped);
    found += stopped ? 1 : 0;
  }
  EXPECT_GT(found, 1000);
}

TEST(StopMatcher, LetsOutWhatIsCertainAtOnce) {
  StopMatcher matcher({"END", "\n\n"});
  std::string out;
  EXPECT_FALSE(matcher.push("the EN", out));
  EXPECT_EQ(out, "the ");
  EXPECT_FALSE(matcher.push("emy\n", out));
  EXPECT_EQ(out, "the ENemy");
  EXPECT_TRUE(matcher.push("\nmore", out));
  EXPECT_EQ(out, "the ENemy");
}

}  // namespace
}  // namespace inflight::test
