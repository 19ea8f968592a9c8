// SPDX-License-Identifier: Apache-2.0
// Numbers in bytes of any alignment, in the processor's order (little-endian, as in model files).   THREAD: any.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace inflight {

template <typename T>
[[nodiscard]] T load(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(T value, std::byte* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace inflight
