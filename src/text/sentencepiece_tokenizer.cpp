// SPDX-License-Identifier: Apache-2.0
#include "text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/sentencepiece_space.h"

namespace inflight {

SentencePieceTokenizer::SentencePieceTokenizer(const VocabularyData& data) : Tokenizer(data), scores_(data.scores) {
  if (scores_.size() != data.tokens.size()) {
    fail(ErrorCode::CorruptFile, "metadata key 'tokenizer.ggml.scores' has {} elements for {} tokens", scores_.size(),
         data.tokens.size());
  }
  for (TokenId id = 0; id < vocabulary().size(); ++id) {
    if (std::isnan(scores_[static_cast<size_t>(id)])) {
      fail(ErrorCode::CorruptFile, "the vocabulary's token {} has no number for a score", id);
    }
    piece_bytes_max_ = std::max(piece_bytes_max_, vocabulary().text(id).size());
  }
}

std::optional<TokenId> SentencePieceTokenizer::find_piece(std::string_view piece) const {
  if (piece.size() > piece_bytes_max_) return {};
  const auto id = vocabulary().find(piece);
  if (!id) return {};
  const TokenType type = vocabulary().type(*id);
  return type == TokenType::Control || type == TokenType::Unknown || type == TokenType::Byte ? std::nullopt : id;
}

// One run over one text. Symbols are a doubly linked list in an array; a joined one leaves its right half empty.
class SentencePieceTokenizer::Merger {
 public:
  Merger(const SentencePieceTokenizer& owner, std::string_view text) : owner_(owner), text_(text) {
    for (size_t offset = 0; offset < text.size();) {
      const uint32_t length = first_utf8_character(text.substr(offset)).length;
      const auto index = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({static_cast<uint32_t>(offset), length, index - 1, index + 1});
      offset += length;
    }
    symbols_.back().next = -1;
  }

  void run(std::vector<TokenId>& ids) {
    for (int32_t left = 0; symbols_[static_cast<size_t>(left)].next >= 0; ++left) consider(left);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const Symbol& left = at(best.left);
      if (left.length == 0 || left.next < 0 || left.length + at(left.next).length != best.length) continue;  // outdated
      join(best);
    }
    for (int32_t index = 0; index >= 0; index = at(index).next) emit(view(at(index)), ids);
  }

 private:
  struct Symbol {
    uint32_t offset = 0;
    uint32_t length = 0;  // bytes; 0: joined to its left neighbour
    int32_t previous = -1;
    int32_t next = -1;
  };
  struct Candidate {
    float score = 0;
    int32_t left = 0;
    uint32_t length = 0;  // of both halves: tells an outdated candidate
    TokenId id = 0;
    // std::priority_queue keeps the greatest on top.
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  Symbol& at(int32_t index) { return symbols_[static_cast<size_t>(index)]; }
  [[nodiscard]] std::string_view view(const Symbol& symbol) const { return text_.substr(symbol.offset, symbol.length); }

  void consider(int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const uint32_t length = at(left).length + at(at(left).next).length;
    const auto id = owner_.find_piece(text_.substr(at(left).offset, length));
    if (id) queue_.push({owner_.scores_[static_cast<size_t>(*id)], left, length, *id});
  }

  void join(const Candidate& best) {
    Symbol& left = at(best.left);
    Symbol& right = at(left.next);
    if (owner_.vocabulary().type(best.id) == TokenType::Unused) {
      unused_halves_.try_emplace(view({left.offset, best.length, -1, -1}), left.length);
    }
    left.length = best.length;
    right.length = 0;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }

  // Unused tokens may be merged through but are not output: they fall apart into what they were made of.
  void emit(std::string_view piece, std::vector<TokenId>& ids) {
    const auto id = owner_.find_piece(piece);
    if (id && owner_.vocabulary().type(*id) != TokenType::Unused) {
      ids.push_back(*id);
    } else if (const auto halves = unused_halves_.find(piece); halves != unused_halves_.end()) {
      emit(piece.substr(0, halves->second), ids);
      emit(piece.substr(halves->second), ids);
    } else {
      owner_.encode_bytes(piece, ids);
    }
  }

  const SentencePieceTokenizer& owner_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
  std::unordered_map<std::string_view, uint32_t> unused_halves_;  // length of the left one
};

void SentencePieceTokenizer::encode_text(std::string_view text, bool after_special, std::vector<TokenId>& ids) const {
  std::string spaced = vocabulary().add_space_prefix() && after_special ? std::string(kSentencePieceSpace) : "";
  spaced += to_sentencepiece_spaces(text);
  Merger(*this, spaced).run(ids);
}

}  // namespace inflight
