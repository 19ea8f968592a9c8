// SPDX-License-Identifier: Apache-2.0
// The FNV-1a hash (Fowler, Noll, Vo) of a text: 64 bits, the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace inflight {

[[nodiscard]] constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char character : text) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace inflight
