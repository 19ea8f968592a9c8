// SPDX-License-Identifier: Apache-2.0
#include "model/convert_rows.h"

#include <vector>

#include "base/error.h"
#include "model/block_formats.h"
#include "model/quantize.h"

namespace inflight {
namespace {

void repack_q4_k(std::span<const std::byte> row, std::span<std::byte> q4_1) {
  const auto bytes = static_cast<size_t>(unit_of(TensorType::Q4_K).bytes);
  const auto out_bytes = static_cast<size_t>(unit_of(TensorType::Q4_1).bytes) * 8;
  for (size_t block = 0; block < row.size() / bytes; ++block) {
    q4_1_of_q4_k(row.data() + block * bytes, q4_1.data() + block * out_bytes);
  }
}

}  // namespace

void convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows, size_t first_row,
                  std::span<std::byte> result) {
  const size_t from_stride = row_bytes(from, columns), to_stride = row_bytes(to, columns);
  const size_t count = rows.size() / from_stride;
  INFLIGHT_CHECK(rows.size() == count * from_stride && result.size() == count * to_stride);
  std::vector<float> numbers(static_cast<size_t>(columns));
  for (size_t row = 0; row < count; ++row) {
    const std::span<const std::byte> in = rows.subspan(row * from_stride, from_stride);
    const std::span<std::byte> out = result.subspan(row * to_stride, to_stride);
    try {
      if (to == TensorType::Q4_1) {
        repack_q4_k(in, out);
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
