// SPDX-License-Identifier: Apache-2.0
// Cuts text into the words that byte-level BPE merges within. Each published tokenizer has its own regular expressions,
// which GGUF files refer to by name (tokenizer.ggml.pre); the expressions here are those of the models' tokenizer.json.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace inflight {

struct PreTokenizerType {
  std::string_view name;
  // Applied in order: each cuts the pieces that the one before it left; what it does not match stays a piece.
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool add_bos = false;        // unless the file says otherwise
  bool nfc = false;            // text is brought into Unicode's composed form (NFC) first, special tokens aside
};

// name: as in the file; empty means "default".  ERRORS: Unsupported, listing the names.
[[nodiscard]] const PreTokenizerType& find_pre_tokenizer_type(std::string_view name);

// THREAD: split() may be called from any number of threads at once.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerType& type);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  // Appends the words of `text`, which cover it without gaps. A run of bytes that is no UTF-8 is a word of its own.
  // LIFETIME: words view `text`.   ERRORS: InvalidArgument when PCRE2 gives up (its match limit).
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Pattern;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace inflight
