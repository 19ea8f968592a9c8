// SPDX-License-Identifier: Apache-2.0
#include "core/kv_layout.h"

#include <array>
#include <bit>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {
namespace {

constexpr int32_t kQ8BlockNumbers = 32;
constexpr size_t kQ8BlockBytes = 34;

}  // namespace

const char* to_string(KvType type) {
  constexpr std::array<const char*, 4> kNames = {"f16", "f32", "q8_0", "i16"};
  return kNames[static_cast<size_t>(type)];
}

size_t KvLayout::bytes_per_head() const {
  const auto size = static_cast<size_t>(head_size);
  if (type == KvType::Q8_0) return size / kQ8BlockNumbers * kQ8BlockBytes;
  if (type == KvType::I16) return size * sizeof(int16_t) + sizeof(float);
  return size * (type == KvType::F16 ? 2 : 4);
}

KvLayout KvLayout::of(const ModelSpec& spec, int32_t block_token_count, KvType type) {
  if (block_token_count < limits::kBlockTokensMin || block_token_count > limits::kBlockTokensMax ||
      !std::has_single_bit(static_cast<uint32_t>(block_token_count))) {
    fail(ErrorCode::InvalidArgument, "block_size is {}, allowed: a power of two from {} to {}", block_token_count,
         limits::kBlockTokensMin, limits::kBlockTokensMax);
  }
  if (type == KvType::Q8_0 && spec.head_size % kQ8BlockNumbers != 0) {
    fail(ErrorCode::InvalidArgument,
         "kv_cache_dtype is q8_0, which keeps {} numbers in a block, but the model's heads have {}; allowed: f16, i16, "
         "f32",
         kQ8BlockNumbers, spec.head_size);
  }
  return {.head_count = spec.stored_head_count(),
          .head_size = spec.head_size,
          .block_token_count = block_token_count,
          .type = type};
}

}  // namespace inflight
