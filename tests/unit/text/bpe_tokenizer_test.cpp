// SPDX-License-Identifier: Apache-2.0
// Merging against the rule applied literally: look at all neighbours, join the best, repeat.
// Covers: text/bpe_tokenizer.cpp, text/sentencepiece_tokenizer.cpp.
#include "text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/model_loader.h"
#include "support/test_data.h"
#include "text/detokenizer.h"
#include "unit/text/vocabularies.h"

namespace inflight {
namespace {

constexpr EncodeOptions kTextOnly{.add_special = false, .parse_special = false};

// The pieces of `text` (ASCII) once no two can be joined; value(a + b): the least is joined first, none = nullopt.
template <typename Value>
std::vector<std::string> merge_literally(const std::string& text, Value&& value) {
  std::vector<std::string> pieces;
  for (const char character : text) pieces.emplace_back(1, character);
  while (true) {
    size_t best = 0;
    std::optional<double> least;
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      const auto rank = value(pieces[i], pieces[i + 1]);
      if (rank && (!least || *rank < *least)) {
        least = rank;
        best = i;
      }
    }
    if (!least) return pieces;
    pieces[best] += pieces[best + 1];
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string random_word(std::mt19937& random, size_t letters_max) {
  std::string word;
  for (size_t length = 1 + random() % letters_max; length > 0; --length) word += static_cast<char>('a' + random() % 4);
  return word;
}

TEST(BpeTokenizer, JoinsInTheOrderOfTheMerges) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    VocabularyData data;
    data.model = "gpt2";
    data.pre = "gpt-2";
    data.tokens = {"a", "b", "c", "d"};
    std::map<std::pair<std::string, std::string>, double> ranks;
    for (int merge = 0; merge < 40; ++merge) {
      const std::string& left = data.tokens[random() % data.tokens.size()];
      const std::string& right = data.tokens[random() % data.tokens.size()];
      if (!ranks.try_emplace({left, right}, static_cast<double>(data.merges.size())).second) continue;
      data.merges.push_back(left + " " + right);
      if (std::ranges::find(data.tokens, left + right) == data.tokens.end()) data.tokens.push_back(left + right);
    }
    const BpeTokenizer tokenizer(data);
    for (int word = 0; word < 40; ++word) {
      const std::string text = random_word(random, 60);
      const auto expected = merge_literally(text, [&](const std::string& left, const std::string& right) {
        const auto found = ranks.find({left, right});
        return found == ranks.end() ? std::nullopt : std::optional(found->second);
      });
      std::vector<std::string> pieces;
      for (const TokenId id : tokenizer.encode(text, kTextOnly)) pieces.emplace_back(tokenizer.vocabulary().text(id));
      ASSERT_EQ(pieces, expected) << "round " << round << ": " << text;
    }
  }
}

TEST(BpeTokenizer, FallsBackToBytesWhereAMergeIsNoToken) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"a", "b", "c", "abc"};
  data.merges = {"a b", "ab c"};
  const BpeTokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode("abc", kTextOnly), std::vector<TokenId>({3}));  // through "ab", which is no token
  EXPECT_EQ(tokenizer.encode("ab", kTextOnly), std::vector<TokenId>({0, 1}));
  EXPECT_EQ(tokenizer.encode("axb", kTextOnly), std::vector<TokenId>({0, 1}));  // no token for x, no unknown token
  data.unknown = 2;
  EXPECT_EQ(BpeTokenizer(data).encode("axb", kTextOnly), std::vector<TokenId>({0, 2, 1}));
  data.types = {TokenType::Normal, TokenType::Normal, TokenType::Control, TokenType::Normal};
  EXPECT_EQ(BpeTokenizer(data).encode("axb", kTextOnly),
            std::vector<TokenId>({0, 1}));  // no text makes a control token
}

TEST(BpeTokenizer, TakesWholeWordsFirstWhereTheTypeSaysSo) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"a", "b", "ab", "bab", "abab"};
  data.merges = {"a b"};
  EXPECT_EQ(BpeTokenizer(data).encode("abab", kTextOnly), std::vector<TokenId>({2, 2}));
  data.pre = "llama-bpe";
  EXPECT_EQ(BpeTokenizer(data).encode("abab", kTextOnly), std::vector<TokenId>({4}));
}

TEST(SentencePieceTokenizer, JoinsByScore) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> pieces{"a", "b", "c", "d"};
    while (pieces.size() < 40) {
      const std::string joined = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
      if (std::ranges::find(pieces, joined) == pieces.end()) pieces.push_back(joined);
    }
    VocabularyData data = test::sentencepiece_vocabulary(pieces);
    data.add_space_prefix = false;
    for (float& score : data.scores) score = -static_cast<float>(random() % 20);  // with ties
    const auto tokenizer = Tokenizer::create(data);
    for (int word = 0; word < 40; ++word) {
      const std::string text = random_word(random, 60);
      const auto expected =
          merge_literally(text, [&](const std::string& left, const std::string& right) -> std::optional<double> {
            const auto id = tokenizer->vocabulary().find(left + right);
            if (!id) return {};
            return -static_cast<double>(data.scores[static_cast<size_t>(*id)]);
          });
      std::vector<std::string> texts;
      for (const TokenId id : tokenizer->encode(text, kTextOnly)) texts.emplace_back(tokenizer->vocabulary().text(id));
      ASSERT_EQ(texts, expected) << "round " << round << ": " << text;
    }
  }
}

TEST(SentencePieceTokenizer, UnusedTokensFallApart) {
  VocabularyData data = test::sentencepiece_vocabulary({"a", "b", "ab", "abb"});
  data.add_space_prefix = false;
  data.types[261] = TokenType::Unused;
  const auto tokenizer = Tokenizer::create(data);
  EXPECT_EQ(tokenizer->encode("ab", kTextOnly), std::vector<TokenId>({259, 260}));
  EXPECT_EQ(tokenizer->encode("abb", kTextOnly), std::vector<TokenId>({262}));
}

TEST(SentencePieceTokenizer, UnknownCharactersBecomeBytesOrTheUnknownToken) {
  VocabularyData data = test::sentencepiece_vocabulary({"a"});
  data.add_space_prefix = false;
  EXPECT_EQ(Tokenizer::create(data)->encode("aé", kTextOnly), std::vector<TokenId>({259, 3 + 0xC3, 3 + 0xA9}));
  for (size_t id = 3; id < 259; ++id) data.types[id] = TokenType::Normal;
  EXPECT_EQ(Tokenizer::create(data)->encode("aé", kTextOnly), std::vector<TokenId>({259, 0, 0}));
}

// Quadratic merging of these would take minutes.
TEST(Tokenizer, TakesAMegabyteOfAnything) {
  constexpr size_t kBytes = 1 << 20;
  const auto bpe = Tokenizer::create(load_vocabulary(test::kDemoModel));
  const auto spm = Tokenizer::create(test::sentencepiece_vocabulary({"\u2581", "a", "aa", "aaaa", "\u2581\u2581"}));
  for (const std::string& unit :
       {std::string("a"), std::string(" "), std::string("\n"), std::string(" \n"), std::string("<"),
        std::string("<|im_"), std::string("\xFF"), std::string("\0", 1), std::string("é"), std::string("ab1 .")}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    for (const Tokenizer* tokenizer : {bpe.get(), spm.get()}) {
      EXPECT_EQ(detokenize_bytes(tokenizer->vocabulary(), tokenizer->encode(text, kTextOnly)), text);
    }
  }
}

}  // namespace
}  // namespace inflight
