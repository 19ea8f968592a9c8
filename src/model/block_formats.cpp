// SPDX-License-Identifier: Apache-2.0
#include "model/block_formats.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace inflight {
namespace {

constexpr size_t kHalfBlock = kQuantBlock / 2;
constexpr size_t kNumbers = 256;  // of a K-quant's block

int byte_at(const std::byte* at, size_t i) { return static_cast<int>(at[i]); }

uint32_t load_u32(const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

float half_at(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return float_of_half(bits);
}

// Number i of 32 whose nibbles are stored as tensor_type.h has it: low nibbles first, then high ones.
int nibble(const std::byte* bytes, size_t i) {
  return i < kHalfBlock ? byte_at(bytes, i) & 0xF : byte_at(bytes, i - kHalfBlock) >> 4;
}

// With bit i of `high` above it.
int five_bits(const std::byte* bytes, uint32_t high, size_t i) {
  return nibble(bytes, i) | static_cast<int>((high >> i) & 1U) << 4;
}

// What a nibble of the IQ4 formats stands for: denser around zero.
constexpr std::array<int8_t, 16> kTable = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void read_q4_1(const std::byte* block, float* x) {
  const float d = half_at(block), m = half_at(block + 2);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

void read_q5_0(const std::byte* block, float* x) {
  const float d = half_at(block);
  const uint32_t high = load_u32(block + 2);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(five_bits(block + 6, high, i) - 16);
}

void read_q5_1(const std::byte* block, float* x) {
  const float d = half_at(block), m = half_at(block + 2);
  const uint32_t high = load_u32(block + 4);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(five_bits(block + 8, high, i)) + m;
}

void read_iq4_nl(const std::byte* block, float* x) {
  const float d = half_at(block);
  for (size_t i = 0; i < kQuantBlock; ++i)
    x[i] = d * static_cast<float>(kTable.at(static_cast<size_t>(nibble(block + 2, i))));
}

// Numbers 128 h + 32 j + i are bits 2j, 2j + 1 of byte 32 h + i.
int two_bits(const std::byte* bytes, size_t number) {
  const size_t half = number / 128, j = number % 128 / 32, i = number % 32;
  return byte_at(bytes, 32 * half + i) >> (2 * j) & 3;
}

void read_q2_k(const std::byte* block, float* x) {
  const std::byte* const scales = block;
  const std::byte* const bytes = block + 16;
  const float d = half_at(block + 80), e = half_at(block + 82);
  for (size_t sub = 0; sub < kNumbers / 16; ++sub) {
    const float scale = d * static_cast<float>(byte_at(scales, sub) & 0xF);
    const float minimum = e * static_cast<float>(byte_at(scales, sub) >> 4);
    for (size_t n = 16 * sub; n < 16 * (sub + 1); ++n) x[n] = scale * static_cast<float>(two_bits(bytes, n)) - minimum;
  }
}

// Of 16 scales: the low 4 bits are nibbles (low ones first), the upper 2 bits lie four to a byte behind them.
int q3_k_scale(const std::byte* scales, size_t sub) {
  const int low = sub < 8 ? byte_at(scales, sub) & 0xF : byte_at(scales, sub - 8) >> 4;
  return (low | (byte_at(scales, 8 + sub % 4) >> (2 * (sub / 4)) & 3) << 4) - 32;
}

void read_q3_k(const std::byte* block, float* x) {
  const std::byte* const high = block;  // bit n / 32 of byte n % 32
  const std::byte* const bytes = block + 32;
  const std::byte* const scales = block + 96;
  const float d = half_at(block + 108);
  for (size_t sub = 0; sub < kNumbers / 16; ++sub) {
    const float scale = d * static_cast<float>(q3_k_scale(scales, sub));
    for (size_t n = 16 * sub; n < 16 * (sub + 1); ++n) {
      const int third = byte_at(high, n % 32) >> (n / 32) & 1;
      x[n] = scale * static_cast<float>((two_bits(bytes, n) | third << 2) - 4);
    }
  }
}

// Scale and minimum of one of 8 sub-blocks, 6 bits each, in 12 bytes: the first four of both whole, the others as
// nibbles of the last four bytes under the upper bits of the first eight.
struct ScaleMinimum {
  int scale;
  int minimum;
};
ScaleMinimum scale_minimum(const std::byte* packed, size_t sub) {
  if (sub < 4) return {byte_at(packed, sub) & 63, byte_at(packed, sub + 4) & 63};
  return {(byte_at(packed, sub + 4) & 0xF) | byte_at(packed, sub - 4) >> 6 << 4,
          byte_at(packed, sub + 4) >> 4 | byte_at(packed, sub) >> 6 << 4};
}

// Sub-blocks 2p and 2p + 1 share 32 bytes: low nibbles and high nibbles. `fifth`: null, or 32 bytes whose bit s is the
// upper bit of sub-block s.
void read_q4_k_or_q5_k(const std::byte* block, const std::byte* fifth, const std::byte* nibbles, float* x) {
  const float d = half_at(block), e = half_at(block + 2);
  for (size_t sub = 0; sub < 8; ++sub) {
    const ScaleMinimum packed = scale_minimum(block + 4, sub);
    const float scale = d * static_cast<float>(packed.scale), minimum = e * static_cast<float>(packed.minimum);
    for (size_t i = 0; i < 32; ++i) {
      const int four = byte_at(nibbles, 32 * (sub / 2) + i) >> (4 * (sub % 2)) & 0xF;
      const int upper = fifth == nullptr ? 0 : byte_at(fifth, i) >> sub & 1;
      x[32 * sub + i] = scale * static_cast<float>(four | upper << 4) - minimum;
    }
  }
}

// Of each half of 128: number 64 a + 32 b + i has its nibble in byte 32 b + i (low for a = 0), its upper bits 2(2a + b)
// in byte i.
void read_q6_k(const std::byte* block, float* x) {
  const float d = half_at(block + 208);
  for (size_t n = 0; n < kNumbers; ++n) {
    const size_t half = n / 128, quarter = n % 128 / 32, i = n % 32;
    const int four = byte_at(block, 64 * half + n % 64) >> (4 * (quarter / 2)) & 0xF;
    const int upper = byte_at(block, 128 + 32 * half + i) >> (2 * quarter) & 3;
    const auto scale = static_cast<int8_t>(block[192 + n / 16]);
    x[n] = d * static_cast<float>(scale) * static_cast<float>((four | upper << 4) - 32);
  }
}

void read_iq4_xs(const std::byte* block, float* x) {
  const float d = half_at(block);
  const uint32_t upper = load_u32(block + 2);  // its low 16 bits; the low bits of the scales follow
  for (size_t sub = 0; sub < 8; ++sub) {
    const int low = byte_at(block, 4 + sub / 2) >> (4 * (sub % 2)) & 0xF;
    const int scale = (low | static_cast<int>(upper >> (2 * sub) & 3U) << 4) - 32;
    for (size_t i = 0; i < 32; ++i) {
      x[32 * sub + i] = d * static_cast<float>(scale) *
                        static_cast<float>(kTable.at(static_cast<size_t>(nibble(block + 8 + 16 * sub, i))));
    }
  }
}

// ERRORS: InvalidArgument when x is not finite or beyond F16's range.
void store_half(float x, const char* what, std::byte* to) {
  const uint16_t bits = half_of_float(x);
  if ((bits & 0x7C00U) == 0x7C00U) fail(ErrorCode::InvalidArgument, "{} {} is beyond half precision", what, x);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace

void q4_1_of_q4_k(const std::byte* block, std::byte* q4_1) {
  const float d = half_at(block), e = half_at(block + 2);
  for (size_t sub = 0; sub < 8; ++sub, q4_1 += 4 + kHalfBlock) {
    const ScaleMinimum packed = scale_minimum(block + 4, sub);
    store_half(d * static_cast<float>(packed.scale), "scale", q4_1);
    store_half(-e * static_cast<float>(packed.minimum), "minimum", q4_1 + 2);
    const auto number = [bytes = block + 16 + 32 * (sub / 2), shift = 4 * (sub % 2)](size_t i) {
      return byte_at(bytes, i) >> shift & 0xF;
    };
    for (size_t i = 0; i < kHalfBlock; ++i)
      q4_1[4 + i] = static_cast<std::byte>(number(i) | number(i + kHalfBlock) << 4);
  }
}

void read_block(TensorType type, const std::byte* block, float* numbers) {
  switch (type) {
    case TensorType::Q4_1:
      return read_q4_1(block, numbers);
    case TensorType::Q5_0:
      return read_q5_0(block, numbers);
    case TensorType::Q5_1:
      return read_q5_1(block, numbers);
    case TensorType::Q2_K:
      return read_q2_k(block, numbers);
    case TensorType::Q3_K:
      return read_q3_k(block, numbers);
    case TensorType::Q4_K:
      return read_q4_k_or_q5_k(block, nullptr, block + 16, numbers);
    case TensorType::Q5_K:
      return read_q4_k_or_q5_k(block, block + 16, block + 48, numbers);
    case TensorType::Q6_K:
      return read_q6_k(block, numbers);
    case TensorType::IQ4_NL:
      return read_iq4_nl(block, numbers);
    case TensorType::IQ4_XS:
      return read_iq4_xs(block, numbers);
    case TensorType::F32:
    case TensorType::F16:
    case TensorType::BF16:
    case TensorType::Q8_0:
    case TensorType::Q4_0:
      break;
  }
  INFLIGHT_CHECK(false);  // dequantize_row reads these itself
}

}  // namespace inflight
