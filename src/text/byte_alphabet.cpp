// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include "base/utf8.h"

namespace inflight {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t letter = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    append_utf8(letters_[static_cast<size_t>(byte)], letter);
    bytes_[letter] = static_cast<int16_t>(byte);
  }
}

std::optional<uint8_t> ByteAlphabet::byte(char32_t letter) const {
  if (letter >= bytes_.size() || bytes_[letter] < 0) return {};
  return static_cast<uint8_t>(bytes_[letter]);
}

std::string ByteAlphabet::spell(std::string_view bytes) const {
  std::string letters;
  for (const char byte : bytes) letters += letter(static_cast<uint8_t>(byte));
  return letters;
}

std::string ByteAlphabet::unspell(std::string_view letters) const {
  std::string bytes;
  while (!letters.empty()) {
    const Utf8Character character = first_utf8_character(letters);
    const auto value = character.status == Utf8Status::Valid ? byte(character.code_point) : std::nullopt;
    if (value) {
      bytes += static_cast<char>(*value);
    } else {
      bytes += letters.substr(0, character.length);
    }
    letters.remove_prefix(character.length);
  }
  return bytes;
}

}  // namespace inflight
