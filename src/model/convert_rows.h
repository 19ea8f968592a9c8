// SPDX-License-Identifier: Apache-2.0
// Rows of one stored type to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/tensor_type.h"

namespace inflight {

// Whole rows of `columns` numbers each.
// REQUIRES: rows.size() is a multiple of row_bytes(from, columns), result has row_bytes(to, columns) for each of them;
//           columns is a multiple of the units of both types; `to` is a type that
//           quantize_row() takes, or computed_type(from), to which numbers are kept where they can be
//           (block_formats.h).
// ERRORS:   InvalidArgument for a number that is not finite or too large for `to`, naming it and its row, counted from
//           `first_row`.
// COST:     O(numbers); a row of floats.   THREAD: any.
void convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows, size_t first_row,
                  std::span<std::byte> result);

}  // namespace inflight
