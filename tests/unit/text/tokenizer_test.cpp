// SPDX-License-Identifier: Apache-2.0
// Whole tokenizers against what others compute: llama.cpp's cases for real vocabularies, Hugging Face `tokenizers` for
// the pre-tokenizers (tests/golden/make_pre_tokenizers.py), transformers for the demo model.
//
// Covers: text/tokenizer.cpp, text/pre_tokenizer.cpp, text/special_tokens.cpp
//
// Covers: text/vocabulary.cpp, text/byte_alphabet.cpp
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/test_data.h"
#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizer.h"
#include "unit/text/vocabularies.h"

namespace inflight {
namespace {

constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> split_cases(const std::string& text) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> cases;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    cases.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  cases.push_back(text.substr(begin));
  return cases;
}

class PublishedVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(PublishedVocabulary, EncodesEveryCase) {
  const std::string path = test::shared_path(std::string("vocab/") + GetParam());
  INFLIGHT_REQUIRE_FILE(path + ".gguf");
  const auto tokenizer = Tokenizer::create(load_vocabulary(path + ".gguf"));
  const std::vector<std::string> cases = split_cases(read_file(path + ".inp"));
  std::istringstream expected(read_file(path + ".out"));
  std::string line;
  size_t count = 0;
  for (; std::getline(expected, line); ++count) {
    ASSERT_LT(count, cases.size());
    std::istringstream numbers(line);
    const std::vector<TokenId> ids{std::istream_iterator<TokenId>(numbers), {}};
    EXPECT_EQ(tokenizer->encode(cases[count], kPlain), ids) << "case " << count << ": " << cases[count];
    EXPECT_EQ(detokenize_bytes(tokenizer->vocabulary(), ids), cases[count]) << "case " << count;
  }
  EXPECT_GT(count, 40U);
}

INSTANTIATE_TEST_SUITE_P(LlamaCpp, PublishedVocabulary, testing::Values("gpt-2", "llama-spm", "falcon"));

class PreTokenizerGolden : public testing::Test {
 protected:
  const nlohmann::json golden_ =
      nlohmann::json::parse(read_file(test::source_path("tests/golden/pre_tokenizers.json")));
  const VocabularyData data_ = load_vocabulary(test::kDemoModel);
};

TEST_F(PreTokenizerGolden, EveryTypeCutsAsHuggingFaceDoes) {
  for (const auto& [type, lists] : golden_["ids"].items()) {
    VocabularyData data = data_;
    data.pre = type;
    const auto tokenizer = Tokenizer::create(data);
    ASSERT_EQ(lists.size(), golden_["texts"].size());
    for (size_t i = 0; i < lists.size(); ++i) {
      const std::string text = golden_["texts"][i];
      EXPECT_EQ(tokenizer->encode(text, kPlain), lists[i].get<std::vector<TokenId>>())
          << type << ", text " << i << ": " << golden_["texts"][i].dump();
    }
  }
}

// Gemma 4's kind: characters are merged, spaces spelled U+2581, what has no token is bytes.
TEST(CharacterBpe, HasTheTokensOfHuggingFace) {
  const auto golden = nlohmann::json::parse(read_file(test::source_path("tests/golden/character_bpe.json")));
  VocabularyData data;
  data.model = "gemma4";
  data.tokens = golden["tokens"].get<std::vector<std::string>>();
  data.merges = golden["merges"].get<std::vector<std::string>>();
  for (size_t i = 0; i < data.tokens.size(); ++i) {  // <pad> <eos> <bos> <unk>, the bytes, the others
    data.types.push_back(i < 4 ? TokenType::Control : i < 260 ? TokenType::Byte : TokenType::Normal);
  }
  data.bos = 2;
  data.eos = 1;
  data.unknown = 3;
  data.add_bos = false;  // as the first published files say
  const auto tokenizer = Tokenizer::create(data);
  int bytes = 0;
  for (size_t i = 0; i < golden["texts"].size(); ++i) {
    const std::string text = golden["texts"][i];
    const auto ids = golden["ids"][i].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(text, kPlain), ids) << "text " << i << ": " << golden["texts"][i].dump();
    EXPECT_EQ(detokenize_bytes(tokenizer->vocabulary(), ids), text);
    for (const TokenId id : ids) bytes += int{tokenizer->vocabulary().type(id) == TokenType::Byte};
  }
  EXPECT_GT(bytes, 100);
  EXPECT_EQ(tokenizer->encode("").front(), 2);
  EXPECT_EQ(tokenizer->encode("<eos>", kPlain).size() > 1, true);
  // A line's end of several is one token also where no merge makes it; broken UTF-8 is bytes.
  data.merges.assign(1, "q u");
  const auto bare = Tokenizer::create(data);
  EXPECT_EQ(bare->encode("\n\n", kPlain).size(), 1U);
  EXPECT_EQ(detokenize_bytes(bare->vocabulary(), bare->encode("a\xC3z\xFF", kPlain)), "a\xC3z\xFF");
}

