// SPDX-License-Identifier: Apache-2.0
// Goal: formats allow what their RFCs say, by lists of texts written by hand; every format that docs/SERVER.md names is
// kept. tests/python_text/schema_test.py has Python's own checkers for some.
#include "text/grammar_json_string.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace inflight::grammar {
namespace {

struct Case {
  const char* format;
  std::vector<std::string> valid, invalid;
};

std::string times(size_t count, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(GrammarJsonString, Formats) {
  const std::vector<Case> cases{
      {"hostname",
       {"localhost", "example.org", "a-b.c1.EXAMPLE.com", "ec2-203-0-113-25.compute-1.amazonaws.com", "1.2.3.4",
        "a.b.c.d.e.f.g.h", std::string(31, 'a') + ".de"},
       {"", ".", "a.", ".a", "-a", "a-", "a_b", "a..b", "a b", "ü.de", std::string(64, 'a'), times(130, "a.") + "a"}},
      {"ipv6",
       {"::", "::1", "1::", "2001:db8::ff00:42:8329", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1"},
       {"", "1:2", "1::2::3", ":1", "1:", "10000::", "fe80::1%eth0", "1:2:3:4:5:6:7:8:9", "::ffff:1.2.3"}},
      {"duration",
       {"P1Y", "P1Y2M3DT4H5M6S", "P4W", "PT36H", "PT1M", "P1DT12H", "P1M", "PT0S"},
       {"", "P", "PT", "P1", "1D", "P1YT", "P1S", "PT1D", "P1W2D", "P1D2H", "PT1S2M", "P-1D", "p1d", "PT1H6S"}},
      {"uri",
       {"http://a.b", "https://user:pw@example.org:8080/a/b%20c?q=1&r=/x?#frag", "urn:isbn:0451450523",
        "mailto:a@b.org", "ftp://1.2.3.4/x", "file:/etc/passwd", "postgres://u@localhost/db", "x:a"},
       {"", "a", "http:", "//a.b/c", "/a/b", "http://", "http://a b", "http://a/%2", "1http://a", "http://a:123456",
        "http://ü.de", "http://a/\\", "http://a/<>"}},
      {"time", {"12:30:00Z", "00:00:00.5+01:00"}, {"24:00:00Z", "12:30", "12:30:00"}},
      {"date-time", {"2024-02-28T12:30:00Z"}, {"2024-02-28", "2024-02-28 12:30:00Z", "2024-02-30T12:30:00Z"}},
      {"date", {"2024-12-31"}, {"2024-13-01"}},
      {"email", {"a.b+c@d-e.org"}, {"a@b", "a b@c.de"}},
      {"ipv4", {"255.0.10.1"}, {"256.0.0.1", "1.2.3"}},
      {"uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"}},
  };
  Budget budget;
  for (const Case& each : cases) {
    ASSERT_FALSE(format_pattern(each.format).empty()) << each.format;
    const Dfa texts = pattern_texts(format_pattern(each.format), budget);
    for (const std::string& text : each.valid) EXPECT_TRUE(texts.accepts(text)) << each.format << ": " << text;
    for (const std::string& text : each.invalid) EXPECT_FALSE(texts.accepts(text)) << each.format << ": " << text;
  }
  EXPECT_EQ(format_pattern("password"), "");
}

TEST(GrammarJsonString, HostnamesAreNoLongerThanTheyMayBe) {
  Budget budget;
  const Dfa names = pattern_texts(format_pattern("hostname"), budget);
  size_t longest = 0;
  std::set<int32_t> reached{0};
  for (size_t length = 0; !reached.empty() && length < 1000; ++length) {
    std::set<int32_t> next;
    for (const int32_t at : reached) {
      const Dfa::State& state = names.states[static_cast<size_t>(at)];
      if (state.accepts) longest = length;
      for (const Dfa::Arc& arc : state.arcs) next.insert(arc.to);
    }
    reached = std::move(next);
  }
  EXPECT_GT(longest, 230U);
  EXPECT_LE(longest, 253U);
}

TEST(GrammarJsonString, AllKeywordsHoldAtOnce) {
  Budget budget;
  const Json root = true;
  const auto texts_of = [&](const char* schema) { return string_texts(Json::parse(schema), "#", {root, budget}); };
  const Dfa dates = texts_of(R"({"format": "date", "pattern": "^2024", "maxLength": 10})");
  EXPECT_TRUE(dates.accepts("2024-01-01"));
  EXPECT_FALSE(dates.accepts("2023-01-01"));
  EXPECT_TRUE(texts_of(R"({"format": "date", "maxLength": 9})").is_empty());
  EXPECT_TRUE(texts_of(R"({"format": "phone"})").accepts("anything"));
  const Dfa listed = listed_texts({"a", "ab", ""}, budget);
  for (const char* const text : {"a", "ab", ""}) EXPECT_TRUE(listed.accepts(text));
  for (const char* const text : {"b", "abc"}) EXPECT_FALSE(listed.accepts(text));
  EXPECT_TRUE(listed_texts({}, budget).is_empty());
}

}  // namespace
}  // namespace inflight::grammar
