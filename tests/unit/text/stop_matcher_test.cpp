// SPDX-License-Identifier: Apache-2.0
// Goal: a stop string is found however it is split, and no part of it is ever shown (checklist 100).
// Method: random texts over few letters, split at random, against a search in the whole text.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"

namespace inflight::test {
namespace {

TEST(StopMatcher, HoldBackOnlyWhatMayBecomeOne) {
  StopMatcher stops({"</s>", "END"}, false);
  EXPECT_EQ(stops.push("a <"), "a ");
  EXPECT_EQ(stops.push("/"), "");
  EXPECT_EQ(stops.push("b E"), "</b ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("D and more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "END");
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.flush(), "");
}

TEST(StopMatcher, ACopyHasItsOwnStrings) {
  StopMatcher stops({"END"}, false);
  stops.push("END");
  const StopMatcher copy = stops;
  EXPECT_EQ(copy.matched(), "END");
  EXPECT_NE(&copy.matched(), &stops.matched());
}

TEST(StopMatcher, GiveTheRestWhenTheAnswerEndsByItself) {
  StopMatcher stops({"stop"}, false);
  EXPECT_EQ(stops.push("sto"), "");
  EXPECT_EQ(stops.flush(), "sto");
  StopMatcher none({}, false);
  EXPECT_EQ(none.push("anything"), "anything");
}

TEST(StopMatcher, AgreeWithASearchInTheWholeText) {
  Rng rng(4);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto letters = [&rng](int32_t count) {
      std::string text;
      for (int32_t i = 0; i < count; ++i) text += static_cast<char>('a' + rng.between(0, 1));
      return text;
    };
    std::vector<std::string> stops;
    for (int32_t i = rng.between(0, 3); i > 0; --i) stops.push_back(letters(rng.between(1, 6)));
    const std::string text = letters(rng.between(0, 20));
    const bool include = rng.chance(0.5);
    const auto free = static_cast<size_t>(rng.between(0, 10));  // none may end in so many letters
    // The shortest beginning of the text that ends in a stop string.
    std::string expected = text;
    bool stopped = false;
    for (size_t end = free + 1; end <= text.size() && !stopped; ++end) {
      size_t longest = 0;
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      }
      stopped = longest > 0;
      if (stopped) expected = text.substr(0, include ? end : end - longest);
    }
    StopMatcher matcher(stops, include);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      auto length = static_cast<size_t>(rng.between(1, 3));
      if (at < free) length = std::min(length, free - at);
      shown += matcher.push(std::string_view(text).substr(at, length), at >= free);
      at += length;
      EXPECT_TRUE(expected.starts_with(shown)) << text << " " << shown;
    }
    shown += matcher.flush();
    EXPECT_EQ(shown, expected) << text;
    EXPECT_EQ(matcher.stopped(), stopped);
    found += stopped;
  }
  EXPECT_GT(found, 500);
}

TEST(StopMatcher, RefuseWhatCannotBeOne) {
  EXPECT_THROW(StopMatcher({""}, false), Error);
  EXPECT_THROW(StopMatcher(std::vector<std::string>(17, "x"), false), Error);
  EXPECT_THROW(StopMatcher({std::string(2000, 'x')}, false), Error);
}

}  // namespace
}  // namespace inflight::test
