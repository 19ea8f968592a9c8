// SPDX-License-Identifier: Apache-2.0
#include "exec/pack_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "exec/arena.h"
#include "model/convert_rows.h"
#include "model/quantize.h"
#include "ops/panel.h"

namespace inflight {
namespace {

// Rows of a matrix whose pieces are turned, in the format of its panels.
std::vector<std::byte> turned_rows(const WeightView& view, size_t first_row, size_t count) {
  const auto columns = static_cast<size_t>(view.columns), piece = static_cast<size_t>(view.piece_rows);
  const size_t stride = row_bytes(view.type, view.stored_columns());
  std::vector<float> numbers(count * columns), stored(piece);
  for (size_t begin = first_row, end = 0; begin < first_row + count; begin = end) {
    end = std::min(first_row + count, (begin / piece + 1) * piece);
    for (size_t column = 0; column < columns; ++column) {
      dequantize_row(view.type, view.bytes.subspan((view.place_of(begin) + column) * stride, stride), stored);
      for (size_t row = begin; row < end; ++row) {
        numbers[(row - first_row) * columns + column] = stored[row % piece];
      }
    }
  }
  const auto type = static_cast<TensorType>(panel_type(view));
  const size_t bytes = row_bytes(type, view.columns);
  std::vector<std::byte> rows(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    quantize_row(type, std::span(numbers).subspan(i * columns, columns), std::span(rows).subspan(i * bytes, bytes));
  }
  return rows;
}

}  // namespace

std::span<const std::byte> pack_rows(const WeightView& view, size_t first, std::span<std::byte> packed) {
  const PanelType type = panel_type(view);
  const size_t first_row = first * kPanelOutputs;
  const size_t count = std::min(packed.size() / panel_bytes(type, view.columns) * kPanelOutputs,
                                static_cast<size_t>(view.rows) - first_row);
  const size_t stride = row_bytes(view.type, view.stored_columns());
  const size_t begin = view.place_of(first_row) * stride;
  const size_t last = view.place_of(first_row + count - 1) + (view.turned ? static_cast<size_t>(view.columns) - 1 : 0);
  const std::span<const std::byte> read = view.bytes.subspan(begin, (last + 1) * stride - begin);
  const auto outputs = static_cast<int32_t>(count);
  std::vector<std::byte> together;
  if (view.piece_rows > 0 && !view.turned) {
    together.resize(count * stride);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&together[i * stride], &view.bytes[view.place_of(first_row + i) * stride], stride);
    }
  }
  const std::span<const std::byte> rows = view.piece_rows > 0 ? together : read;
  try {
    if (view.turned) {
      pack_panels({type, outputs, view.columns, turned_rows(view, first_row, count)}, packed);
      return read;
    }
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
