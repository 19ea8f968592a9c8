// SPDX-License-Identifier: Apache-2.0
// UTF-8, one character at a time. Ill-formed bytes are cut as the Unicode standard recommends (§3.9, "maximal
// subpart"), which is also what Python's errors="replace" and the WHATWG decoder do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inflight {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

enum class Utf8Status : uint8_t {
  Valid,
  Invalid,     // no continuation could make these bytes a character
  Incomplete,  // the text ends inside a character that is well formed so far
};

struct Utf8Character {
  char32_t code_point = kReplacementCharacter;  // as it is when Valid
  uint32_t length = 0;                          // bytes, >= 1
  Utf8Status status = Utf8Status::Invalid;
};

// The first character of `text`.  REQUIRES: text is not empty.
[[nodiscard]] Utf8Character first_utf8_character(std::string_view text);

// Bytes before the first one that is not part of a valid character.
[[nodiscard]] size_t valid_utf8_length(std::string_view text);

// Characters, an ill-formed sequence counting as one.
[[nodiscard]] size_t count_utf8_characters(std::string_view text);

// REQUIRES: code_point is a Unicode scalar value.
void append_utf8(std::string& text, char32_t code_point);

// `text` with every ill-formed sequence replaced by U+FFFD.
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

}  // namespace inflight
