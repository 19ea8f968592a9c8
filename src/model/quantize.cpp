// SPDX-License-Identifier: Apache-2.0
#include "model/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"
#include "model/block_formats.h"

namespace inflight {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF's numbers are read in place");
static_assert(sizeof(float) == 4 && std::numeric_limits<float>::is_iec559);

constexpr size_t kQ8Bytes = 2 + kQuantBlock;
constexpr size_t kQ4Bytes = 2 + kHalfBlock;

// 1/d; 0 where d is 0 or so small that 1/d overflows: the block's stored scale is then 0 as well.
float inverse_of(float d) {
  const float inverse = d != 0.0F ? 1.0F / d : 0.0F;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

// d as the f16 that a block stores.  ERRORS: InvalidArgument when d is beyond F16's range.
uint16_t block_scale(float d, float largest, TensorType type) {
  const uint16_t bits = half_of_float(d);
  if ((bits & 0x7C00U) == 0x7C00U) {
    fail(ErrorCode::InvalidArgument, "{} is too large for {}", largest, to_string(type));
  }
  return bits;
}

void quantize_q8_block(const float* x, std::byte* block) {
  float largest = 0.0F;
  for (int32_t i = 0; i < kQuantBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127.0F;
  const float inverse = inverse_of(d);
  store(block_scale(d, largest, TensorType::Q8_0), block);
  for (size_t i = 0; i < kQuantBlock; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
  }
}

// The signed number of largest magnitude becomes -8, so that the other end of the range, +7, is the
// clipped one.
void quantize_q4_block(const float* x, std::byte* block) {
  float largest = 0.0F;
  for (int32_t i = 0; i < kQuantBlock; ++i) {
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
  const float d = largest / -8.0F;
  const float inverse = inverse_of(d);
  store(block_scale(d, largest, TensorType::Q4_0), block);
  // Product and sum are rounded each by itself (no fused multiply-add), as in GGUF's reference.
  const auto nibble = [inverse](float number) {
    return static_cast<uint8_t>(std::min(15, static_cast<int>(number * inverse + 8.5F)));
  };
  for (size_t i = 0; i < kHalfBlock; ++i) {
    block[2 + i] = static_cast<std::byte>(nibble(x[i]) | nibble(x[i + kHalfBlock]) << 4);
  }
}

void require_finite(std::span<const float> numbers) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (bad != numbers.end()) {
    fail(ErrorCode::InvalidArgument, "number {} is {}", bad - numbers.begin(), *bad);
  }
}

}  // namespace

void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> numbers) {
  INFLIGHT_CHECK(row.size() == row_bytes(type, static_cast<int64_t>(numbers.size())));
  const std::byte* in = row.data();
  float* out = numbers.data();
  const size_t blocks = numbers.size() / kQuantBlock;
  switch (type) {
    case TensorType::F32:
      if (!row.empty()) std::memcpy(out, in, row.size());
      break;
    case TensorType::F16:
      for (size_t i = 0; i < numbers.size(); ++i) out[i] = float_of_half(load<uint16_t>(in + 2 * i));
      break;
    case TensorType::BF16:
      for (size_t i = 0; i < numbers.size(); ++i) out[i] = float_of_bfloat(load<uint16_t>(in + 2 * i));
      break;
    case TensorType::Q8_0:
      for (size_t b = 0; b < blocks; ++b, in += kQ8Bytes, out += kQuantBlock) {
        const float d = float_of_half(load<uint16_t>(in));
        for (size_t i = 0; i < kQuantBlock; ++i) {
          out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
        }
      }
      break;
    case TensorType::Q4_0:
      for (size_t b = 0; b < blocks; ++b, in += kQ4Bytes, out += kQuantBlock) {
        const float d = float_of_half(load<uint16_t>(in));
        for (size_t i = 0; i < kHalfBlock; ++i) {
          const auto pair = static_cast<int>(in[2 + i]);
          out[i] = d * static_cast<float>((pair & 0xF) - 8);
          out[i + kHalfBlock] = d * static_cast<float>((pair >> 4) - 8);
        }
      }
      break;
    default: {
      const TensorUnit unit = unit_of(type);
      for (; out < numbers.data() + numbers.size(); in += unit.bytes, out += unit.numbers) read_block(type, in, out);
    }
  }
}

void quantize_row(TensorType type, std::span<const float> numbers, std::span<std::byte> row) {
  INFLIGHT_CHECK(row.size() == row_bytes(type, static_cast<int64_t>(numbers.size())));
  require_finite(numbers);
  const float* in = numbers.data();
  std::byte* out = row.data();
  const size_t blocks = numbers.size() / kQuantBlock;
  switch (type) {
    case TensorType::F32:
      if (!row.empty()) std::memcpy(out, in, row.size());
      break;
    case TensorType::F16:
      for (size_t i = 0; i < numbers.size(); ++i) {
        store(block_scale(in[i], in[i], type), out + 2 * i);
      }
      break;
    case TensorType::BF16:
      for (size_t i = 0; i < numbers.size(); ++i) {
        const uint16_t bits = bfloat_of_float(in[i]);
        if ((bits & 0x7F80U) == 0x7F80U) {
          fail(ErrorCode::InvalidArgument, "{} is too large for BF16", in[i]);
        }
        store(bits, out + 2 * i);
      }
      break;
    case TensorType::Q8_0:
      for (size_t b = 0; b < blocks; ++b) {
        quantize_q8_block(in + b * kQuantBlock, out + b * kQ8Bytes);
      }
      break;
    case TensorType::Q4_0:
      for (size_t b = 0; b < blocks; ++b) {
        quantize_q4_block(in + b * kQuantBlock, out + b * kQ4Bytes);
      }
      break;
    default:
      INFLIGHT_CHECK(false);  // no row is stored in a type that is only read
  }
}

}  // namespace inflight
