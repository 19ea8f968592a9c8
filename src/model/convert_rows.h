// SPDX-License-Identifier: Apache-2.0
// Rows of one stored type to another, on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/tensor_type.h"

namespace inflight {

// Whole rows of `columns` numbers each.
// REQUIRES: rows.size() is a multiple of row_bytes(from, columns), columns of the units of both types; `to` is a
//           computed type.
// ERRORS:   InvalidArgument for a number that is not finite or too large for `to`, naming it and its row, counted from
//           `first_row`.
// COST:     O(numbers) over the cores; a row of floats for each.   THREAD: any.
[[nodiscard]] std::vector<std::byte> convert_rows(TensorType from, TensorType to, int64_t columns,
                                                  std::span<const std::byte> rows, size_t first_row);

}  // namespace inflight
