// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/limits.h"
#include "text/bpe_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"

namespace inflight {
namespace {

// {NAME} becomes the value of that name.
std::string with_values(std::string_view text, std::span<const Tokenizer::NamedText> values) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto stands_here = [&](const Tokenizer::NamedText& value) {
      const std::string_view name = value.first;
      return text.substr(i + 1).starts_with(name) && text.substr(i + 1 + name.size()).starts_with('}');
    };
    const auto value = text[i] == '{' ? std::ranges::find_if(values, stands_here) : values.end();
    if (value == values.end()) {
      result += text[i++];
    } else {
      result += value->second;
      i += value->first.size() + 2;
    }
  }
  return result;
}

}  // namespace

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

void Tokenizer::encode_around_special(std::string_view text, bool parse_special, bool after_special,
                                      std::vector<TokenId>& ids, const EncodeBetween& encode_between) const {
  if (text.size() > limits::kPromptBytesMax) {
    fail(ErrorCode::InvalidArgument, "the text has {} bytes, allowed: {}", text.size(), limits::kPromptBytesMax);
  }
  size_t done = 0;
  while (done < text.size()) {
    const auto match = special_tokens_.find(text, done, parse_special);
    const size_t end = match ? match->offset : text.size();
    if (end > done) {
      encode_between(text.substr(done, end - done), after_special);
      after_special = false;
    }
    if (!match) break;
    ids.push_back(match->id);
    after_special = true;
    done = match->offset + match->length;
    if (vocabulary_.strips_behind(match->id)) done = std::min(text.find_first_not_of(" \t\n\v\f\r", done), text.size());
  }
}

void Tokenizer::encode_parts(std::string_view text, bool parse_special, bool after_special,
                             std::vector<TokenId>& ids) const {
  encode_around_special(text, parse_special, after_special, ids,
                        [&](std::string_view between, bool after) { encode_text(between, after, ids); });
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

std::vector<TokenId> Tokenizer::encode_template(std::string_view text, std::span<const NamedText> values) const {
  std::vector<TokenId> ids;
  encode_around_special(text, true, true, ids, [&](std::string_view between, bool after_special) {
    encode_parts(with_values(between, values), false, after_special, ids);
  });
  return ids;
}

void Tokenizer::encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) {
    const auto id = vocabulary_.find_byte(static_cast<uint8_t>(byte));
    if (const auto token = id ? id : vocabulary_.unknown()) ids.push_back(*token);
  }
}

}  // namespace inflight
