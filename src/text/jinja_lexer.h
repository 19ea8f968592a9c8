// SPDX-License-Identifier: Apache-2.0
// Chat templates, first step: template text to tokens. White space is handled as Jinja2 does with trim_blocks and
// lstrip_blocks on, which is how transformers renders chat templates: a newline behind a block or comment tag is
// dropped, blanks in front of one that begins a line too; "-" strips all white space on its side, "+" none; one newline
// at the end of the template is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace inflight::jinja {

enum class TokenKind : uint8_t {
  Data,           // text between tags: `text`
  BlockBegin,     // {%
  BlockEnd,       // %}
  VariableBegin,  // {{
  VariableEnd,    // }}
  Name,
  Integer,
  Float,
  String,    // `text` is its value, escapes resolved
  Operator,  // also brackets and punctuation
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;
  int line = 0;

  [[nodiscard]] bool is(TokenKind other, std::string_view value) const { return kind == other && text == value; }
  [[nodiscard]] bool is_operator(std::string_view value) const { return is(TokenKind::Operator, value); }
  [[nodiscard]] bool is_name(std::string_view value) const { return is(TokenKind::Name, value); }
};

// ENSURES: the last token, and only it, is End.
// ERRORS:  InvalidArgument "chat template line N: ..." for an unclosed tag, comment or string, or a character that
// means
//          nothing.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

// Throws Error{InvalidArgument} "chat template line N: message".
template <typename... Args>
[[noreturn]] void fail_at(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::InvalidArgument,
              fmt::format("chat template line {}: {}", line, fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace inflight::jinja
