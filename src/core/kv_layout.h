// SPDX-License-Identifier: Apache-2.0
// The size of the paged KV storage: what one block holds, over all layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model_spec.h"

namespace inflight {

enum class KvType : int32_t { F16 = 0, F32 = 1 };

struct KvLayout {
  int32_t layer_count = 0;
  int32_t kv_head_count = 0;
  int32_t head_size = 0;
  int32_t block_token_count = 16;  // B, limits::kBlockTokensMin..Max, a power of two
  KvType type = KvType::F16;

  // ERRORS: InvalidArgument when block_token_count is out of range or no power of two.
  [[nodiscard]] static KvLayout of(const ModelSpec& spec, int32_t block_token_count, KvType type);

  [[nodiscard]] size_t bytes_per_number() const { return type == KvType::F16 ? 2 : 4; }
  // K and V of one token over all layers: 2 * L * G * D * bytes (checklist 74).
  [[nodiscard]] size_t bytes_per_token() const {
    return size_t{2} * static_cast<size_t>(layer_count) * static_cast<size_t>(kv_head_count) *
           static_cast<size_t>(head_size) * bytes_per_number();
  }
  [[nodiscard]] size_t bytes_per_block() const { return bytes_per_token() * static_cast<size_t>(block_token_count); }
};

}  // namespace inflight