// What the demo model's merges cannot tell apart: words as tokenizers 0.23.3's pre_tokenize_str() has them, of Split
// with the models' expressions.
TEST(PreTokenizer, CutsWords) {
  const std::string plain = "I'LL say 'twas 1234 $x_y!!\n\n\n  \n (Größe) it's\r\n\r\n\t\tz  end ";
  const std::string marks = "น้ำ ผู้ใหญ่ مَرْحَبًا ١٢ x\u0331's x\u0308'll";
  const struct {
    const char* type;
    std::string text;
    std::vector<std::string_view> words;
  } cases[] = {
      {"deepseek-v3",
       "naïve (Zoë) C'était !Größe x_ab",
       {"naïve", " (", "Zoë", ")", " C", "'", "était", " !", "Größe", " x", "_ab"}},
      {"qwen35", plain, {"I",   "'LL", " say",     " '", "twas",     " ",    "1",    "2",     "3",
                         "4",   " $",  "x",        "_y", "!!\n\n\n", "  \n", " (",   "Größe", ")",
                         " it", "'s",  "\r\n\r\n", "\t", "\tz",      " ",    " end", " "}},
      {"qwen35", marks, {"น้ำ", " ผู้ใหญ่", " مَرْحَبًا", " ", "١", "٢", " x\u0331", "'s", " x\u0308", "'ll"}},
      {"minicpm5",
       "I'LL pay  1234  $x\n\n 5",
       {"I", "'LL", " pay", "  ", "123", "4", " ", " $", "x", "\n\n", " ", "5"}},
      {"bailingmoe", marks, {"น", "้ำ", " ผ", "ู้",  "ใหญ", "่",        " م", "َر",  "ْح",       "َب",
                             "ًا", " ", "١",  "٢", " x",  "\u0331'", "s",  " x", "\u0308'", "ll"}},
  };
  for (const auto& each : cases) {
    std::vector<std::string_view> words;
    PreTokenizer(find_pre_tokenizer_type(each.type)).split(each.text, words);
    EXPECT_EQ(words, each.words) << each.type;
  }
}

TEST(DemoModel, EncodesAndDecodesAsTransformersDoes) {
  const auto golden = nlohmann::json::parse(read_file(test::source_path("models/tinyworld/golden.json")));
  const auto tokenizer = Tokenizer::create(load_vocabulary(test::kDemoModel));
  for (const auto& one : golden["cases"]) {
    const std::string prompt = one["prompt"];
    EXPECT_EQ(tokenizer->encode(prompt, {.add_special = false}), one["prompt_ids"].get<std::vector<TokenId>>())
        << prompt;
    const auto greedy_ids = one["greedy_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(detokenize(tokenizer->vocabulary(), greedy_ids, {.show_control = true}),
              one["greedy_text"].get<std::string>());
  }
}

TEST(Tokenizer, AddsBeginAndEndAsTheVocabularyAsks) {
  VocabularyData data = test::sentencepiece_vocabulary({"a"});
  EXPECT_EQ(Tokenizer::create(data)->encode(""), std::vector<TokenId>({1}));
  EXPECT_EQ(Tokenizer::create(data)->encode("", {.add_special = false}), std::vector<TokenId>());
  data.add_eos = true;
  data.add_bos = false;
  EXPECT_EQ(Tokenizer::create(data)->encode(""), std::vector<TokenId>({2}));
  VocabularyData bpe = load_vocabulary(test::kDemoModel);
  EXPECT_EQ(Tokenizer::create(bpe)->encode("").size(), 0U);
  bpe.add_bos.reset();
  bpe.pre = "llama-bpe";  // asks for one unless the file says otherwise
  EXPECT_EQ(Tokenizer::create(bpe)->encode(""), std::vector<TokenId>({*bpe.bos}));
  bpe.bos.reset();
  EXPECT_EQ(Tokenizer::create(bpe)->encode("").size(), 0U);
}

