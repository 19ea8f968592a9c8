// SPDX-License-Identifier: Apache-2.0
#include "model/convert_rows.h"

#include <vector>

#include "base/error.h"
#include "model/block_formats.h"
#include "model/quantize.h"

namespace inflight {
namespace {

void repack_row(TensorType from, TensorType to, std::span<const std::byte> row, std::span<std::byte> result) {
  const TensorUnit unit = unit_of(from), result_unit = unit_of(to);
  const size_t blocks = row.size() / static_cast<size_t>(unit.bytes);
  const auto result_bytes = static_cast<size_t>(unit.numbers / result_unit.numbers * result_unit.bytes);
  for (size_t block = 0; block < blocks; ++block) {
    repack_block(from, row.data() + block * static_cast<size_t>(unit.bytes), result.data() + block * result_bytes);
  }
}

}  // namespace

void convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows, size_t first_row,
                  std::span<std::byte> result) {
  const size_t from_stride = row_bytes(from, columns), to_stride = row_bytes(to, columns);
  const size_t count = rows.size() / from_stride;
  INFLIGHT_CHECK(rows.size() == count * from_stride && result.size() == count * to_stride);
  const bool repacked = to == computed_type(from) && keeps_numbers(from);
  std::vector<float> numbers(repacked ? 0 : static_cast<size_t>(columns));
  for (size_t row = 0; row < count; ++row) {
    const std::span<const std::byte> in = rows.subspan(row * from_stride, from_stride);
    const std::span<std::byte> out = result.subspan(row * to_stride, to_stride);
    try {
      if (repacked) {
        repack_row(from, to, in, out);
      } else {
        dequantize_row(from, in, numbers);
        quantize_row(to, numbers, out);
      }
    } catch (const Error& error) {
      fail(error.code(), "row {}: {}", first_row + row, error.what());
    }
  }
}

}  // namespace inflight
