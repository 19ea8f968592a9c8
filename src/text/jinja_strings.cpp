// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_strings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace inflight::jinja {

void require_size(size_t bytes) {
  if (bytes > limits::kTemplateValueBytesMax) {
    fail(ErrorCode::InvalidArgument, "chat template: its values and output take more than {} bytes",
         limits::kTemplateValueBytesMax);
  }
}

void add_text(std::string& out, std::string_view part) {
  require_size(out.size() + part.size());
  out += part;
}

namespace {

// One more view of what will be texts of their own.
template <typename T>
void add_part(std::vector<T>& parts, T part) {
  require_size((parts.size() + 1) * sizeof(std::string));
  parts.push_back(part);
}

std::string backwards(std::string_view text) { return {text.rbegin(), text.rend()}; }

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

size_t find_first(std::string_view text, std::string_view part) {
  if (part.empty()) return 0;
  // glibc's and musl's are linear, by the two-way algorithm where the part is long.
  const void* const found = memmem(text.data(), text.size(), part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last(std::string_view text, std::string_view part) {
  const size_t behind = find_first(backwards(text), backwards(part));
  return behind == std::string_view::npos ? behind : text.size() - behind - part.size();
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator, int64_t count,
                                         bool from_right) {
  // From the right is from the left of the reversed text.
  const std::string reversed = from_right ? backwards(text) : "", reversed_separator = backwards(separator);
  const std::string_view read = from_right ? reversed : text, wanted = from_right ? reversed_separator : separator;
  std::vector<std::string_view> parts;
  const auto add = [&](size_t begin, size_t end) {
    add_part(parts, text.substr(from_right ? text.size() - end : begin, end - begin));
  };
  size_t begin = 0;
  while (count < 0 || parts.size() < static_cast<size_t>(count)) {
    const size_t length = find_first(read.substr(begin), wanted);
    if (length == std::string_view::npos) break;
    add(begin, begin + length);
    begin += length + wanted.size();
  }
  add(begin, text.size());
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_white_space(std::string_view text, int64_t count, bool from_right) {
  std::vector<std::pair<size_t, size_t>> words;  // [begin, end)
  size_t at = 0;
  bool inside = false;
  for (const std::string_view bytes : Characters(text)) {
    const bool is_space = is_white_space(first_utf8_character(bytes).code_point);
    if (!is_space && !inside) add_part(words, {at, at});
    inside = !is_space;
    at += bytes.size();
    if (inside) words.back().second = at;
  }
  const size_t apart = count < 0 ? words.size() : std::min(words.size(), static_cast<size_t>(count));
  const size_t first = from_right ? words.size() - apart : 0;
  std::vector<std::string_view> parts;
  if (first > 0) parts.push_back(text.substr(0, words[first - 1].second));
  for (size_t i = first; i < first + apart; ++i)
    parts.push_back(text.substr(words[i].first, words[i].second - words[i].first));
  if (first + apart < words.size()) parts.push_back(text.substr(words[apart].first));
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t length = 0;  // of the line so far
  while (length < text.size()) {
    const std::string_view character = *Characters(text.substr(length)).begin();
    if (!is_line_end(first_utf8_character(character).code_point)) {
      length += character.size();
      continue;
    }
    const size_t end = length + (text.substr(length, 2) == "\r\n" ? 2 : character.size());
    add_part(lines, text.substr(0, keep_ends ? end : length));
    text.remove_prefix(end);
    length = 0;
  }
  if (!text.empty()) add_part(lines, text);
  return lines;
}

std::string replace_text(std::string_view text, std::string_view old_part, std::string_view new_part, int64_t count) {
  std::string out;
  if (old_part.empty()) {  // between all characters, and at both ends
    for (const std::string_view character : Characters(text)) {
      if (count != 0) add_text(out, new_part);
      if (count > 0) --count;
      add_text(out, character);
    }
    if (count != 0) add_text(out, new_part);
    return out;
  }
  for (; count != 0; count -= count > 0 ? 1 : 0) {
    const size_t at = find_first(text, old_part);
    if (at == std::string_view::npos) break;
    add_text(out, text.substr(0, at));
    add_text(out, new_part);
    text.remove_prefix(at + old_part.size());
  }
  add_text(out, text);
  return out;
}

std::string escape_text(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string out;
  for (const char& character : text) {
    const size_t index = kSpecial.find(character);
    add_text(out, index == std::string_view::npos ? std::string_view(&character, 1) : kNames[index]);
  }
  return out;
}

std::string pad_text(std::string_view text, size_t width, std::string_view fill, bool left, bool right) {
  const size_t length = count_utf8_characters(text);
  const size_t missing = width > length ? width - length : 0;
  // str.center() puts the odd one on the left where the width is odd.
  const size_t at_left = left && right ? missing / 2 + (missing & width & 1U) : left ? missing : 0;
  std::string out;
  for (size_t i = 0; i < at_left; ++i) add_text(out, fill);
  add_text(out, text);
  for (size_t i = at_left; i < missing; ++i) add_text(out, fill);
  return out;
}

std::string capitalize_text(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = first_utf8_character(text).length;
  return to_upper(text.substr(0, first)) + to_lower(text.substr(first));
}

std::string title_text(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (const std::string_view bytes : Characters(text)) {
    const bool letter = is_letter(first_utf8_character(bytes).code_point);
    out += letter ? in_word ? to_lower(bytes) : to_upper(bytes) : std::string(bytes);
    in_word = letter;
  }
  return out;
}

}  // namespace inflight::jinja
