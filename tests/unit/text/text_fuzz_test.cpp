// SPDX-License-Identifier: Apache-2.0
// Random bytes through every tokenizer: nothing is lost, whatever was asked to be parsed; all published pre-tokenizers,
// and the published vocabularies where they are. Seeds are fixed; run under ASan too.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "model/model_loader.h"
#include "support/test_data.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "unit/text/vocabularies.h"

namespace inflight {
namespace {

// Bytes, characters of many kinds, and runs, mixed.
std::string random_text(std::mt19937& random) {
  const std::vector<std::string> parts{"a",
                                       "THE",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\r\n",
                                       "\t",
                                       "'s",
                                       "'LL",
                                       "12345",
                                       "é",
                                       "字",
                                       "🙂",
                                       "\u0301",
                                       "\u200d",
                                       "\u00a0",
                                       "\u2581",
                                       "<|im_end|>",
                                       "<|im_",
                                       "</s>",
                                       "<0x41>",
                                       std::string("\0", 1),
                                       "\xFF",
                                       "\xE5\xAD",
                                       "\xF0\x9F",
                                       "\xC0\x80",
                                       "\xED\xA0\x80",
                                       "٣",
                                       "½",
                                       "{\"a\":"};
  std::string text;
  for (auto count = random() % 40; count > 0; --count) {
    if (random() % 3 == 0) {
      text += static_cast<char>(random());
    } else {
      const std::string& part = parts[random() % parts.size()];
      for (auto times = random() % 8 == 0 ? random() % 20 : 1; times > 0; --times) text += part;
    }
  }
  return text;
}

void check_round_trips(const Tokenizer& tokenizer, bool spaces_differ, int rounds, bool composed = false) {
  std::mt19937 random(21);
  for (int round = 0; round < rounds; ++round) {
    std::string text = random_text(random);
    for (const bool parse_special : {false, true}) {
      // SentencePiece puts a space behind each special token, so only whole texts come back.
      if (spaces_differ && parse_special) continue;
      const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
      std::string expected = composed ? to_nfc(text) : text;
      if (spaces_differ) {
        for (size_t at = expected.find("\u2581"); at != std::string::npos; at = expected.find("\u2581"))
          expected.replace(at, 3, " ");
      }
      // Some vocabularies (falcon's) have no token for bytes that valid UTF-8 never has; those alone are lost.
      std::erase_if(expected, [&](char byte) { return !tokenizer.vocabulary().find_byte(static_cast<uint8_t>(byte)); });
      ASSERT_EQ(detokenize_bytes(tokenizer.vocabulary(), ids, {.show_control = true}), expected) << "round " << round;
      Detokenizer detokenizer(tokenizer.vocabulary(), {.show_control = true});
      std::string streamed;
      for (const TokenId id : ids) streamed += detokenizer.push(id);
      streamed += detokenizer.flush();
      ASSERT_EQ(streamed, to_valid_utf8(expected)) << "round " << round;
    }
  }
}

TEST(TextFuzz, EveryPreTokenizerKeepsEveryByte) {
  VocabularyData data = load_vocabulary(test::kDemoModel);
  for (const char* const type : {"default", "gpt-2", "falcon", "smollm", "llama-bpe", "qwen2", "qwen35", "bailingmoe",
                                 "minicpm5", "gpt-4o", "tekken", "deepseek-coder", "deepseek-v3"}) {
    data.pre = type;
    check_round_trips(*Tokenizer::create(data), false, 300, find_pre_tokenizer_type(type).nfc);
  }
}

TEST(TextFuzz, SentencePieceKeepsEveryByte) {
  const auto data = test::sentencepiece_vocabulary(
      {"\u2581", "a", "\u2581a", "THE", "TH", "H", "E", "T", "é", "字", "\u2581\u2581", "12", "1", "2"});
  check_round_trips(*Tokenizer::create(data), true, 2000);
}

TEST(TextFuzz, PublishedVocabulariesKeepEveryByte) {
  INFLIGHT_REQUIRE_FILE(test::shared_path("vocab"));
  for (const char* const name : {"gpt-2", "falcon", "llama-spm"}) {
    const auto tokenizer =
        Tokenizer::create(load_vocabulary(test::shared_path(std::string("vocab/") + name + ".gguf")));
    check_round_trips(*tokenizer, std::string(name) == "llama-spm", 300);
  }
}

// Vocabularies of random texts, types and merges: a tokenizer or one clear error, and no crash with either.
TEST(TextFuzz, RandomVocabulariesAreUsedOrRefused) {
  std::mt19937 random(22);
  int used = 0;
  for (int round = 0; round < 2000; ++round) {
    VocabularyData data;
    data.model = random() % 2 == 0 ? "llama" : "gpt2";
    data.pre = random() % 2 == 0 ? "gpt-2" : "llama-bpe";
    for (auto count = random() % 30; count > 0; --count) {
      data.tokens.push_back(random_text(random).substr(0, random() % 4));
      data.types.push_back(static_cast<TokenType>(1 + random() % 6));
      data.scores.push_back(static_cast<float>(random() % 7) - 3.0F);
      if (random() % 2 == 0)
        data.merges.push_back(data.tokens.back() + " " + data.tokens[random() % data.tokens.size()]);
    }
    if (random() % 3 == 0) data.bos = static_cast<TokenId>(random() % 40);
    try {
      const auto tokenizer = Tokenizer::create(data);
      for (int text = 0; text < 5; ++text) {
        const auto ids = tokenizer->encode(random_text(random));
        (void)detokenize(tokenizer->vocabulary(), ids);
      }
      ++used;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::CorruptFile) << error.what();
    }
  }
  EXPECT_GT(used, 300);
}

}  // namespace
}  // namespace inflight