TEST(Tokenizer, MatchesSpecialTokensLongestFirst) {
  VocabularyData data = test::sentencepiece_vocabulary({"\u2581", "a", "b"});
  data.add_bos = false;
  data.add_space_prefix = false;
  const TokenId a = 260;
  const TokenId turn = test::add_token(data, "<|x|>", TokenType::Control);
  const TokenId longer = test::add_token(data, "<|x|>>", TokenType::Control);
  const TokenId user = test::add_token(data, "<think>", TokenType::UserDefined);
  const auto tokenizer = Tokenizer::create(data);
  const std::string text = "a<|x|>a<|x|>><think>a<|x|";
  const TokenId less = 3 + '<', bar = 3 + '|', x = 3 + 'x', greater = 3 + '>';
  EXPECT_EQ(tokenizer->encode(text), std::vector<TokenId>({a, turn, a, longer, user, a, less, bar, x, bar}));
  EXPECT_EQ(tokenizer->encode(text, kPlain), std::vector<TokenId>({a, less, bar, x, bar, greater, a, less, bar, x, bar,
                                                                   greater, greater, user, a, less, bar, x, bar}));
}

TEST(Tokenizer, PutsTheSpacePrefixBehindSpecialTokensOnly) {
  VocabularyData data = test::sentencepiece_vocabulary({"\u2581", "a", "\u2581a"});
  const TokenId turn = test::add_token(data, "<|x|>", TokenType::Control);
  const auto tokenizer = Tokenizer::create(data);
  EXPECT_EQ(tokenizer->encode("a<|x|>a"), std::vector<TokenId>({1, 261, turn, 261}));
  EXPECT_EQ(tokenizer->encode("<|x|>"), std::vector<TokenId>({1, turn}));
}

// Phi 3's, as transformers has it: rstrip of all added tokens but <s>, <unk> and <|endoftext|>.
TEST(Tokenizer, StripsWhitespaceBehindSpecialTokensOfPhi3) {
  VocabularyData data = test::sentencepiece_vocabulary({"\u2581", "a"});
  data.add_bos = data.add_space_prefix = false;
  const TokenId space = 259, a = 260;
  const TokenId user = test::add_token(data, "<|user|>", TokenType::Control);
  const TokenId end = test::add_token(data, "<|endoftext|>", TokenType::Control);
  const std::string text = "<|user|> \n\ta a<|user|>\n<s> a<|endoftext|> a<|user|> ";
  const auto plain = Tokenizer::create(data)->encode(text);
  data.strips_behind_special = true;
  EXPECT_EQ(Tokenizer::create(data)->encode(text),
            std::vector<TokenId>({user, a, space, a, user, 1, space, a, end, space, a, user}));
  EXPECT_EQ(plain.size(), 17U);
  EXPECT_EQ(Tokenizer::create(data)->encode("<|user|> a", kPlain).size(), 10U);
}

TEST(Tokenizer, NeverMakesControlTokensOfText) {
  VocabularyData data = test::sentencepiece_vocabulary({"<", "s", ">", "s>", "</", "/"});
  data.add_space_prefix = false;
  const auto tokenizer = Tokenizer::create(data);
  for (const TokenId id : tokenizer->encode("<s></s><unk>", kPlain)) EXPECT_GT(id, 2);
  EXPECT_EQ(tokenizer->encode("</s>", {.add_special = false}), std::vector<TokenId>({2}));
}

TEST(Tokenizer, KeepsEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += std::string("\0\0\xE2\x96\x81 \xE2\x96", 7) + all;
  const auto spm = Tokenizer::create(test::sentencepiece_vocabulary({"\u2581", "a", "ab"}));
  const std::string spelled = all;
  const auto gpt2 = Tokenizer::create(load_vocabulary(test::kDemoModel));
  EXPECT_EQ(detokenize_bytes(gpt2->vocabulary(), gpt2->encode(all, kPlain)), all);
  // SentencePiece itself cannot tell U+2581 from a space.
  std::string spaces = all;
  spaces.replace(258, 3, " ");
  EXPECT_EQ(detokenize_bytes(spm->vocabulary(), spm->encode(all, kPlain)), spaces);
}

