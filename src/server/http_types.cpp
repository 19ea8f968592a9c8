// SPDX-License-Identifier: Apache-2.0
#include "server/http_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace inflight::server {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

}  // namespace

bool same_word(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() < 2 || error != std::errc() || end != digits.data() + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

std::string printable(std::string_view text, size_t most) {
  std::string result;
  for (const char byte : text.substr(0, most)) {
    if (byte >= ' ' && byte < 0x7F) {
      result += byte;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  if (text.size() > most) result += "...";
  return result.empty() ? "-" : result;
}

bool is_loopback(std::string_view host) {
  if (host == "[::1]" || host.starts_with("[::1]:")) return true;
  const std::string_view name = host.substr(0, host.find(':'));
  // No name of the DNS ends in a number: what begins with 127 and has digits and dots only is an address.
  return same_word(name, "localhost") ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos);
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const Header& header : headers) {
    if (same_word(header.name, name)) return header.value;
  }
  return "";
}

std::string_view reason_phrase(int status) {
  struct Phrase {
    int status;
    std::string_view text;
  };
  constexpr Phrase kPhrases[] = {
      {100, "Continue"},
      {200, "OK"},
      {204, "No Content"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  };
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

}  // namespace inflight::server
