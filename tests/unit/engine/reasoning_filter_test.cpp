// SPDX-License-Identifier: Apache-2.0
// Goal: reasoning is free but for what ends the answer, and behind its end mark, however tokens cut it, only what the
// filter lets come. Truth: texts written by hand in the demo model's tokens.
#include "engine/reasoning_filter.h"

#include <gtest/gtest.h>

#include "engine/grammar_filter.h"
#include "model/model_loader.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

class ReasoningFilterText : public testing::Test {
 protected:
  using Way = ReasoningFilter::Way;

  std::vector<TokenId> tokens_of(const std::string& text) const {
    return tokenizer_->encode(text, {.add_special = false, .parse_special = false});
  }
  std::unique_ptr<TokenFilter> regex(const std::string& text) {
    return std::make_unique<GrammarFilter>(store_.matcher(GrammarKind::Regex, text), *tokenizer_);
  }
  // May begin with <r>, and ends it with </r>; the answer is [ab]+, behind reasoning after a line's end, or c+ after
  // "!".
  ReasoningFilter filter(bool begun) {
    ReasoningFilter::Parts parts{.end_mark = "</r>", .not_within = {end_}};
    if (!begun) {
      parts.begin.push_back({tokens_of("<r>"), nullptr});
      parts.begin.push_back({{}, regex("[ab]+")});
    }
    parts.behind.push_back({tokens_of("\n"), regex("[ab]+")});
    parts.behind.push_back({tokens_of("!"), regex("c+")});
    return {std::move(parts), vocabulary_};
  }
  bool allows(TokenFilter& filter, TokenId token) {
    std::vector<uint32_t> allowed(static_cast<size_t>(vocabulary_.size() + 31) / 32);
    filter.allow(allowed);
    const auto index = static_cast<size_t>(token);
    return (allowed[index / 32] >> index % 32 & 1U) != 0;
  }
  // Whether all of the text's tokens may come; those that may are accepted.
  bool follows(TokenFilter& filter, const std::string& text) {
    for (const TokenId token : tokens_of(text)) {
      if (!allows(filter, token)) return false;
      filter.accept(token);
    }
    return true;
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(load_vocabulary(kDemoModel));
  const Vocabulary& vocabulary_ = tokenizer_->vocabulary();
  const TokenId end_ = *vocabulary_.eos();
  GrammarStore store_{vocabulary_, {end_}};
};

TEST_F(ReasoningFilterText, HoldsBehindReasoning) {
  ReasoningFilter begun = filter(true);
  EXPECT_TRUE(follows(begun, "Anything <goes> </ r> c{"));
  EXPECT_FALSE(allows(begun, end_));
  const std::unique_ptr<TokenFilter> copy = begun.clone();
  EXPECT_TRUE(follows(begun, "</r>"));
  EXPECT_FALSE(allows(begun, end_));
  EXPECT_FALSE(follows(begun, "a"));
  EXPECT_TRUE(follows(begun, "\nabba"));
  EXPECT_FALSE(follows(begun, "c"));
  EXPECT_TRUE(allows(begun, end_));
  EXPECT_TRUE(follows(*copy, "more</r>!cc"));  // the copy went its own way
  EXPECT_FALSE(follows(*copy, "a"));
  EXPECT_TRUE(allows(*copy->ahead(), end_));
}

TEST_F(ReasoningFilterText, TheAnswerMayBeginWithReasoningOrNot) {
  ReasoningFilter plain = filter(false), thinking = filter(false), neither = filter(false);
  EXPECT_TRUE(follows(plain, "ab"));
  EXPECT_FALSE(follows(plain, "<"));
  EXPECT_TRUE(allows(plain, end_));
  EXPECT_TRUE(follows(thinking, "<r>xyz"));
  EXPECT_FALSE(allows(thinking, end_));
  EXPECT_TRUE(follows(thinking, "</r>\nb"));
  EXPECT_FALSE(follows(neither, "x"));
  EXPECT_TRUE(follows(neither, "<"));
  EXPECT_EQ(neither.take_forced().size(), tokens_of("<r>").size() - 1);  // it can be nothing else now
  EXPECT_TRUE(follows(neither, "xyz"));
}

// A token that ends the mark and goes on would be followed by no filter.
TEST_F(ReasoningFilterText, NoTokenGoesOnBehindTheMark) {
  const auto two_letters = [this] {
    for (TokenId token = 0; token < vocabulary_.size(); ++token) {
      const std::string_view bytes = vocabulary_.bytes(token);
      if (!vocabulary_.is_control(token) && bytes.size() == 2 && bytes[0] >= 'a' && bytes[1] >= 'a') return token;
    }
    return TokenId{-1};
  }();
  ASSERT_GE(two_letters, 0);
  const std::string_view bytes = vocabulary_.bytes(two_letters);
  ReasoningFilter::Parts parts{.end_mark = std::string("<") + bytes[0], .not_within = {end_}};
  parts.behind.push_back({{}, regex("[ab]+")});
  ReasoningFilter filter(std::move(parts), vocabulary_);
  EXPECT_TRUE(allows(filter, two_letters));
  EXPECT_TRUE(follows(filter, "<"));
  EXPECT_FALSE(allows(filter, two_letters));
  EXPECT_TRUE(follows(filter, std::string(1, bytes[0]) + "a"));
}

}  // namespace
}  // namespace inflight::test
