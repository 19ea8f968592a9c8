// SPDX-License-Identifier: Apache-2.0
#include "exec/pack_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "exec/arena.h"
#include "model/convert_rows.h"
#include "ops/panel.h"

namespace inflight {

std::span<const std::byte> pack_rows(const WeightView& view, size_t first, std::span<std::byte> packed) {
  const PanelType type = panel_type(view);
  const size_t first_row = first * kPanelOutputs;
  const size_t count = std::min(packed.size() / panel_bytes(type, view.columns) * kPanelOutputs,
                                static_cast<size_t>(view.rows) - first_row);
  const size_t stride = row_bytes(view.type, view.columns);
  const size_t begin = view.place_of(first_row) * stride, end = (view.place_of(first_row + count - 1) + 1) * stride;
  const std::span<const std::byte> read = view.bytes.subspan(begin, end - begin);
  std::vector<std::byte> together;
  if (view.piece_rows > 0) {
    together.resize(count * stride);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&together[i * stride], &view.bytes[view.place_of(first_row + i) * stride], stride);
    }
  }
  const std::span<const std::byte> rows = view.piece_rows > 0 ? together : read;
  const auto outputs = static_cast<int32_t>(count);
  try {
    if (computed_type(view.type) == view.type) {
      pack_panels({type, outputs, view.columns, rows}, packed);
      return read;
    }
    std::vector<std::byte> converted(row_bytes(computed_type(view.type), view.columns) * count);
    convert_rows(view.type, computed_type(view.type), view.columns, rows, first_row, converted);
    pack_panels({type, outputs, view.columns, converted}, packed);
  } catch (const Error& error) {
    fail(ErrorCode::CorruptFile, "tensor {}, {}", quote(view.name), error.what());
  }
  return read;
}

}  // namespace inflight
