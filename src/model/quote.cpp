// SPDX-License-Identifier: Apache-2.0
#include "model/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace inflight {
namespace {

// Bytes of the well-formed UTF-8 character that `text` begins with; 0 when there is none (Unicode
// 15, table 3-7).
size_t character_bytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t count = lead >= 0xC2 && lead < 0xE0   ? 2
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xF0 && lead < 0xF5 ? 4
                                                     : 0;
  if (count == 0 || text.size() < count) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
  if (lead == 0xED && second > 0x9F) return 0;  // surrogate
  if (lead == 0xF0 && second < 0x90) return 0;  // overlong
  if (lead == 0xF4 && second > 0x8F) return 0;  // above U+10FFFF
  return count;
}

// Appends the character that `text` begins with, or a byte that is none, in its readable form.  RETURNS: its bytes.
size_t append_readable(std::string& out, std::string_view text) {
  const size_t count = character_bytes(text);
  const char c = text[0];
  if (c == '\n' || c == '\t' || c == '\r') {
    out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
  } else if (count == 0 || static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
    out += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
  } else {
    out += text.substr(0, count);
  }
  return std::max<size_t>(count, 1);
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
