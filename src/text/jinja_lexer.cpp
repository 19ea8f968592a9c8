// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

constexpr std::array<std::string_view, 25> kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ","};

bool is_digit(char character) { return character >= '0' && character <= '9'; }

bool is_name_character(char character) {
  return is_digit(character) || (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         character == '_' || static_cast<uint8_t>(character) >= 0x80;
}

// Newlines as Jinja2 reads them: \r\n and \r are \n, and the last one is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) read_text_and_tag();
    push(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] bool at(std::string_view text) const { return source_.compare(position_, text.size(), text) == 0; }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Moves on, counting lines.
  void advance(size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    position_ += count;
  }
  void skip_white_space() {
    const std::string_view rest = std::string_view(source_).substr(position_);
    advance(rest.size() - strip_left(rest).size());
  }

  // The text up to the next tag, which begins at `end` with its sign, as a token.
  void push_data(size_t end, bool is_variable, char sign) {
    std::string_view text = std::string_view(source_).substr(position_, end - position_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || line_starting_) && strip_left(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) push(TokenKind::Data, std::string(text));
    advance(end - position_);
  }

  [[nodiscard]] char sign_at(size_t position) const {
    const char sign = position < source_.size() ? source_[position] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
  }

  void read_text_and_tag() {
    size_t end = position_;
    while (true) {
      end = source_.find('{', end);
      if (end == std::string::npos || end + 1 >= source_.size()) {
        push(TokenKind::Data, source_.substr(position_));
        advance(source_.size() - position_);
        return;
      }
      if (std::string_view("%{#").find(source_[end + 1]) != std::string_view::npos) break;
      ++end;
    }
    const char kind = source_[end + 1];
    const char sign = sign_at(end + 2);
    push_data(end, kind == '{', sign);
    const int line = line_;
    advance(sign == '\0' ? 2 : 3);
    line_starting_ = false;
    if (kind == '#') {
      skip_comment(line);
    } else if (kind == '%' && try_raw(line)) {
      return;
    } else {
      push(kind == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin, "");
      read_tag(kind == '{', line);
    }
  }

  // Behind "#}" or "%}", given the sign before it.
  void finish_tag(char sign) {
    const size_t begin = position_;
    if (sign == '-') {
      skip_white_space();
    } else if (sign != '+' && at("\n")) {
      advance(1);
    }
    line_starting_ = position_ > begin && source_[position_ - 1] == '\n';
  }

  void skip_comment(int line) {
    const size_t end = source_.find("#}", position_);
    if (end == std::string::npos) fail_at(line, "the comment is not closed");
    const char sign = end > position_ ? sign_at(end - 1) : '\0';
    advance(end + 2 - position_);
    finish_tag(sign);
  }

  // Position behind "word" and blanks around it from `position`, if it is there.
  [[nodiscard]] std::optional<size_t> behind_word(size_t position, std::string_view word) const {
    const auto skip = [this](size_t from) {
      const std::string_view rest = std::string_view(source_).substr(from);
      return from + rest.size() - strip_left(rest).size();
    };
    position = skip(position);
    if (source_.compare(position, word.size(), word) != 0) return {};
    return skip(position + word.size());
  }

  // {% raw %} ... {% endraw %}, from behind "{%".
  bool try_raw(int line) {
    const auto begin = behind_word(position_, "raw");
    if (!begin) return false;
    const char sign = sign_at(*begin) == '-' ? '-' : '\0';
    const size_t close = *begin + (sign == '-' ? 1 : 0);
    if (source_.compare(close, 2, "%}") != 0) return false;
    advance(close + 2 - position_);
    if (sign == '-') finish_tag(sign);
    for (size_t end = source_.find("{%", position_); end != std::string::npos; end = source_.find("{%", end + 1)) {
      const char end_sign = sign_at(end + 2);
      const auto behind = behind_word(end + (end_sign == '\0' ? 2 : 3), "endraw");
      if (!behind) continue;
      const char close_sign = sign_at(*behind);
      const size_t end_close = *behind + (close_sign == '\0' ? 0 : 1);
      if (source_.compare(end_close, 2, "%}") != 0) continue;
      push_data(end, false, end_sign);
      advance(end_close + 2 - position_);
      finish_tag(close_sign);
      return true;
    }
    fail_at(line, "the raw block is not closed");
  }

  void read_tag(bool is_variable, int line) {
    const std::string_view close = is_variable ? "}}" : "%}";
    std::string brackets;
    while (true) {
      skip_white_space();
      if (position_ >= source_.size()) fail_at(line, "the tag is not closed with {}", close);
      if (brackets.empty()) {
        const char sign =
            source_[position_] == '-' || (source_[position_] == '+' && !is_variable) ? source_[position_] : '\0';
        const size_t signs = sign == '\0' ? 0 : 1;
        if (source_.compare(position_ + signs, 2, close) == 0) {
          push(is_variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, "");
          advance(signs + 2);
          finish_tag(is_variable && sign == '\0' ? '+' : sign);
          return;
        }
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const char first = source_[position_];
    if (is_digit(first)) return read_number();
    if (is_name_character(first)) {
      size_t end = position_;
      while (end < source_.size() && is_name_character(source_[end])) ++end;
      push(TokenKind::Name, source_.substr(position_, end - position_));
      return advance(end - position_);
    }
    if (first == '\'' || first == '"') return read_string(first);
    const auto found = std::ranges::find_if(kOperators, [this](std::string_view text) { return at(text); });
    if (found == kOperators.end()) {
      const std::string_view rest = std::string_view(source_).substr(position_);
      fail_at(line_, "unexpected character '{}'", to_valid_utf8(rest.substr(0, first_utf8_character(rest).length)));
    }
    if (first == '(' || first == '[' || first == '{') brackets += first;
    if (first == ')' || first == ']' || first == '}') {
      const char open = first == ')' ? '(' : first == ']' ? '[' : '{';
      if (brackets.empty() || brackets.back() != open) fail_at(line_, "unexpected '{}'", first);
      brackets.pop_back();
    }
    push(TokenKind::Operator, std::string(*found));
    advance(found->size());
  }

  // Digits with "_" between them from `end` on, appended to `digits`.
  size_t read_digits(size_t end, std::string& digits) const {
    while (end < source_.size() && (is_digit(source_[end]) ||
                                    (source_[end] == '_' && end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      if (source_[end] != '_') digits += source_[end];
      ++end;
    }
    return end;
  }

  void read_number() {
    if (source_[position_] == '0' && position_ + 1 < source_.size()) {
      const char letter = static_cast<char>(source_[position_ + 1] | 0x20);
      if (letter == 'x' || letter == 'o' || letter == 'b')
        return read_based_number(letter == 'x' ? 16 : letter == 'o' ? 8 : 2);
    }
    std::string digits;
    size_t end = read_digits(position_, digits);
    bool is_float = false;
    const bool is_index = position_ > 0 && source_[position_ - 1] == '.';  // list.0.1
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_float = true;
      digits += '.';
      end = read_digits(end + 1, digits);
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        is_float = true;
        digits += source_.substr(end, 1 + sign);
        end = read_digits(end + 1 + sign, digits);
      }
    }
    push(is_float ? TokenKind::Float : TokenKind::Integer, digits);
    advance(end - position_);
  }

  // 0x1F, 0o17, 0b11: the token is its decimal digits.
  void read_based_number(int base) {
    size_t end = position_ + 2;
    std::string digits;
    for (; end < source_.size() && is_name_character(source_[end]); ++end) {
      if (source_[end] != '_') digits += source_[end];
    }
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      fail_at(line_, "'{}' is no number", to_valid_utf8(std::string_view(source_).substr(position_, end - position_)));
    }
    push(TokenKind::Integer, fmt::format("{}", value));
    advance(end - position_);
  }

  void read_string(char quote) {
    const int line = line_;
    std::string value;
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] == '\\' && end + 1 < source_.size()) {
        end = read_escape(end, value);
      } else {
        value += source_[end++];
      }
    }
    if (end >= source_.size()) fail_at(line, "the string is not closed");
    push(TokenKind::String, std::move(value));
    advance(end + 1 - position_);
  }

  // Python's escapes; an unknown one stays as it is. Returns the position behind it.
  size_t read_escape(size_t begin, std::string& value) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char letter = source_[begin + 1];
    if (const size_t index = kLetters.find(letter); index != std::string_view::npos) {
      value += kValues[index];
      return begin + 2;
    }
    if (letter == '\n') return begin + 2;
    const bool is_octal = letter >= '0' && letter <= '7';
    const size_t digits_begin = begin + (is_octal ? 1 : 2);
    const size_t digits_max = is_octal ? 3 : letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    uint32_t code_point = 0;
    const char* const from = source_.data() + digits_begin;
    const char* const to = source_.data() + std::min(digits_begin + digits_max, source_.size());
    const auto [stop, error] = std::from_chars(from, to, code_point, is_octal ? 8 : 16);
    const auto count = static_cast<size_t>(stop - from);
    const bool is_scalar = code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF);
    if (error != std::errc() || (!is_octal && count != digits_max) || !is_scalar) {
      if (digits_max > 0) fail_at(line_, "bad escape '\\{}' in a string", letter);
      value += source_.substr(begin, 2);
      return begin + 2;
    }
    append_utf8(value, code_point);
    return digits_begin + count;
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text that follows begins a line
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalize_newlines(source)).run(); }

}  // namespace inflight::jinja
