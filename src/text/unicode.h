// SPDX-License-Identifier: Apache-2.0
// Text operations with Python's meaning of white space, letters, digits and case. Text is UTF-8; ill-formed bytes are
// left alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace inflight {

// str.isspace()
[[nodiscard]] bool is_white_space(char32_t code_point);
[[nodiscard]] bool is_letter(char32_t code_point);   // str.isalpha()
[[nodiscard]] bool is_decimal(char32_t code_point);  // str.isdecimal()
[[nodiscard]] bool is_upper(char32_t code_point);
[[nodiscard]] bool is_lower(char32_t code_point);

// Without the characters of `characters`, or without white space where that is null, at the left, right or both ends.
[[nodiscard]] std::string_view strip_left(std::string_view text);
[[nodiscard]] std::string_view strip_right(std::string_view text);
[[nodiscard]] std::string_view strip_left(std::string_view text, std::string_view characters);
[[nodiscard]] std::string_view strip_right(std::string_view text, std::string_view characters);

// Simple case mapping, one character to one.
[[nodiscard]] std::string to_upper(std::string_view text);
[[nodiscard]] std::string to_lower(std::string_view text);

// Normalization Form C (Unicode Standard Annex 15).   COST: O(n log n), whatever the text.
[[nodiscard]] std::string to_nfc(std::string_view text);

// The characters, ill-formed bytes each one by one.   LIFETIME: views of `text`.
[[nodiscard]] std::vector<std::string_view> split_characters(std::string_view text);

}  // namespace inflight
