// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <algorithm>

namespace inflight {
namespace {

struct LeadByte {
  uint32_t length = 0;  // of the whole character; 0: cannot begin one
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

// Unicode standard, table 3-7.
LeadByte classify(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Character first_utf8_character(std::string_view text) {
  const auto lead_byte = static_cast<uint8_t>(text[0]);
  const LeadByte lead = classify(lead_byte);
  if (lead.length == 0) return {kReplacementCharacter, 1, Utf8Status::Invalid};
  if (lead.length == 1) return {lead_byte, 1, Utf8Status::Valid};
  char32_t code_point = lead_byte & (0x7FU >> lead.length);
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {kReplacementCharacter, i, Utf8Status::Incomplete};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {kReplacementCharacter, i, Utf8Status::Invalid};
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  return {code_point, lead.length, Utf8Status::Valid};
}

size_t valid_utf8_length(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Character character = first_utf8_character(text.substr(offset));
    if (character.status != Utf8Status::Valid) break;
    offset += character.length;
  }
  return offset;
}

size_t count_utf8_characters(std::string_view text) {
  size_t count = 0;
  for (size_t offset = 0; offset < text.size(); ++count) {
    offset += first_utf8_character(text.substr(offset)).length;
  }
  return count;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto continuation = [&](uint32_t shift) { text += static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0U | (code_point >> 6U));
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0U | (code_point >> 12U));
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0U | (code_point >> 18U));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = valid_utf8_length(text);
    valid += text.substr(0, length);
    text.remove_prefix(length);
    if (text.empty()) break;
    append_utf8(valid, kReplacementCharacter);
    text.remove_prefix(first_utf8_character(text).length);
  }
  return valid;
}

}  // namespace inflight
