// SPDX-License-Identifier: Apache-2.0
// Either of two grammars: what may come is what the one or the other allows, until a token belongs to one alone.
#include "engine/either_filter.h"

#include <gtest/gtest.h>

#include "model/model_loader.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

class EitherFilterTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<GrammarFilter> grammar(const char* text) {
    return std::make_unique<GrammarFilter>(store_.matcher(GrammarKind::Gbnf, text), *tokenizer_);
  }
  [[nodiscard]] std::vector<uint32_t> mask_of(TokenFilter& filter) const {
    std::vector<uint32_t> mask(static_cast<size_t>(vocabulary().size() + 31) / 32);
    filter.allow(mask);
    return mask;
  }
  // The token that spells the text.
  [[nodiscard]] TokenId token(const char* text) const { return *vocabulary().find(text); }
  [[nodiscard]] bool allows(TokenFilter& filter, TokenId token) const {
    return (mask_of(filter)[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32U) & 1U) != 0;
  }
  [[nodiscard]] const Vocabulary& vocabulary() const { return tokenizer_->vocabulary(); }

  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(load_vocabulary(kDemoModel));
  GrammarStore store_{vocabulary(), {*vocabulary().eos()}};
};

TEST_F(EitherFilterTest, FollowsBothUntilTheyPart) {
  const char *const first = R"(root ::= "abx" [0-9])", *const second = R"(root ::= "ab" ("y" | "z") "end")";
  EitherFilter either(grammar(first), grammar(second));
  const auto a = grammar(first), b = grammar(second);
  for (const char* const text : {"a", "b"}) {
    const std::vector<uint32_t> left = mask_of(*a), right = mask_of(*b), both = mask_of(either);
    for (size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], left[i] | right[i]) << text;
    EXPECT_TRUE(either.take_forced().empty());
    for (TokenFilter* const filter :
         {static_cast<TokenFilter*>(&either), static_cast<TokenFilter*>(a.get()), static_cast<TokenFilter*>(b.get())}) {
      filter->accept(token(text));
    }
  }
  {
    const std::unique_ptr<TokenFilter> ahead = either.ahead();
    ahead->accept(token("y"));
    EXPECT_TRUE(allows(*ahead, token("e")));
    EXPECT_FALSE(allows(*ahead, token("y")));
  }
  const std::unique_ptr<TokenFilter> other = either.clone();
  EXPECT_TRUE(allows(either, token("x")) && allows(either, token("y")));
  either.accept(token("x"));
  other->accept(token("y"));
  EXPECT_TRUE(allows(either, token("7")));
  EXPECT_FALSE(allows(either, token("e")));
  EXPECT_TRUE(allows(*other, token("e")));
  EXPECT_FALSE(allows(*other, token("7")));
  either.accept(token("7"));
  EXPECT_TRUE(allows(either, *vocabulary().eos()));
}

}  // namespace
}  // namespace inflight::test
