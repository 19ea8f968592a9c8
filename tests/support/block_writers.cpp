// SPDX-License-Identifier: Apache-2.0
#include "support/block_writers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace inflight::test {
namespace {

struct BlockRange {
  float step, lowest;
};

// Steps and offsets that hold 32 numbers in 4 bits: x = step * q + lowest, lowest <= 0.
BlockRange range_of(const float* x) {
  const float lowest = std::min(*std::min_element(x, x + 32), 0.0F);
  return {(*std::max_element(x, x + 32) - lowest) / 15.0F, lowest};
}

uint32_t four_bits(float x, float step, float lowest) {
  return static_cast<uint32_t>(std::clamp(std::lround((x - lowest) / step), 0L, 15L));
}

}  // namespace

// Blocks of 32: f16 scale, fifth bits, nibbles; x = scale * (q - 16).
std::vector<std::byte> as_q5_0(const std::vector<float>& numbers) {
  std::vector<std::byte> stored(numbers.size() / 32 * 22);
  for (size_t block = 0; block < numbers.size() / 32; ++block) {
    const float* const x = numbers.data() + block * 32;
    std::byte* const out = stored.data() + block * 22;
    const float largest =
        std::fabs(*std::max_element(x, x + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    const uint16_t scale = half_of_float(largest / 15.0F);
    uint32_t fifth = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      const auto q = static_cast<uint32_t>(std::lround(x[i] / float_of_half(scale)) + 16);
      fifth |= (q >> 4U) << i;
      out[6 + i % 16] |= static_cast<std::byte>((q & 15U) << (i < 16 ? 0U : 4U));
    }
    std::memcpy(out, &scale, 2);
    std::memcpy(out + 2, &fifth, 4);
  }
  return stored;
}

// Blocks of 32: exponent e, nibbles; x = 2^(e - 128) * a number of the table, which a code's fourth bit negates.
std::vector<std::byte> as_mxfp4(const std::vector<float>& numbers) {
  constexpr std::array<float, 8> kTable = {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 12.0F};
  std::vector<std::byte> stored(numbers.size() / 32 * 17);
  for (size_t block = 0; block < numbers.size() / 32; ++block) {
    const float* const x = numbers.data() + block * 32;
    std::byte* const out = stored.data() + block * 17;
    float largest = 0.0F;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const auto power = largest > 0.0F ? static_cast<int>(std::ceil(std::log2(largest / 12.0F))) : -128;
    out[0] = static_cast<std::byte>(power + 128);
    for (size_t i = 0; i < 32; ++i) {
      const float wanted = std::ldexp(std::fabs(x[i]), -power);
      const auto* const nearest = std::ranges::min_element(kTable, {}, [&](float y) { return std::fabs(y - wanted); });
      const auto code = static_cast<uint32_t>(nearest - kTable.begin()) + (x[i] < 0.0F ? 8U : 0U);
      out[1 + i % 16] |= static_cast<std::byte>(code << (i < 16 ? 0U : 4U));
    }
  }
  return stored;
}

// Blocks of 32: f16 step, f16 lowest, nibbles; x = step * q + lowest.
std::vector<std::byte> as_q4_1(const std::vector<float>& numbers) {
  std::vector<std::byte> stored(numbers.size() / 32 * 20);
  for (size_t block = 0; block < numbers.size() / 32; ++block) {
    const float* const x = numbers.data() + block * 32;
    std::byte* const out = stored.data() + block * 20;
    const BlockRange range = range_of(x);
    const std::array<uint16_t, 2> halves = {half_of_float(range.step), half_of_float(range.lowest)};
    std::memcpy(out, halves.data(), 4);
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t q = four_bits(x[i], float_of_half(halves[0]), float_of_half(halves[1]));
      out[4 + i % 16] |= static_cast<std::byte>(q << (i < 16 ? 0U : 4U));
    }
  }
  return stored;
}

// Blocks of 256: f16 d, f16 e, 8 x (6-bit s, 6-bit m) in 12 bytes, nibbles; x = d * s * q - e * m in sub-blocks of 32.
std::vector<std::byte> as_q4_k(const std::vector<float>& numbers) {
  std::vector<std::byte> stored(numbers.size() / 256 * 144);
  for (size_t block = 0; block < numbers.size() / 256; ++block) {
    const float* const x = numbers.data() + block * 256;
    std::byte* const out = stored.data() + block * 144;
    float step = 0.0F, lowest = 0.0F;
    for (size_t sub = 0; sub < 8; ++sub) {
      step = std::max(step, range_of(x + 32 * sub).step);
      lowest = std::min(lowest, range_of(x + 32 * sub).lowest);
    }
    const std::array<uint16_t, 2> halves = {half_of_float(step / 63.0F), half_of_float(-lowest / 63.0F)};
    std::memcpy(out, halves.data(), 4);
    const float d = float_of_half(halves[0]), e = float_of_half(halves[1]);
    for (size_t sub = 0; sub < 8; ++sub) {
      const BlockRange range = range_of(x + 32 * sub);
      const auto s = static_cast<uint32_t>(std::clamp(std::lround(range.step / d), 1L, 63L));
      const auto m = static_cast<uint32_t>(std::clamp(std::lround(-range.lowest / e), 0L, 63L));
      if (sub < 4) {
        out[4 + sub] |= static_cast<std::byte>(s);
        out[8 + sub] |= static_cast<std::byte>(m);
      } else {
        out[8 + sub] = static_cast<std::byte>((s & 15U) | (m & 15U) << 4U);
        out[sub] |= static_cast<std::byte>(s >> 4U << 6U);
        out[4 + sub] |= static_cast<std::byte>(m >> 4U << 6U);
      }
      for (size_t i = 0; i < 32; ++i) {
        const uint32_t q = four_bits(x[32 * sub + i], d * static_cast<float>(s), -e * static_cast<float>(m));
        out[16 + sub / 2 * 32 + i] |= static_cast<std::byte>(q << (sub % 2 == 0 ? 0U : 4U));
      }
    }
  }
  return stored;
}

// Blocks of 256: 128 bytes of nibbles, 64 of upper bits, 16 int8 s, f16 d; x = d * s * (q - 32) in sub-blocks of 16.
std::vector<std::byte> as_q6_k(const std::vector<float>& numbers) {
  std::vector<std::byte> stored(numbers.size() / 256 * 210);
  for (size_t block = 0; block < numbers.size() / 256; ++block) {
    const float* const x = numbers.data() + block * 256;
    std::byte* const out = stored.data() + block * 210;
    const auto largest = [x](size_t begin, size_t end) {
      float most = 0.0F;
      for (size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(x[i]));
      return most;
    };
    const uint16_t d = half_of_float(largest(0, 256) / (31.0F * 127.0F));
    std::memcpy(out + 208, &d, 2);
    for (size_t i = 0; i < 256; ++i) {
      const size_t sub = i / 16, half = i / 128, quarter = i % 128 / 32;
      const float s =
          std::clamp(std::round(largest(16 * sub, 16 * sub + 16) / (31.0F * float_of_half(d))), 1.0F, 127.0F);
      out[192 + sub] = static_cast<std::byte>(static_cast<uint8_t>(s));
      const auto q =
          static_cast<uint32_t>(std::clamp(std::round(x[i] / (float_of_half(d) * s)), -32.0F, 31.0F) + 32.0F);
      out[64 * half + i % 64] |= static_cast<std::byte>((q & 15U) << (quarter < 2 ? 0U : 4U));
      out[128 + 32 * half + i % 32] |= static_cast<std::byte>(q >> 4U << 2U * quarter);
    }
  }
  return stored;
}

}  // namespace inflight::test