TEST(Tokenizer, RefusesWhatItCannotRead) {
  VocabularyData data = test::sentencepiece_vocabulary({"a"});
  const auto error_of = [](VocabularyData bad, ErrorCode code) {
    return test::error_of(code, [&] { (void)Tokenizer::create(bad); });
  };
  VocabularyData bad = data;
  bad.model = "bert";
  EXPECT_EQ(error_of(bad, ErrorCode::Unsupported),
            "metadata key 'tokenizer.ggml.model' is 'bert', supported: llama, gpt2, gemma4");
  bad.model = "";
  EXPECT_EQ(error_of(bad, ErrorCode::Unsupported), "the model file has no vocabulary");
  bad.model = "gpt2";
  bad.pre = "klingon";
  EXPECT_NE(error_of(bad, ErrorCode::Unsupported)
                .find("metadata key 'tokenizer.ggml.pre' is 'klingon', supported: default, gpt-2"),
            std::string::npos);
  bad.pre = "gpt-2";
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile), "metadata key 'tokenizer.ggml.merges' is missing");
  bad.merges = {"a b", "ab"};
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile), "the vocabulary's merge 1 is not two texts with a space between");
  bad = data;
  bad.scores.pop_back();
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile),
            "metadata key 'tokenizer.ggml.scores' has 259 elements for 260 tokens");
  bad.path = "m.gguf";
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile),
            "m.gguf: metadata key 'tokenizer.ggml.scores' has 259 elements for 260 tokens");
  bad = data;
  bad.eos = 1000;
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile), "the vocabulary's eos token is 1000, allowed: 0 to 259");
  bad = data;
  bad.types.pop_back();
  EXPECT_EQ(error_of(bad, ErrorCode::CorruptFile), "the vocabulary has 259 token types for 260 tokens");
  EXPECT_EQ(error_of({.model = "llama"}, ErrorCode::CorruptFile), "the vocabulary has 0 tokens, allowed: 1 to 4194304");
}

// The tokens of the first row are those that llama.cpp's llama_vocab_is_eog() names, whatever their type.
TEST(Vocabulary, KnowsEndTokensByTheirNames) {
  const auto ends_with = [](const std::string& name, TokenType type) {
    VocabularyData data = test::sentencepiece_vocabulary({"a"});
    const TokenId id = test::add_token(data, name, type);
    const Vocabulary vocabulary(data);
    EXPECT_EQ(vocabulary.end_tokens().front(), 2);  // SentencePiece's own </s>
    return vocabulary.end_tokens().back() == id;
  };
  for (const char* name : {"<|im_end|>",
                           "<|endoftext|>",
                           "<|eot_id|>",
                           "<|end|>",
                           "<end_of_turn>",
                           "<|end_of_text|>",
                           "<|eom_id|>",
                           "<|return|>",
                           "<|call|>",
                           "<EOT>",
                           "_<EOT>",
                           "[EOT]",
                           "<end_of_utterance>",
                           "<turn|>",
                           "<|tool_response>",
                           "<|calls|>",
                           "[e~[",
                           "<｜end▁of▁sentence｜>",
                           "<|fim_pad|>",
                           "<fim-pad>",
                           "<fim_pad>",
                           "<|fim_repo|>",
                           "<|repo_name|>",
                           "<fim-repo>",
                           "<reponame>",
                           "<|file_sep|>",
                           "<|file_separator|>"}) {
    for (const TokenType type : {TokenType::Normal, TokenType::Control, TokenType::UserDefined}) {
      EXPECT_TRUE(ends_with(name, type)) << name << ", type " << static_cast<int>(type);
    }
  }
  EXPECT_FALSE(ends_with("<|im_start|>", TokenType::Control));
  EXPECT_FALSE(ends_with("<EOT", TokenType::Control));
}

TEST(Vocabulary, CollectsEndTokensOnce) {
  VocabularyData data = test::sentencepiece_vocabulary({"a", "b"});
  const TokenId turn = test::add_token(data, "<|im_end|>", TokenType::Control);
  const TokenId message = test::add_token(data, "<|end|>", TokenType::Control);
  data.types.clear();  // a file without token_type
  data.eos = turn;
  data.eot = 260;
  data.eom = 259;
  EXPECT_EQ(Vocabulary(data).end_tokens(), std::vector<TokenId>({259, 260, turn, message}));
  // In harmony "<|end|>" only ends a message, and an answer may have several.
  const TokenId done = test::add_token(data, "<|return|>", TokenType::Control);
  const TokenId call = test::add_token(data, "<|call|>", TokenType::Control);
  EXPECT_EQ(Vocabulary(data).end_tokens(), std::vector<TokenId>({259, 260, turn, done, call}));
  data.eot = message;  // whatever the file says
  EXPECT_EQ(Vocabulary(data).end_tokens(), std::vector<TokenId>({259, turn, done, call}));
}

