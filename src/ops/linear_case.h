// SPDX-License-Identifier: Apache-2.0
// Random operands of a linear layer and what it must give, bit for bit: what kernels are verified with before they are
// used. THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/panel.h"

namespace inflight {

struct LinearShape {
  PanelType type = PanelType::F32;
  int32_t outputs = 16;
  int32_t depth = 32;
  int32_t rows = 1;
};

// As cl_kernels/linear.cl states them. Weights cover every value of the quantised types; rows are in [-1, 1].
struct LinearCase {
  LinearShape shape;
  std::vector<std::byte> weights;  // [outputs] rows as in model files
  std::vector<std::byte> panels;   // the same, packed
  std::vector<float> x;            // [rows][depth]; for the quantised types scale * bytes
  std::vector<int8_t> bytes;       // [depth / 32][rows][32]
  std::vector<float> scales;       // [depth / 32][rows]
  std::vector<int32_t> sums;       // [depth / 32][rows][2]
};

// REQUIRES: depth is a multiple of the type's unit.
[[nodiscard]] LinearCase make_linear_case(const LinearShape& shape, uint64_t seed);

// y[row, output] with the contract's order of additions and roundings.
[[nodiscard]] float expected_output(const LinearCase& linear_case, int32_t row, int32_t output);

// Weight number k of an output.
[[nodiscard]] float weight_number(const LinearCase& linear_case, int32_t output, int32_t k);

}  // namespace inflight
