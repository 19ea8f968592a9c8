// SPDX-License-Identifier: Apache-2.0
// BPE (Sennrich et al. 2016; on bytes Radford et al. 2019): within a word of the pre-tokenizer, starting from bytes or
// characters, the two neighbours that come first in the list of merges are joined, the leftmost first, until no two
// can be. Bytes that are no character, and those of characters that are no token, become tokens of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace inflight {

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(const VocabularyData& data);

 private:
  struct Scratch;
  void read_merges(const VocabularyData& data);
  void warn_of_missing_letters(const VocabularyData& data) const;
  void encode_text(std::string_view text, bool after_special, std::vector<TokenId>& ids) const override;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void begin_symbols(std::string_view word, Scratch& scratch) const;
  // The word's own token, where merges are not asked.
  [[nodiscard]] std::optional<TokenId> whole_token(std::string_view word) const;

  ByteAlphabet alphabet_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_ = false;
  bool nfc_ = false;
  bool of_characters_ = false;
  size_t token_bytes_max_ = 0;
  // Symbols are token ids, and behind them the strings that merges mention but that are no tokens.
  std::array<int32_t, 256> byte_symbols_{};
  int32_t no_symbol_ = 0;  // behind all others: is never joined
  MergeTable merges_;
};

}  // namespace inflight
