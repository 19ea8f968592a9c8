// SPDX-License-Identifier: Apache-2.0
// A vocabulary ready for use: ids to texts and back, what each token adds to the output, and which are special.
// Immutable, so any number of threads and engines' streams may share one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/vocabulary_data.h"

namespace inflight {

// CharacterBpe (Gemma 4): merges of characters instead of bytes, spelled as SentencePiece does, with tokens of bytes
// for characters that are none.
enum class VocabularyKind : uint8_t { SentencePiece, ByteLevelBpe, CharacterBpe };

// The tokens of an insertion: before the text ahead of it, before the text behind it, before what is inserted.
struct InfillTokens {
  TokenId prefix, suffix, middle;
};

class Vocabulary {
 public:
  // ERRORS: Unsupported for another model than "llama", "gpt2" and "gemma4"; CorruptFile for no tokens, arrays of
  // another length
  //         than the tokens, special ids out of range.
  explicit Vocabulary(const VocabularyData& data);
  // Texts are views into one another's storage.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  [[nodiscard]] VocabularyKind kind() const { return kind_; }
  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(types_.size()); }
  [[nodiscard]] bool contains(TokenId id) const { return id >= 0 && id < size(); }

  // REQUIRES (these four): contains(id).
  // The file's spelling: "▁the", "Ġthe", "<0x0A>", "<|im_end|>".
  [[nodiscard]] std::string_view text(TokenId id) const { return texts_.at(id); }
  // The bytes that it stands for: " the", "\n"; perhaps part of a character. A control token's are its spelling.
  [[nodiscard]] std::string_view bytes(TokenId id) const { return bytes_.at(id); }
  // As in the file, but that tokens named like an end of turn are always control tokens.
  [[nodiscard]] TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  // Whether it is a marker that output shows only on demand: control and unknown tokens.
  [[nodiscard]] bool is_control(TokenId id) const {
    return type(id) == TokenType::Control || type(id) == TokenType::Unknown;
  }

  // By the file's spelling, any type.
  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  // The token of one byte, which has no effect on its neighbours; none in vocabularies without byte tokens.
  [[nodiscard]] std::optional<TokenId> find_byte(uint8_t byte) const;

  [[nodiscard]] std::optional<TokenId> bos() const { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const { return eos_; }
  [[nodiscard]] std::optional<TokenId> unknown() const { return unknown_; }
  // What ends an answer, ascending: eos, the file's end of turn and of message, and tokens with a name that can mean
  // nothing else.
  [[nodiscard]] const std::vector<TokenId>& end_tokens() const { return end_tokens_; }
  // Of models that were trained to insert (fill in the middle).
  [[nodiscard]] std::optional<InfillTokens> infill_tokens() const { return infill_tokens_; }
  // What the model never answers with, whatever a request wants.
  [[nodiscard]] const std::vector<TokenId>& suppressed_tokens() const { return suppressed_tokens_; }
  // Whether encoding with special tokens begins and ends with them; only true with the id present.
  [[nodiscard]] bool add_bos() const { return add_bos_; }
  [[nodiscard]] bool add_eos() const { return add_eos_; }
  // Whether text gets a space in front (SentencePiece).
  [[nodiscard]] bool add_space_prefix() const { return add_space_prefix_; }
  // Whether whitespace behind this special token is no text: of Phi 3's all but the begin and end of texts.
  [[nodiscard]] bool strips_behind(TokenId id) const {
    return strips_behind_special_ && id != bos_ && id != unknown_ && text(id) != "<|endoftext|>";
  }

 private:
  // Strings one after the other in one allocation.
  class Strings {
   public:
    void append(std::string_view text) {
      characters_ += text;
      ends_.push_back(characters_.size());
    }
    [[nodiscard]] std::string_view at(TokenId id) const {
      const auto index = static_cast<size_t>(id);
      const size_t begin = index == 0 ? 0 : ends_[index - 1];
      return std::string_view(characters_).substr(begin, ends_[index] - begin);
    }

   private:
    std::string characters_;
    std::vector<size_t> ends_;
  };

  void read_tokens(const VocabularyData& data);
  void read_special_tokens(const VocabularyData& data);
  void find_end_tokens(const VocabularyData& data);
  void find_infill_tokens(const VocabularyData& data);

  VocabularyKind kind_ = VocabularyKind::SentencePiece;
  Strings texts_;
  Strings bytes_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys view texts_
  std::array<TokenId, 256> byte_ids_{};                // -1: none
  std::optional<TokenId> bos_, eos_, unknown_;
  std::optional<InfillTokens> infill_tokens_;
  std::vector<TokenId> end_tokens_, suppressed_tokens_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false, strips_behind_special_ = false;
};

}  // namespace inflight
