// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/limits.h"
#include "text/bpe_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"

namespace inflight {

Tokenizer::Tokenizer(const VocabularyData& data) : vocabulary_(data), special_tokens_(vocabulary_) {}

std::unique_ptr<Tokenizer> Tokenizer::create(const VocabularyData& data) {
  try {
    if (data.model == "gpt2" || data.model == "gemma4") return std::make_unique<BpeTokenizer>(data);
    return std::make_unique<SentencePieceTokenizer>(data);  // Vocabulary refuses models other than "llama"
  } catch (const Error& error) {
    if (data.path.empty()) throw;
    fail(error.code(), "{}: {}", data.path, error.what());
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  if (options.add_special && vocabulary_.add_bos()) ids.push_back(*vocabulary_.bos());
  encode_parts(text, options.parse_special, true, ids);
  if (options.add_special && vocabulary_.add_eos()) ids.push_back(*vocabulary_.eos());
  return ids;
}

void Tokenizer::encode_parts(std::string_view text, bool parse_special, bool after_special,
                             std::vector<TokenId>& ids) const {
  if (text.size() > limits::kPromptBytesMax) {
    fail(ErrorCode::InvalidArgument, "the text has {} bytes, allowed: {}", text.size(), limits::kPromptBytesMax);
  }
  size_t done = 0;
  while (done < text.size()) {
    const auto match = special_tokens_.find(text, done, parse_special);
    const size_t end = match ? match->offset : text.size();
    if (end > done) {
      encode_text(text.substr(done, end - done), after_special, ids);
      after_special = false;
    }
    if (!match) break;
    ids.push_back(match->id);
    after_special = true;
    done = match->offset + match->length;
    if (vocabulary_.strips_behind(match->id)) done = std::min(text.find_first_not_of(" \t\n\v\f\r", done), text.size());
  }
}

std::vector<TokenId> Tokenizer::encode_infill(std::string_view before, std::string_view behind,
                                              const EncodeOptions& options) const {
  const auto marks = vocabulary_.infill_tokens();
  if (!marks) fail(ErrorCode::Unsupported, "the model's vocabulary has no tokens that mark an insertion (fim_prefix)");
  std::vector<TokenId> ids;
  if (options.add_special && vocabulary_.add_bos()) ids.push_back(*vocabulary_.bos());
  ids.push_back(marks->prefix);
  encode_parts(before, options.parse_special, true, ids);
  ids.push_back(marks->suffix);
  encode_parts(behind, options.parse_special, false, ids);
  ids.push_back(marks->middle);
  return ids;
}

void Tokenizer::encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) {
    const auto id = vocabulary_.find_byte(static_cast<uint8_t>(byte));
    if (const auto token = id ? id : vocabulary_.unknown()) ids.push_back(*token);
  }
}

}  // namespace inflight
