// SPDX-License-Identifier: Apache-2.0
// Token ids to text, as they come: a character whose bytes are spread over tokens appears when it is whole. What comes
// out is always valid UTF-8; bytes that can be no character become U+FFFD.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/vocabulary.h"

namespace inflight {

struct DetokenizeOptions {
  bool show_control = false;         // print control tokens' spelling instead of nothing
  std::span<const TokenId> shown{};  // or that of these.   LIFETIME: as the detokenizer's
  // SentencePiece puts a space before a text. True: the ids are a whole text, so drop it; false: they continue one.
  bool whole_text = true;
};

// THREAD: one at a time per object.
class Detokenizer {
 public:
  // LIFETIME: `vocabulary` is borrowed.
  explicit Detokenizer(const Vocabulary& vocabulary, const DetokenizeOptions& options = {});

  // The text that is certain now that `id` has come; often empty.   LIFETIME: until the next call.
  // ERRORS: InvalidArgument for an id outside the vocabulary.
  std::string_view push(TokenId id);

  // The rest: an unfinished character as U+FFFD. Then begins anew.   LIFETIME: until the next call.
  std::string_view flush();

  // Bytes waiting for the rest of their character, 0 to 3.
  [[nodiscard]] size_t pending_bytes() const { return pending_.size(); }

 private:
  const Vocabulary& vocabulary_;
  DetokenizeOptions options_;
  bool drop_space_ = false;  // a SentencePiece space, if the next printed token begins with one
  std::string pending_;
  std::string text_;
};

// All at once.  ERRORS: as push().
[[nodiscard]] std::string detokenize(const Vocabulary& vocabulary, std::span<const TokenId> ids,
                                     const DetokenizeOptions& options = {});

// The same without the repair: the exact bytes.
[[nodiscard]] std::string detokenize_bytes(const Vocabulary& vocabulary, std::span<const TokenId> ids,
                                           const DetokenizeOptions& options = {});

}  // namespace inflight
