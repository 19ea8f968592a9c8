// SPDX-License-Identifier: Apache-2.0
// The size of the paged KV storage: what one block holds, and one slot of local layers (cache/local_slots.h). Its unit
// is K and V of a block's tokens in one layer and KV head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model_spec.h"

namespace inflight {

// Q8_0: blocks of 32 numbers of a head, each a half scale and 32 int8 (GGUF's format). I16: a token's K, or V, of a
// head as 14-bit integers in 16 bits and a float scale.
enum class KvType : int32_t { F16 = 0, F32 = 1, Q8_0 = 2, I16 = 3 };
[[nodiscard]] const char* to_string(KvType type);  // "q8_0"

struct KvLayout {
  int32_t head_count = 0;        // KV heads of all layers
  int32_t local_head_count = 0;  // of these, those whose K and V lie in slots; 0: all lie in the blocks
  int32_t head_size = 0;
  int32_t block_token_count = 16;  // B, limits::kBlockTokensMin..Max, a power of two
  KvType type = KvType::F16;

  // ERRORS: InvalidArgument when block_token_count is out of range or no power of two, or when the model's heads are no
  // whole blocks of Q8_0.
  [[nodiscard]] static KvLayout of(const ModelSpec& spec, int32_t block_token_count, KvType type);

  // K or V of one token in one layer and KV head.
  [[nodiscard]] size_t bytes_per_head() const;
  // K and V of one token over all layers.
  [[nodiscard]] size_t bytes_per_token() const {
    return size_t{2} * static_cast<size_t>(head_count) * bytes_per_head();
  }
  [[nodiscard]] size_t bytes_per_unit() const {
    return size_t{2} * static_cast<size_t>(block_token_count) * bytes_per_head();
  }
  [[nodiscard]] int32_t block_head_count() const { return head_count - local_head_count; }
  [[nodiscard]] size_t bytes_per_block() const { return bytes_per_unit() * static_cast<size_t>(block_head_count()); }
  [[nodiscard]] size_t bytes_per_slot() const { return bytes_per_unit() * static_cast<size_t>(local_head_count); }
};

}  // namespace inflight
