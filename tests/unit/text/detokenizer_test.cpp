// SPDX-License-Identifier: Apache-2.0
// Characters appear whole and once, whatever the tokens' borders; ill-formed bytes become U+FFFD as all at once.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "support/expect_error.h"
#include "unit/text/vocabularies.h"

namespace inflight {
namespace {

std::vector<TokenId> byte_tokens(const std::string& bytes) {
  std::vector<TokenId> ids;
  for (const char byte : bytes) ids.push_back(3 + static_cast<uint8_t>(byte));
  return ids;
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  const Vocabulary vocabulary(test::sentencepiece_vocabulary({}));
  Detokenizer detokenizer(vocabulary);
  const std::vector<std::string> expected{"a", "", "é", "", "", "", "🙂", "", "\uFFFDx", "\uFFFD"};
  const std::vector<TokenId> ids = byte_tokens("aé🙂\xE5x\xFF");
  ASSERT_EQ(ids.size(), expected.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(detokenizer.push(ids[i]), expected[i]) << i;
  EXPECT_EQ(detokenizer.flush(), "");
  EXPECT_EQ(detokenizer.push(3 + 0xF0), "");
  EXPECT_EQ(detokenizer.push(3 + 0x9F), "");
  EXPECT_EQ(detokenizer.pending_bytes(), 2U);
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.pending_bytes(), 0U);
}

TEST(Detokenizer, GivesInPiecesWhatItGivesAtOnce) {
  const Vocabulary vocabulary(test::sentencepiece_vocabulary({"\u2581é", "字\u2581"}));
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random() % 20);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 4 == 0 ? random() % 261 : 3 + 0x80 + random() % 0x80);
    Detokenizer detokenizer(vocabulary);
    std::string text;
    for (const TokenId id : ids) {
      text += detokenizer.push(id);
      ASSERT_EQ(valid_utf8_length(text), text.size());
    }
    text += detokenizer.flush();
    ASSERT_EQ(text, detokenize(vocabulary, ids));
  }
}

TEST(Detokenizer, DropsTheSpaceThatTheTokenizerAdded) {
  VocabularyData data = test::sentencepiece_vocabulary({"\u2581a", "b\u2581c", "\u2581\u2581"});
  const TokenId a = 259, bc = 260, spaces = 261;
  {
    const Vocabulary vocabulary(data);
    EXPECT_EQ(detokenize(vocabulary, std::vector<TokenId>{1, a, bc, a, 2}), "ab c a");
    EXPECT_EQ(detokenize(vocabulary, std::vector<TokenId>{spaces, a}), "  a");
    EXPECT_EQ(detokenize(vocabulary, std::vector<TokenId>{bc, a}), "b c a");
    EXPECT_EQ(detokenize(vocabulary, std::vector<TokenId>{a, bc}, {.whole_text = false}), " ab c");
  }
  data.add_space_prefix = false;
  EXPECT_EQ(detokenize(Vocabulary(data), std::vector<TokenId>{a, bc}), " ab c");
}

TEST(Detokenizer, ShowsControlTokensOnDemand) {
  VocabularyData data = test::sentencepiece_vocabulary({"\u2581a"});
  const TokenId user = test::add_token(data, "<tool_call>", TokenType::UserDefined);
  const TokenId unused = test::add_token(data, "[PAD7]", TokenType::Unused);
  const Vocabulary vocabulary(data);
  const std::vector<TokenId> ids{1, 259, user, unused, 0, 2};
  EXPECT_EQ(detokenize(vocabulary, ids), "a<tool_call>");
  EXPECT_EQ(detokenize(vocabulary, ids, {.show_control = true}), "<s> a<tool_call><unk></s>");
}

TEST(Detokenizer, RefusesForeignIds) {
  const Vocabulary vocabulary(test::sentencepiece_vocabulary({}));
  Detokenizer detokenizer(vocabulary);
  for (const TokenId id : {-1, 259}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "is outside the vocabulary, allowed: 0 to 258",
                          [&] { (void)detokenizer.push(id); });
  }
}

}  // namespace
}  // namespace inflight
