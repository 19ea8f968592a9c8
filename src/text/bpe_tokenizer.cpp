// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/sentencepiece_space.h"
#include "text/unicode.h"

namespace inflight {

struct BpeTokenizer::Scratch {
  struct Symbol {
    int32_t id = -1;  // -1: joined to its left neighbour
    uint32_t offset = 0;
    int32_t previous = -1;
    int32_t next = -1;
    MergeTable::Merge merge;  // with the next one
  };
  std::vector<Symbol> symbols;
  // rank << 32 | index of the left symbol: the least is the next merge.
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue;
  std::vector<std::string_view> words;
};

namespace {

// Gemma 4's files name another one, or none.
const PreTokenizerType& pre_tokenizer_type_of(const VocabularyData& data) {
  return find_pre_tokenizer_type(data.model == "gemma4" ? "gemma4" : data.pre);
}

}  // namespace

BpeTokenizer::BpeTokenizer(const VocabularyData& data)
    : Tokenizer(data),
      pre_tokenizer_(pre_tokenizer_type_of(data)),
      ignore_merges_(pre_tokenizer_type_of(data).ignore_merges),
      nfc_(pre_tokenizer_type_of(data).nfc),
      of_characters_(vocabulary().kind() == VocabularyKind::CharacterBpe),
      merges_(data.merges.size()) {
  if (data.merges.empty()) fail(ErrorCode::CorruptFile, "metadata key 'tokenizer.ggml.merges' is missing");
  read_merges(data);
  warn_of_missing_letters(data);
  for (TokenId id = 0; id < vocabulary().size(); ++id) {
    token_bytes_max_ = std::max(token_bytes_max_, vocabulary().bytes(id).size());
  }
}

void BpeTokenizer::read_merges(const VocabularyData& data) {
  std::unordered_map<std::string, int32_t> others;
  const auto symbol_of = [&](std::string_view text) {
    const auto id = vocabulary().find(text);
    if (id && !vocabulary().is_control(*id)) return *id;
    const auto next = static_cast<int32_t>(vocabulary().size() + static_cast<int32_t>(others.size()));
    return others.try_emplace(std::string(text), next).first->second;
  };
  for (int byte = 0; byte < 256 && !of_characters_; ++byte) {
    byte_symbols_[static_cast<size_t>(byte)] = symbol_of(alphabet_.letter(static_cast<uint8_t>(byte)));
  }
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      fail(ErrorCode::CorruptFile, "the vocabulary's merge {} is not two texts with a space between", rank);
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    const int32_t joined = symbol_of(std::string(left) + std::string(right));
    merges_.insert(symbol_of(left), symbol_of(right), {static_cast<uint32_t>(rank), joined});
  }
  no_symbol_ = static_cast<int32_t>(vocabulary().size() + static_cast<int32_t>(others.size()));
}

void BpeTokenizer::warn_of_missing_letters(const VocabularyData& data) const {
  if (vocabulary().unknown()) return;
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    // Not control characters, nor what begins no character that has been assigned in a plane of texts: published
    // vocabularies (Falcon's) lack some of these.
    const bool is_blank = byte == '\t' || byte == '\n' || byte == '\r';
    const bool in_texts =
        is_blank || (byte >= ' ' && byte <= '~') || (byte >= 0x80 && byte < 0xC0) || (byte >= 0xC2 && byte <= 0xF0);
    if (in_texts && !vocabulary().find_byte(static_cast<uint8_t>(byte))) ++missing;
  }
  if (missing == 0) return;
  log(LogLevel::Warning,
      "{}: the vocabulary has no token for {} of the 209 bytes that texts are made of: they are left out", data.path,
      missing);
}

void BpeTokenizer::encode_text(std::string_view text, bool /*after_special*/, std::vector<TokenId>& ids) const {
  Scratch scratch;
  const std::string composed = nfc_ ? to_nfc(text) : of_characters_ ? to_sentencepiece_spaces(text) : std::string();
  pre_tokenizer_.split(composed.empty() ? text : composed, scratch.words);
  for (const std::string_view word : scratch.words) encode_word(word, scratch, ids);
}

std::optional<TokenId> BpeTokenizer::whole_token(std::string_view word) const {
  // Of lines' ends Gemma 4 has tokens of several; not all files have the merges that make them.
  const bool asked = ignore_merges_ || (of_characters_ && word.front() == '\n');
  if (!asked || word.size() > token_bytes_max_) return {};
  const auto id = vocabulary().find(of_characters_ ? std::string(word) : alphabet_.spell(word));
  return id && !vocabulary().is_control(*id) ? id : std::nullopt;
}

void BpeTokenizer::begin_symbols(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (size_t offset = 0, length = 1; offset < word.size(); offset += length) {
    int32_t id = byte_symbols_[static_cast<uint8_t>(word[offset])];
    if (of_characters_) {
      length = first_utf8_character(word.substr(offset)).length;
      const auto token = vocabulary().find(word.substr(offset, length));
      id = token && !vocabulary().is_control(*token) ? *token : no_symbol_;
    }
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, static_cast<uint32_t>(offset), index - 1, index + 1, {}});
  }
  symbols.back().next = -1;
}

void BpeTokenizer::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  if (const auto id = whole_token(word)) {
    ids.push_back(*id);
    return;
  }
  begin_symbols(word, scratch);
  auto& symbols = scratch.symbols;
  const auto count = static_cast<int32_t>(symbols.size());
  const auto at = [&](int32_t index) -> Scratch::Symbol& { return symbols[static_cast<size_t>(index)]; };
  const auto consider = [&](int32_t left) {
    if (left < 0) return;
    Scratch::Symbol& symbol = at(left);
    symbol.merge = symbol.next < 0 ? MergeTable::Merge{} : merges_.find(symbol.id, at(symbol.next).id);
    if (symbol.merge.rank == UINT32_MAX) return;
    scratch.queue.push((static_cast<uint64_t>(symbol.merge.rank) << 32U) | static_cast<uint32_t>(left));
  };
  for (int32_t index = 0; index < count; ++index) consider(index);
  while (!scratch.queue.empty()) {
    const uint64_t best = scratch.queue.top();
    scratch.queue.pop();
    const auto left = static_cast<int32_t>(best & UINT32_MAX);
    Scratch::Symbol& symbol = at(left);
    if (symbol.id < 0 || symbol.merge.rank != best >> 32U) continue;  // outdated
    Scratch::Symbol& right = at(symbol.next);
    symbol.id = symbol.merge.joined;
    symbol.next = right.next;
    right.id = -1;
    if (symbol.next >= 0) at(symbol.next).previous = left;
    consider(symbol.previous);
    consider(left);
  }
  for (int32_t index = 0; index >= 0; index = at(index).next) {
    const Scratch::Symbol& symbol = at(index);
    if (symbol.id < vocabulary().size()) {
      ids.push_back(symbol.id);
    } else {
      const size_t end = symbol.next < 0 ? word.size() : at(symbol.next).offset;
      encode_bytes(word.substr(symbol.offset, end - symbol.offset), ids);
    }
  }
}

}  // namespace inflight
