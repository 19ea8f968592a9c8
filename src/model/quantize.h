// SPDX-License-Identifier: Apache-2.0
// Rows of numbers to and from the stored formats of tensor_type.h, bit for bit as GGUF's reference
// does it.
#pragma once

#include <cstddef>
#include <span>

#include "model/tensor_type.h"

namespace inflight {

// REQUIRES: numbers.size() is a multiple of the type's unit, row.size() is row_bytes() of it. Rows
//           need no alignment.
// COST:     O(numbers), no allocation.   THREAD: any.
void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> numbers);

// REQUIRES: as dequantize_row; `type` is one that parse_tensor_type() knows.
// ERRORS:   InvalidArgument for NaN, an infinity, or a number too large for the type, naming it.
void quantize_row(TensorType type, std::span<const float> numbers, std::span<std::byte> row);

}  // namespace inflight
