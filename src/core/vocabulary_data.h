// SPDX-License-Identifier: Apache-2.0
// A model's vocabulary as its file states it: written by model/, read by text/. Field names follow GGUF's
// tokenizer.ggml.* keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace inflight {

enum class TokenType : int32_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,      // begin, end, turn markers: no text of their own
  UserDefined = 4,  // matched in the text before anything else
  Unused = 5,
  Byte = 6,  // "<0x41>"
};

struct VocabularyData {
  std::string path;   // the file's, for messages; empty: none
  std::string model;  // "llama" (SentencePiece), "gpt2" (byte-level BPE); empty: the file has no vocabulary
  std::string pre;    // pre-tokenizer type of gpt2: "default", "gpt-2", "llama-bpe", ...
  std::vector<std::string> tokens;  // text of each id, in the file's spelling
  std::vector<float> scores;        // llama: one a token
  std::vector<TokenType> types;     // one a token, or empty: all Normal
  std::vector<std::string> merges;  // gpt2: "left right", best first
  std::optional<TokenId> bos, eos, eot, eom, unknown;
  // Marks around the text before and behind an insertion, and of where it is written; absent: known by their names.
  std::optional<TokenId> infill_prefix, infill_suffix, infill_middle;
  std::vector<TokenId> suppressed;  // never drawn, such as places of images (suppress_tokens)
  // Whether the tokenizer adds them; absent = the tokenizer model's own default.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool strips_behind_special = false;  // whitespace behind special tokens is no text (Phi 3)
  std::string chat_template;           // Jinja; empty = none
  std::string rerank_template;         // a text with {query} and {document}; empty = none
};

}  // namespace inflight
