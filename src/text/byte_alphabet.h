// SPDX-License-Identifier: Apache-2.0
// How byte-level BPE vocabularies write bytes: each of the 256 has its own printable character (Radford et al. 2019).
// Printable Latin-1 bytes stand for themselves; the other 68, in order, are U+0100 onwards (space is U+0120).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inflight {

class ByteAlphabet {
 public:
  ByteAlphabet();

  // The character of `byte`, in UTF-8.
  [[nodiscard]] std::string_view letter(uint8_t byte) const { return letters_[byte]; }
  // The byte that a character stands for, if any.
  [[nodiscard]] std::optional<uint8_t> byte(char32_t letter) const;

  // `bytes` in letters.
  [[nodiscard]] std::string spell(std::string_view bytes) const;
  // The inverse; what is no letter of the alphabet stays as it is.
  [[nodiscard]] std::string unspell(std::string_view letters) const;

 private:
  std::array<std::string, 256> letters_;
  std::array<int16_t, 256 + 68> bytes_;  // by code point; -1: no letter
};

}  // namespace inflight
