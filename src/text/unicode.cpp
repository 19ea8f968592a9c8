// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.h"

namespace inflight {
namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Length of the last character of `text`, an ill-formed byte counting as one.  REQUIRES: text is not empty.
size_t last_length(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    const Utf8Character character = first_utf8_character(text.substr(text.size() - length));
    if (character.status == Utf8Status::Valid && character.length == length) return length;
  }
  return 1;
}

template <typename Predicate>
std::string_view strip_left_if(std::string_view text, Predicate&& predicate) {
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    if (!predicate(character, text.substr(0, character.length))) break;
    text.remove_prefix(character.length);
  }
  return text;
}

template <typename Predicate>
std::string_view strip_right_if(std::string_view text, Predicate&& predicate) {
  while (!text.empty()) {
    const std::string_view last = text.substr(text.size() - last_length(text));
    if (!predicate(first_utf8_character(last), last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

bool is_space(const Utf8Character& character, std::string_view /*bytes*/) {
  return character.status == Utf8Status::Valid && is_white_space(character.code_point);
}

// Whether `bytes`, one character, is among `characters`.
bool is_among(std::string_view bytes, std::string_view characters) {
  const auto all = split_characters(characters);
  return std::ranges::find(all, bytes) != all.end();
}

template <typename Map>
std::string map_characters(std::string_view text, Map&& map) {
  std::string out;
  for (const std::string_view bytes : split_characters(text)) {
    const Utf8Character character = first_utf8_character(bytes);
    if (character.status == Utf8Status::Valid) {
      append_utf8(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(character.code_point))));
    } else {
      out += bytes;
    }
  }
  return out;
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter(char32_t code_point) {
  const auto kind = category(code_point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code_point) { return category(code_point) == UTF8PROC_CATEGORY_ND; }
bool is_upper(char32_t code_point) { return category(code_point) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t code_point) { return category(code_point) == UTF8PROC_CATEGORY_LL; }

std::string_view strip_left(std::string_view text) { return strip_left_if(text, is_space); }
std::string_view strip_right(std::string_view text) { return strip_right_if(text, is_space); }

std::string_view strip_left(std::string_view text, std::string_view characters) {
  return strip_left_if(text, [&](const Utf8Character&, std::string_view bytes) { return is_among(bytes, characters); });
}

std::string_view strip_right(std::string_view text, std::string_view characters) {
  return strip_right_if(text,
                        [&](const Utf8Character&, std::string_view bytes) { return is_among(bytes, characters); });
}

std::string to_upper(std::string_view text) { return map_characters(text, utf8proc_toupper); }
std::string to_lower(std::string_view text) { return map_characters(text, utf8proc_tolower); }

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    const size_t length = character.status == Utf8Status::Valid ? character.length : 1;
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

}  // namespace inflight
