// SPDX-License-Identifier: Apache-2.0
#include "model/convert_rows.h"

#include <vector>

#include "base/error.h"
#include "model/quantize.h"

namespace inflight {

void convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows, size_t first_row,
                  std::span<std::byte> result) {
  const size_t from_stride = row_bytes(from, columns), to_stride = row_bytes(to, columns);
  const size_t count = rows.size() / from_stride;
  INFLIGHT_CHECK(rows.size() == count * from_stride && result.size() == count * to_stride);
  std::vector<float> numbers(static_cast<size_t>(columns));
  for (size_t row = 0; row < count; ++row) {
    dequantize_row(from, rows.subspan(row * from_stride, from_stride), numbers);
    try {
      quantize_row(to, numbers, result.subspan(row * to_stride, to_stride));
    } catch (const Error& error) {
      fail(error.code(), "row {}: {}", first_row + row, error.what());
    }
  }
}

}  // namespace inflight
