// SPDX-License-Identifier: Apache-2.0
#include "model/convert_rows.h"

#include "base/error.h"
#include "base/parallel.h"
#include "model/quantize.h"

namespace inflight {
std::vector<std::byte> convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows,
                                    size_t first_row) {
  const size_t from_stride = row_bytes(from, columns), to_stride = row_bytes(to, columns);
  INFLIGHT_CHECK(rows.size() % from_stride == 0);
  const size_t count = rows.size() / from_stride;
  std::vector<std::byte> result(count * to_stride);
  in_parallel(count, [&](size_t begin, size_t end) {
    std::vector<float> numbers(static_cast<size_t>(columns));
    for (size_t row = begin; row < end; ++row) {
      dequantize_row(from, rows.subspan(row * from_stride, from_stride), numbers);
      try {
        quantize_row(to, numbers, std::span(result).subspan(row * to_stride, to_stride));
      } catch (const Error& error) {
        fail(error.code(), "row {}: {}", first_row + row, error.what());
      }
    }
  });
  return result;
}

}  // namespace inflight