// The names are those that llama.cpp takes for its fim_pre, fim_suf and fim_mid.
TEST(Vocabulary, KnowsTheMarksOfInsertionsByTheirNames) {
  const char* const marks[][3] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                  {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                  {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                                  {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                  {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                  {"<PRE>", "<SUF>", "<MID>"},
                                  {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
                                  {"<|prefix|>", "<|suffix|>", "<|middle|>"}};
  for (const auto& [prefix, suffix, middle] : marks) {
    VocabularyData data = test::sentencepiece_vocabulary({"a"});
    const TokenId last = test::add_token(data, middle, TokenType::Normal);
    EXPECT_FALSE(Vocabulary(data).infill_tokens()) << "only " << middle;
    const TokenId first = test::add_token(data, prefix, TokenType::Normal);
    const TokenId second = test::add_token(data, suffix, TokenType::Control);
    const Vocabulary vocabulary(data);
    const auto found = vocabulary.infill_tokens();
    ASSERT_TRUE(found) << prefix;
    EXPECT_EQ(found->prefix, first);
    EXPECT_EQ(found->suffix, second);
    EXPECT_EQ(found->middle, last);
    for (const TokenId id : {first, second, last}) EXPECT_TRUE(vocabulary.is_control(id)) << prefix;
  }
}

TEST(Tokenizer, MarksInsertionsAsTheFileSays) {
  VocabularyData data = test::sentencepiece_vocabulary({"a", "b"});
  data.add_space_prefix = false;
  EXPECT_EQ(test::error_of(ErrorCode::Unsupported, [&] { (void)Tokenizer::create(data)->encode_infill("a", "b"); }),
            "the model's vocabulary has no tokens that mark an insertion (fim_prefix)");
  for (const char* const name : {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}) {
    static_cast<void>(test::add_token(data, name, TokenType::Control));
  }
  const TokenId a = *Vocabulary(data).find("a"), b = *Vocabulary(data).find("b");
  data.infill_middle = test::add_token(data, "<one>", TokenType::Normal);
  data.infill_prefix = test::add_token(data, "<two>", TokenType::Normal);
  const auto by_name = Vocabulary(data).infill_tokens();  // the file names two of three
  EXPECT_EQ(by_name->suffix, *Vocabulary(data).find("<fim_suffix>"));
  EXPECT_EQ(by_name->prefix, *Vocabulary(data).find("<fim_prefix>"));
  data.infill_suffix = test::add_token(data, "<three>", TokenType::Normal);
  const TokenId before = *data.infill_prefix, behind = *data.infill_suffix, middle = *data.infill_middle;
  const auto tokenizer = Tokenizer::create(data);
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(tokenizer->encode_infill("aa", "b"), Ids({1, before, a, a, behind, b, middle}));  // 1: <s>
  EXPECT_EQ(tokenizer->encode_infill("", "", {.add_special = false}), Ids({before, behind, middle}));
  EXPECT_EQ(tokenizer->encode_infill("a", "<one>b", {.add_special = false}),
            Ids({before, a, behind, middle, b, middle}));
  // Strangers' text makes no marks.
  const Ids plain = tokenizer->encode_infill("a", "<one>b", kPlain);
  EXPECT_EQ(std::ranges::count(plain, middle), 1);
  EXPECT_EQ(plain.back(), middle);
  Ids expected = {before, a, behind};
  const Ids text = tokenizer->encode("<one>b", kPlain);
  expected.insert(expected.end(), text.begin(), text.end());
  expected.push_back(middle);
  EXPECT_EQ(plain, expected);
  data.add_space_prefix = true;
  const TokenId space = test::add_token(data, "▁", TokenType::Normal);
  EXPECT_EQ(Tokenizer::create(data)->encode_infill("a", "b"), Ids({1, before, space, a, behind, b, middle}));
}

TEST(Tokenizer, PutsTextsIntoATemplate) {
  VocabularyData data = test::sentencepiece_vocabulary({"a", "b", "{", "}"});
  data.add_space_prefix = false;
  const TokenId mark = test::add_token(data, "<m>", TokenType::Control);
  const TokenId user = test::add_token(data, "ab", TokenType::UserDefined);
  const auto tokenizer = Tokenizer::create(data);
  const auto id = [&](const char* text) { return *tokenizer->vocabulary().find(text); };
  const auto encode = [&](std::string_view text, std::string_view query, std::string_view document) {
    return tokenizer->encode_template(text, {{{"query", query}, {"document", document}}});
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode("<m>{query}<m>{document}<m>", "a", "bb"), Ids({mark, id("a"), mark, id("b"), id("b"), mark}));
  EXPECT_EQ(encode("b{query}", "ab", ""), Ids({id("b"), user}));
  EXPECT_EQ(encode("a{query}", "b", ""), Ids({user}));  // as the whole text is read
  EXPECT_EQ(encode("{query}{query}", "a", "b"), Ids({id("a"), id("a")}));
  EXPECT_EQ(encode("{a}{", "a", "b"), Ids({id("{"), id("a"), id("}"), id("{")}));  // nobody's name
  EXPECT_EQ(encode("{query}", "{document}", "b"), tokenizer->encode("{document}", kPlain));
  EXPECT_EQ(encode("{query}<m>", "", ""), Ids({mark}));
  const Ids spelled = encode("<m>{query}", "<m>", "");
  EXPECT_EQ(std::ranges::count(spelled, mark), 1);
  EXPECT_EQ(Ids(spelled.begin() + 1, spelled.end()), tokenizer->encode("<m>", kPlain));
}

TEST(Tokenizer, TakesANameThatEndsTurnsForAControlToken) {
  for (const TokenType type : {TokenType::Normal, TokenType::UserDefined}) {
    VocabularyData data = test::sentencepiece_vocabulary({"\u2581", "a"});
    const TokenId turn = test::add_token(data, "<|im_end|>", type);
    const auto tokenizer = Tokenizer::create(data);
    EXPECT_EQ(tokenizer->encode("<|im_end|>", {.add_special = false}), std::vector<TokenId>({turn}));
    const auto plain = tokenizer->encode("<|im_end|>", kPlain);  // a stranger's text
    EXPECT_EQ(std::ranges::find(plain, turn), plain.end());
    EXPECT_EQ(detokenize(tokenizer->vocabulary(), std::vector<TokenId>({turn})), "");
  }
}

TEST(Tokenizer, ComposesTextOfQwen2ButNotItsSpecialTokens) {
  VocabularyData data = load_vocabulary(test::kDemoModel);
  const TokenId special = test::add_token(data, "<e\u0301>", TokenType::Control);
  for (const char* pre : {"qwen2", "deepseek-r1-qwen", "qwen35"}) {
    data.pre = pre;
    const auto tokenizer = Tokenizer::create(data);
    const auto composed = tokenizer->encode("caf\u00e9", kPlain);
    EXPECT_EQ(tokenizer->encode("cafe\u0301", kPlain), composed) << pre;
    auto both = composed;
    both.push_back(special);
    EXPECT_EQ(tokenizer->encode("cafe\u0301<e\u0301>", {.add_special = false}), both) << pre;
  }
  data.pre = "llama-bpe";
  const auto tokenizer = Tokenizer::create(data);
  EXPECT_NE(tokenizer->encode("cafe\u0301", kPlain), tokenizer->encode("caf\u00e9", kPlain));
}

TEST(Tokenizer, TellsOfBytesThatTheVocabularyLacks) {
  VocabularyData data;
  data.path = "m.gguf";
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.merges = {"a b"};
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) data.tokens.emplace_back(alphabet.letter(static_cast<uint8_t>(byte)));
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::Warning);
  data.tokens[0xFF] = "no byte of UTF-8";
  (void)Tokenizer::create(data);
  EXPECT_TRUE(lines.empty());
  data.tokens['q'] = data.tokens['z'] = "x";
  (void)Tokenizer::create(data);
  data.unknown = 0;
  (void)Tokenizer::create(data);
  set_log_sink({}, LogLevel::Error);
  EXPECT_EQ(lines, std::vector<std::string>(
                       {"m.gguf: the vocabulary has no token for 2 of the 209 bytes that texts are made of: they "
                        "are left out"}));
}

TEST(ByteAlphabet, SpellsAsGpt2Does) {
  const ByteAlphabet alphabet;
  EXPECT_EQ(alphabet.letter(' '), "Ġ");
  EXPECT_EQ(alphabet.letter('\n'), "Ċ");
  EXPECT_EQ(alphabet.letter('A'), "A");
  EXPECT_EQ(alphabet.letter(0xAD), "Ń");
  EXPECT_EQ(alphabet.letter(0xFF), "ÿ");
  EXPECT_EQ(alphabet.spell(" é"), "ĠÃ©");
  EXPECT_EQ(alphabet.unspell("ĠÃ©字"), " é字");
}

}  // namespace
}  // namespace inflight
