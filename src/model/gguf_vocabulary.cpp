// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_vocabulary.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"

namespace inflight {
namespace {

constexpr int64_t kTokenTypeMax = static_cast<int64_t>(TokenType::Byte);

void require_one_a_token(const GgufFile& file, const char* key, size_t count, size_t token_count) {
  if (count != token_count) {
    fail(ErrorCode::CorruptFile, "{}: metadata key '{}' has {} elements for {} tokens", file.path(), key, count,
         token_count);
  }
}

std::vector<float> read_scores(const GgufFile& file, size_t token_count) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  const auto scores = file.find_numbers(kKey);
  if (!scores) return {};
  require_one_a_token(file, kKey, scores->size(), token_count);
  return {scores->begin(), scores->end()};
}

std::vector<TokenType> read_types(const GgufFile& file, size_t token_count) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  const auto stored = file.find_integers(kKey);
  if (!stored) return {};
  require_one_a_token(file, kKey, stored->size(), token_count);
  std::vector<TokenType> types;
  types.reserve(token_count);
  for (size_t id = 0; id < token_count; ++id) {
    const int64_t type = (*stored)[id];
    if (type < 0 || type > kTokenTypeMax) {
      fail(ErrorCode::CorruptFile, "{}: metadata key '{}': token {} has type {}, allowed: 0 to {}", file.path(), kKey,
           id, type, kTokenTypeMax);
    }
    types.push_back(type == 0 ? TokenType::Normal : static_cast<TokenType>(type));  // 0: "undefined"
  }
  return types;
}

std::vector<TokenId> read_suppressed(const GgufFile& file, size_t token_count) {
  std::vector<TokenId> tokens;
  for (const int64_t id : file.find_integers("tokenizer.ggml.suppress_tokens").value_or(std::vector<int64_t>())) {
    if (id >= 0 && static_cast<uint64_t>(id) < token_count) tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

// Converters write -1, 2^32 - 1 or the vocabulary's size where a model has no such token.
std::optional<TokenId> read_special(const GgufFile& file, const char* key, size_t token_count) {
  const auto id = file.find_integer(key);
  if (!id) return {};
  if (*id < 0 || static_cast<uint64_t>(*id) >= token_count) {
    log(LogLevel::Warning, "{}: metadata key '{}' is {}, which is none of the {} tokens: taken as absent", file.path(),
        key, *id, token_count);
    return {};
  }
  return static_cast<TokenId>(*id);
}

}  // namespace

VocabularyData read_vocabulary(const GgufFile& file) {
  VocabularyData data;
  data.path = file.path();
  data.model = file.find_string("tokenizer.ggml.model").value_or("");
  if (data.model == "no_vocab" || data.model == "none") data.model.clear();
  if (data.model.empty()) return data;

  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!tokens) {
    fail(ErrorCode::CorruptFile, "{}: metadata key 'tokenizer.ggml.tokens' is missing", file.path());
  }
  const size_t count = tokens->size();
  if (count == 0 || count > static_cast<size_t>(limits::kVocabularyMax)) {
    fail(ErrorCode::CorruptFile, "{}: the vocabulary has {} tokens, allowed: 1 to {}", file.path(), count,
         limits::kVocabularyMax);
  }
  data.tokens.assign(tokens->begin(), tokens->end());
  data.pre = file.find_string("tokenizer.ggml.pre").value_or("");
  data.scores = read_scores(file, count);
  data.types = read_types(file, count);
  if (const auto merges = file.find_strings("tokenizer.ggml.merges")) {
    data.merges.assign(merges->begin(), merges->end());
  }
  data.bos = read_special(file, "tokenizer.ggml.bos_token_id", count);
  data.eos = read_special(file, "tokenizer.ggml.eos_token_id", count);
  data.eot = read_special(file, "tokenizer.ggml.eot_token_id", count);
  data.eom = read_special(file, "tokenizer.ggml.eom_token_id", count);
  data.unknown = read_special(file, "tokenizer.ggml.unknown_token_id", count);
  // The older name second.
  const auto infill = [&](const char* key, const char* older) {
    const auto id = read_special(file, key, count);
    return id ? id : read_special(file, older, count);
  };
  data.infill_prefix = infill("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id");
  data.infill_suffix = infill("tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id");
  data.infill_middle = infill("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id");
  data.suppressed = read_suppressed(file, count);
  data.add_bos = file.find_bool("tokenizer.ggml.add_bos_token");
  data.add_eos = file.find_bool("tokenizer.ggml.add_eos_token");
  data.add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  // No key says so: transformers has it in the tokenizer's configuration, llama.cpp by the model's name.
  data.strips_behind_special = data.model == "llama" && file.find_string("general.architecture") == "phi3";
  data.chat_template = file.find_string("tokenizer.chat_template").value_or("");
  data.rerank_template = file.find_string("tokenizer.chat_template.rerank").value_or("");
  return data;
}

}  // namespace inflight
