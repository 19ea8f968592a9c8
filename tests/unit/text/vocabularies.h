// SPDX-License-Identifier: Apache-2.0
// Small vocabularies for tests of src/text.
#pragma once

#include <string>
#include <vector>

#include "core/vocabulary_data.h"

namespace inflight::test {

// SentencePiece: <unk> <s> </s>, the 256 byte tokens from id 3 on, then `pieces` with descending scores.
inline VocabularyData sentencepiece_vocabulary(const std::vector<std::string>& pieces) {
  VocabularyData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.types = {TokenType::Unknown, TokenType::Control, TokenType::Control};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    data.tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    data.types.push_back(TokenType::Byte);
  }
  data.scores.assign(data.tokens.size(), 0.0F);
  for (const std::string& piece : pieces) {
    data.tokens.push_back(piece);
    data.types.push_back(TokenType::Normal);
    data.scores.push_back(-static_cast<float>(data.scores.size()));
  }
  return data;
}

inline TokenId add_token(VocabularyData& data, const std::string& text, TokenType type) {
  data.tokens.push_back(text);
  data.types.resize(data.tokens.size(), TokenType::Normal);
  data.types.back() = type;
  if (!data.scores.empty()) data.scores.push_back(0.0F);
  return static_cast<TokenId>(data.tokens.size() - 1);
}

}  // namespace inflight::test
