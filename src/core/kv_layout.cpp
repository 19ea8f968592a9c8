// SPDX-License-Identifier: Apache-2.0
#include "core/kv_layout.h"

#include <bit>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {

KvLayout KvLayout::of(const ModelSpec& spec, int32_t block_token_count, KvType type) {
  if (block_token_count < limits::kBlockTokensMin || block_token_count > limits::kBlockTokensMax ||
      !std::has_single_bit(static_cast<uint32_t>(block_token_count))) {
    fail(ErrorCode::InvalidArgument, "block_size is {}, allowed: a power of two from {} to {}", block_token_count,
         limits::kBlockTokensMin, limits::kBlockTokensMax);
  }
  return {.layer_count = spec.layer_count,
          .kv_head_count = spec.kv_head_count,
          .head_size = spec.head_size,
          .block_token_count = block_token_count,
          .type = type};
}

}  // namespace inflight
