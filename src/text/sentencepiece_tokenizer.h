// SPDX-License-Identifier: Apache-2.0
// SentencePiece's BPE (Kudo & Richardson 2018): starting from characters, the two neighbours whose concatenation is the
// token of the highest score are joined, the leftmost first where scores are equal, until no two can be.
#pragma once

#include <vector>

#include "text/tokenizer.h"

namespace inflight {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const VocabularyData& data);

 private:
  class Merger;
  void encode_text(std::string_view text, bool after_special, std::vector<TokenId>& ids) const override;
  // The token that a merge may give: normal, user-defined or unused ones; never a control token.
  [[nodiscard]] std::optional<TokenId> find_piece(std::string_view piece) const;

  std::vector<float> scores_;
  size_t piece_bytes_max_ = 0;
};

}  // namespace inflight
