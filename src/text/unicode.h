// SPDX-License-Identifier: Apache-2.0
// Text operations with Python's meaning of white space, letters, digits and case. Text is UTF-8; ill-formed bytes are
// left alone.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

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

// The characters of a text, ill-formed bytes each one by one.   LIFETIME: views of the text.
class Characters {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(std::string_view rest);
    std::string_view operator*() const { return rest_.substr(0, length_); }
    Iterator& operator++();
    Iterator operator++(int);
    bool operator==(const Iterator& other) const { return rest_.size() == other.rest_.size(); }

   private:
    std::string_view rest_;
    size_t length_ = 0;  // of its first character
  };

  explicit Characters(std::string_view text) : text_(text) {}
  [[nodiscard]] Iterator begin() const { return Iterator(text_); }
  [[nodiscard]] Iterator end() const { return Iterator(text_.substr(text_.size())); }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(std::distance(begin(), end())); }  // COST: O(bytes)
  // Characters [begin, end) of them.   REQUIRES: begin <= end <= size()
  [[nodiscard]] std::string_view part(size_t begin, size_t end) const;

 private:
  std::string_view text_;
};

}  // namespace inflight
