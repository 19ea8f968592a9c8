// SPDX-License-Identifier: Apache-2.0
#include "base/quote.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace inflight {
namespace {

// Appends the character that `text` begins with, or a byte that is none, in its readable form.  RETURNS: its bytes.
size_t append_readable(std::string& out, std::string_view text) {
  const Utf8Character character = first_utf8_character(text);
  const bool is_valid = character.status == Utf8Status::Valid;
  const char c = text[0];
  if (c == '\n' || c == '\t' || c == '\r') {
    out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
  } else if (!is_valid || static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
    out += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
  } else {
    out += text.substr(0, character.length);
  }
  return is_valid ? character.length : 1;
}

}  // namespace

std::string escape(std::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t before = out.size();
    if (text[at] == '\\') out += '\\';
    at += append_readable(out, text.substr(at));
    if (at > bytes_max) return out.substr(0, before) + "...";
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= kLineBytesMax) return out + "...";
    text.remove_prefix(append_readable(out, text));
  }
  return out;
}

std::string quote(std::string_view text) { return fmt::format("'{}'", escape(text, 80)); }

}  // namespace inflight
