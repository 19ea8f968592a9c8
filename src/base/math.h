// SPDX-License-Identifier: Apache-2.0
// Small integer arithmetic that is never written inline.
#pragma once

#include <concepts>

namespace inflight {

// ceil(numerator / denominator).  REQUIRES: numerator >= 0, denominator > 0.
template <std::integral T>
[[nodiscard]] constexpr T div_ceil(T numerator, T denominator) {
  return static_cast<T>((numerator + denominator - 1) / denominator);
}

// The smallest multiple of `alignment` that is >= value.  REQUIRES: value >= 0, alignment > 0.
template <std::integral T>
[[nodiscard]] constexpr T align_up(T value, T alignment) {
  return static_cast<T>(div_ceil(value, alignment) * alignment);
}

}  // namespace inflight
