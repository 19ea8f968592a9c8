// SPDX-License-Identifier: Apache-2.0
// SentencePiece writes the space as U+2581 (lower one eighth block).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace inflight {

inline constexpr std::string_view kSentencePieceSpace = "\u2581";

[[nodiscard]] inline std::string to_sentencepiece_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char character : text) {
    if (character == ' ') {
      out += kSentencePieceSpace;
    } else {
      out += character;
    }
  }
  return out;
}

[[nodiscard]] inline std::string from_sentencepiece_spaces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t at = std::min(text.find(kSentencePieceSpace), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    out += ' ';
    text.remove_prefix(kSentencePieceSpace.size());
  }
  return out;
}

}  // namespace inflight
