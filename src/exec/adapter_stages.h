// SPDX-License-Identifier: Apache-2.0
// The stages that add adapters' low-rank products to linear layers (cl_kernels/lora.cl).   THREAD: any.
#pragma once

#include <cstdint>
#include <span>

#include "core/model_spec.h"
#include "exec/arena.h"
#include "model/lora_file.h"
#include "ops/stage.h"

namespace inflight {

// Matrices of one layer that read the same rows and follow each other in LoraTarget.
struct AdaptedMatrices {
  int32_t layer = 0;
  LoraTarget first = LoraTarget::Query;
  int32_t in = 0;                 // rows of floats that they read
  std::span<const int32_t> outs;  // where each one's outputs are, at most 3
};

struct AdapterSizes {
  int32_t slot_size = 0;  // in units of kWeightAlignment bytes; 0: there are no adapters
  int32_t panels = 1;     // of outputs, of an item
};

// Rows of a tile at most, and panels of an item.
[[nodiscard]] int32_t adapter_tile_rows(bool small_items);
[[nodiscard]] int32_t adapter_item_panels(bool small_items);

[[nodiscard]] AdapterArgs adapter_args(const ModelSpec& spec, const Arena& arena, const ArenaSize& size,
                                       const AdapterSizes& sizes, const AdaptedMatrices& matrices);
// Items of a shrink or expand stage for so many tiles.
[[nodiscard]] int32_t adapter_items(const Stage& stage, int32_t tile_count);

}  // namespace inflight
