// SPDX-License-Identifier: Apache-2.0
#include "model/block_formats.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"

namespace inflight {
namespace {

constexpr size_t kNumbers = 256;  // of a K-quant's block

int byte_at(const std::byte* at, size_t i) { return static_cast<int>(at[i]); }

float half_at(const std::byte* at) { return float_of_half(load<uint16_t>(at)); }

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

// What nibble i of 32 stands for.
int8_t table_number(const std::byte* nibbles, size_t i) { return kTable.at(static_cast<size_t>(nibble(nibbles, i))); }

void read_q4_1(const std::byte* block, float* x) {
  const float d = half_at(block), m = half_at(block + 2);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

void read_q5_0(const std::byte* block, float* x) {
  const float d = half_at(block);
  const uint32_t high = load<uint32_t>(block + 2);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(five_bits(block + 6, high, i) - 16);
}

void read_q5_1(const std::byte* block, float* x) {
  const float d = half_at(block), m = half_at(block + 2);
  const uint32_t high = load<uint32_t>(block + 4);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(five_bits(block + 8, high, i)) + m;
}

void read_iq4_nl(const std::byte* block, float* x) {
  const float d = half_at(block);
  for (size_t i = 0; i < kQuantBlock; ++i) x[i] = d * static_cast<float>(table_number(block + 2, i));
}

void read_mxfp4(const std::byte* block, float* x) {
  constexpr std::array<float, 8> kMagnitudes = {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 12.0F};
  const float d = std::ldexp(1.0F, byte_at(block, 0) - 128);
  for (size_t i = 0; i < kQuantBlock; ++i) {
    const int code = byte_at(block, 1 + i % kHalfBlock) >> (i < kHalfBlock ? 0 : 4) & 15;
    const float magnitude = d * kMagnitudes.at(static_cast<size_t>(code & 7));
    x[i] = code < 8 ? magnitude : -magnitude;
  }
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

// q - 4
int q3_k_number(const std::byte* block, size_t n) {
  const int third = byte_at(block, n % 32) >> (n / 32) & 1;
  return (two_bits(block + 32, n) | third << 2) - 4;
}

void read_q3_k(const std::byte* block, float* x) {
  const float d = half_at(block + 108);
  for (size_t n = 0; n < kNumbers; ++n) {
    x[n] = d * static_cast<float>(q3_k_scale(block + 96, n / 16)) * static_cast<float>(q3_k_number(block, n));
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

// Of 8: 4 bits of each are nibbles behind d and the upper 2 bits of all.
int iq4_xs_scale(const std::byte* block, size_t sub) {
  const uint32_t upper = load<uint32_t>(block + 2);  // its low 16 bits
  const int low = byte_at(block, 4 + sub / 2) >> (4 * (sub % 2)) & 0xF;
  return (low | static_cast<int>(upper >> (2 * sub) & 3U) << 4) - 32;
}

void read_iq4_xs(const std::byte* block, float* x) {
  const float d = half_at(block);
  for (size_t sub = 0; sub < 8; ++sub) {
    const float scale = d * static_cast<float>(iq4_xs_scale(block, sub));
    for (size_t i = 0; i < 32; ++i) x[32 * sub + i] = scale * static_cast<float>(table_number(block + 8 + 16 * sub, i));
  }
}

void store_half(float x, const char* what, std::byte* to) { store(finite_half(x, what), to); }

// Of 32 bytes the nibble from bit `shift` on, as 16 bytes: the first half low, the second high.
void store_nibbles(const std::byte* bytes, size_t shift, std::byte* to) {
  constexpr uint64_t kNibbles = 0x0F0F0F0F0F0F0F0F;
  for (size_t i = 0; i < kHalfBlock; i += 8) {
    const uint64_t eight = (load<uint64_t>(bytes + i) >> shift & kNibbles) |
                           (load<uint64_t>(bytes + kHalfBlock + i) >> shift & kNibbles) << 4U;
    store(eight, to + i);
  }
}

// Bit `shift` of 32 bytes as 32 bits. The product gathers one bit of each of 8 bytes in its last byte.
void store_bits(const std::byte* bytes, size_t shift, std::byte* to) {
  for (size_t i = 0; i < 4; ++i) {
    to[i] = static_cast<std::byte>((load<uint64_t>(bytes + 8 * i) >> shift & 0x0101010101010101) * 0x0102040810204080 >>
                                   56U);
  }
}

void repack_q4_k_or_q5_k(const std::byte* block, const std::byte* fifth, const std::byte* nibbles, std::byte* to) {
  const float d = half_at(block), e = half_at(block + 2);
  for (size_t sub = 0; sub < 8; ++sub) {
    const ScaleMinimum packed = scale_minimum(block + 4, sub);
    store_half(d * static_cast<float>(packed.scale), "scale", to);
    store_half(-e * static_cast<float>(packed.minimum), "minimum", to + 2);
    to += 4;
    if (fifth != nullptr) {
      store_bits(fifth, sub, to);
      to += 4;
    }
    store_nibbles(nibbles + 32 * (sub / 2), 4 * (sub % 2), to);
    to += kHalfBlock;
  }
}

void repack_q5_0(const std::byte* block, std::byte* to) {
  std::memcpy(to, block, 2);
  store_half(-16.0F * half_at(block), "minimum", to + 2);
  std::memcpy(to + 4, block + 2, 4 + kHalfBlock);
}

// The numbers q - 4 of Q3_K as q' - 32 of Q6_K.
void repack_q3_k(const std::byte* block, std::byte* to) {
  std::memset(to, 0, 192);
  for (size_t n = 0; n < kNumbers; ++n) {
    const int number = q3_k_number(block, n) + 32;
    const size_t half = n / 128, quarter = n % 128 / 32, i = n % 32;
    to[64 * half + n % 64] |= static_cast<std::byte>((number & 0xF) << (4 * (quarter / 2)));
    to[128 + 32 * half + i] |= static_cast<std::byte>(number >> 4 << (2 * quarter));
  }
  for (size_t sub = 0; sub < kNumbers / 16; ++sub) to[192 + sub] = static_cast<std::byte>(q3_k_scale(block + 96, sub));
  std::memcpy(to + 208, block + 108, 2);
}

void repack_iq4_xs(const std::byte* block, std::byte* to) {
  const float d = half_at(block);
  for (size_t sub = 0; sub < 8; ++sub, to += 2 + kHalfBlock) {
    store_half(d * static_cast<float>(iq4_xs_scale(block, sub)), "scale", to);
    std::memcpy(to + 2, block + 8 + kHalfBlock * sub, kHalfBlock);
  }
}

}  // namespace

bool keeps_numbers(TensorType from) { return computed_type(from) != from && from != TensorType::Q2_K; }

void repack_block(TensorType from, const std::byte* block, std::byte* to) {
  switch (from) {
    case TensorType::Q4_K:
      return repack_q4_k_or_q5_k(block, nullptr, block + 16, to);
    case TensorType::Q5_K:
      return repack_q4_k_or_q5_k(block, block + 16, block + 48, to);
    case TensorType::Q5_0:
      return repack_q5_0(block, to);
    case TensorType::Q3_K:
      return repack_q3_k(block, to);
    case TensorType::IQ4_XS:
      return repack_iq4_xs(block, to);
    default:
      INFLIGHT_CHECK(false);
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
    case TensorType::MXFP4:
      return read_mxfp4(block, numbers);
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
