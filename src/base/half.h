// SPDX-License-Identifier: Apache-2.0
// The 16-bit float formats as bit patterns: IEEE binary16 (F16) and bfloat16 (BF16). Conversion
// from float rounds to nearest, ties to even, as IEEE 754 and GGUF's reference do; out of F16's
// range becomes infinity; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "base/error.h"

namespace inflight {

[[nodiscard]] constexpr float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

[[nodiscard]] constexpr uint16_t half_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {  // NaN: keep the payload's upper bits, made quiet
    return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  }
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to >= 2^16
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves round(value * 2^24) in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - (uint32_t{127 - 15} << 23) + 0xFFFU + odd) >> 13));
}

// The same. ERRORS: InvalidArgument where the result would not be finite, naming `what`.
[[nodiscard]] inline uint16_t finite_half(float value, const char* what) {
  const uint16_t half = half_of_float(value);
  if ((half & 0x7C00U) == 0x7C00U) fail(ErrorCode::InvalidArgument, "{} {} is beyond half precision", what, value);
  return half;
}

[[nodiscard]] constexpr float float_of_bfloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

[[nodiscard]] constexpr uint16_t bfloat_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);  // quiet
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace inflight
