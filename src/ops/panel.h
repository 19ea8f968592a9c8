// SPDX-License-Identifier: Apache-2.0
// Weight matrices as the kernels read them: panels of 16 outputs, each one contiguous piece in the order of the depth.
// The layouts are stated in cl_kernels/linear.cl.   THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/stage.h"

namespace inflight {

inline constexpr int32_t kPanelOutputs = 16;
inline constexpr int32_t kBlockDepths = 32;  // of quantised numbers that share a scale

// Numbers a block and bytes of it, as stored row-major in model files: 1 and 4 (F32), 1 and 2 (F16, BF16), 32 and 34
// (Q8_0), 32 and 18 (Q4_0, IQ4_NL), 32 and 20 (Q4_1), 32 and 24 (Q5_1), 256, 210 (Q6_K), 32 and 17 (MXFP4).
struct PanelUnit {
  int32_t numbers;
  int32_t bytes;
};
[[nodiscard]] PanelUnit panel_unit(PanelType type);
// Whether its linear layers read rows quantised to int8.
[[nodiscard]] bool takes_bytes(PanelType type);

[[nodiscard]] size_t panel_bytes(PanelType type, int32_t depth);
[[nodiscard]] int32_t panel_count(int32_t outputs);
// Of the whole matrix, packed.
[[nodiscard]] size_t packed_bytes(PanelType type, int32_t outputs, int32_t depth);

// Packs rows into the panels that hold them, panel_count(outputs) of them; lanes without a row are zero.
// REQUIRES: rows holds `outputs` rows of `depth` numbers, depth a multiple of the unit's numbers; `to` has the size of
//           the panels and is aligned to 4.
// ERRORS:   InvalidArgument for a scale of Q6_K that is beyond half precision.
struct MatrixRows {
  PanelType type;
  int32_t outputs;
  int32_t depth;
  std::span<const std::byte> rows;
};
void pack_panels(const MatrixRows& matrix, std::span<std::byte> to);

}  // namespace inflight
