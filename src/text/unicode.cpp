// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <bitset>
#include <unordered_set>
#include <vector>

#include "base/utf8.h"

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

// The characters of a text, for looking up many.   LIFETIME: that of the text.
class CharacterTable {
 public:
  explicit CharacterTable(std::string_view characters) {
    for (const std::string_view bytes : Characters(characters)) {
      if (bytes.size() == 1) {
        single_bytes_.set(static_cast<uint8_t>(bytes[0]));
      } else {
        others_.insert(bytes);
      }
    }
  }
  [[nodiscard]] bool contains(std::string_view bytes) const {
    return bytes.size() == 1 ? single_bytes_.test(static_cast<uint8_t>(bytes[0])) : others_.contains(bytes);
  }

 private:
  std::bitset<256> single_bytes_;
  std::unordered_set<std::string_view> others_;
};

template <typename Map>
std::string map_characters(std::string_view text, Map&& map) {
  std::string out;
  for (const std::string_view bytes : Characters(text)) {
    if (bytes.size() > 1) {
      const char32_t character = first_utf8_character(bytes).code_point;
      append_utf8(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(character))));
    } else if (static_cast<uint8_t>(bytes[0]) < 0x80) {
      out += static_cast<char>(map(bytes[0]));
    } else {
      out += bytes;  // ill-formed
    }
  }
  return out;
}

using CodePoints = std::vector<utf8proc_int32_t>;

void append_decomposed(CodePoints& out, char32_t code_point) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  constexpr size_t kLengthMax = 4;  // of a canonical decomposition
  const size_t end = out.size();
  out.resize(end + kLengthMax);
  int boundary = 0;
  const auto length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), out.data() + end, kLengthMax,
                                              kOptions, &boundary);
  out.resize(end + static_cast<size_t>(length));
}

int combining_class(utf8proc_int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

// Each run of combining marks sorted by class. (utf8proc's own sort takes quadratic time.)
void order_marks(CodePoints& code_points) {
  const auto is_mark = [](utf8proc_int32_t code_point) { return combining_class(code_point) != 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    std::ranges::stable_sort(begin, end, {}, combining_class);
    begin = end;
  }
}

void append_composed(std::string& out, std::string_view well_formed) {
  CodePoints code_points;
  for (const std::string_view bytes : Characters(well_formed)) {
    append_decomposed(code_points, first_utf8_character(bytes).code_point);
  }
  order_marks(code_points);
  const auto length = utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  code_points.resize(static_cast<size_t>(length));
  for (const utf8proc_int32_t code_point : code_points) append_utf8(out, static_cast<char32_t>(code_point));
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
  const CharacterTable all(characters);
  return strip_left_if(text, [&](const Utf8Character&, std::string_view bytes) { return all.contains(bytes); });
}

std::string_view strip_right(std::string_view text, std::string_view characters) {
  const CharacterTable all(characters);
  return strip_right_if(text, [&](const Utf8Character&, std::string_view bytes) { return all.contains(bytes); });
}

std::string to_upper(std::string_view text) { return map_characters(text, utf8proc_toupper); }
std::string to_lower(std::string_view text) { return map_characters(text, utf8proc_tolower); }

std::string to_nfc(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t length = valid_utf8_length(text);
    append_composed(out, text.substr(0, length));
    text.remove_prefix(length);
    if (text.empty()) break;
    const size_t ill_formed = first_utf8_character(text).length;
    out += text.substr(0, ill_formed);
    text.remove_prefix(ill_formed);
  }
  return out;
}

Characters::Iterator::Iterator(std::string_view rest) : rest_(rest) {
  if (rest_.empty()) return;
  length_ = 1;
  if (static_cast<uint8_t>(rest_[0]) < 0x80) return;  // most texts are long and nearly all ASCII
  const Utf8Character character = first_utf8_character(rest_);
  if (character.status == Utf8Status::Valid) length_ = character.length;
}

Characters::Iterator& Characters::Iterator::operator++() { return *this = Iterator(rest_.substr(length_)); }

Characters::Iterator Characters::Iterator::operator++(int) {
  const Iterator before = *this;
  ++*this;
  return before;
}

std::string_view Characters::part(size_t begin, size_t end) const {
  const auto from = std::next(this->begin(), static_cast<std::ptrdiff_t>(begin));
  const auto to = std::next(from, static_cast<std::ptrdiff_t>(end - begin));
  const auto offset = [this](Iterator at) { return static_cast<size_t>((*at).data() - text_.data()); };
  return text_.substr(offset(from), offset(to) - offset(from));
}

}  // namespace inflight
