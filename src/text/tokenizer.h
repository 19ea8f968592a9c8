// SPDX-License-Identifier: Apache-2.0
// Text to token ids, as the model was trained with. Immutable after creation: any number of threads may encode at once.
// Any bytes are accepted, UTF-8 or not; decoding the ids gives the same bytes again (see Detokenizer), or their NFC
// where the pre-tokenizer asks for it, unless the vocabulary has no token for some byte: that byte becomes the unknown
// token, or nothing where there is none.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "core/vocabulary_data.h"
#include "text/special_tokens.h"
#include "text/vocabulary.h"

namespace inflight {

struct EncodeOptions {
  bool add_special = true;    // begin and end tokens, where the vocabulary asks for them
  bool parse_special = true;  // text like "<|im_end|>" is that token; off for strangers' text
};

class Tokenizer {
 public:
  // ERRORS: as Vocabulary; Unsupported for an unknown pre-tokenizer; CorruptFile for missing scores or merges, or
  // broken
  //         ones; each with the file's path. A byte-level vocabulary that loses bytes is told by a warning.
  [[nodiscard]] static std::unique_ptr<Tokenizer> create(const VocabularyData& data);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // COST:   O(n log n), whatever the text.
  // ERRORS: InvalidArgument for more than limits::kPromptBytesMax bytes.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The prompt for what stands between two texts, either of which may be empty (fill in the middle): the mark of the
  // text before, that text, the mark of the text behind, that text, and the mark of the middle, which is what the model
  // writes. The text behind goes on: where texts get a space in front, it gets none. SOURCE: Bavarian et al. 2022 (the
  // order prefix, suffix, middle), CodeLlama's own tokenizer (no space). ERRORS: Unsupported where the vocabulary has
  // no such marks; as encode().
  [[nodiscard]] std::vector<TokenId> encode_infill(std::string_view before, std::string_view behind,
                                                   const EncodeOptions& options = {}) const;

  // A template whose {names} stand for values. Control tokens are those that the template spells; in values such texts
  // are text. Names without a value stay as they are. Nothing is added around it.   ERRORS: as encode().
  using NamedText = std::pair<std::string_view, std::string_view>;
  [[nodiscard]] std::vector<TokenId> encode_template(std::string_view text, std::span<const NamedText> values) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit Tokenizer(const VocabularyData& data);

  // Appends the ids of `text`, which is not empty and has no special tokens. after_special: nothing but a special
  // token, or nothing at all, is before it.
  virtual void encode_text(std::string_view text, bool after_special, std::vector<TokenId>& ids) const = 0;
  // Appends the tokens of single bytes.
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;

 private:
  // The special tokens of `text`; what is between them is left to the caller.
  using EncodeBetween = std::function<void(std::string_view between, bool after_special)>;
  void encode_around_special(std::string_view text, bool parse_special, bool after_special, std::vector<TokenId>& ids,
                             const EncodeBetween& encode_between) const;
  // encode() of a text, which need not be the whole prompt.
  void encode_parts(std::string_view text, bool parse_special, bool after_special, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  SpecialTokens special_tokens_;
};

}  // namespace inflight
