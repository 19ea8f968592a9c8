// SPDX-License-Identifier: Apache-2.0
#include "ops/panel.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"

namespace inflight {
namespace {

constexpr int32_t kBlock = 32;  // depths of a quantised block
constexpr size_t kScalesBytes = size_t{2} * kPanelOutputs;

// One output's row into its lane of a panel of plain numbers.
template <typename Number>
void pack_numbers(const std::byte* row, int32_t depth, size_t lane, std::byte* panel) {
  for (size_t k = 0; k < static_cast<size_t>(depth); ++k) {
    std::memcpy(panel + (k * kPanelOutputs + lane) * sizeof(Number), row + k * sizeof(Number), sizeof(Number));
  }
}

// Blocks in the file: half scale, then `bytes` of numbers. In the panel: 16 scales, then pieces of 4 bytes, lane by
// lane.
void pack_q8_0(const std::byte* row, int32_t depth, size_t lane, std::byte* panel) {
  for (int32_t block = 0; block < depth / kBlock; ++block, row += 34, panel += 544) {
    std::memcpy(panel + 2 * lane, row, 2);
    for (size_t piece = 0; piece < 8; ++piece) {
      std::memcpy(panel + kScalesBytes + piece * 64 + lane * 4, row + 2 + piece * 4, 4);
    }
  }
}

// Byte i of a block holds numbers i (low nibble) and 16 + i (high), in the file as in the panel.
void pack_q4_0(const std::byte* row, int32_t depth, size_t lane, std::byte* panel) {
  for (int32_t block = 0; block < depth / kBlock; ++block, row += 18, panel += 288) {
    std::memcpy(panel + 2 * lane, row, 2);
    for (size_t piece = 0; piece < 4; ++piece) {
      std::memcpy(panel + kScalesBytes + piece * 64 + lane * 4, row + 2 + piece * 4, 4);
    }
  }
}

// One panel of a matrix whose rows have `stride` bytes.
void pack_panel(const MatrixRows& matrix, size_t stride, int32_t panel, std::span<std::byte> to) {
  const int32_t begin = panel * kPanelOutputs, end = std::min(begin + kPanelOutputs, matrix.outputs);
  if (end - begin < kPanelOutputs) std::memset(to.data(), 0, to.size());
  for (int32_t output = begin; output < end; ++output) {
    const std::byte* const row = matrix.rows.data() + stride * static_cast<size_t>(output);
    const auto lane = static_cast<size_t>(output - begin);
    switch (matrix.type) {
      case PanelType::F32:
        pack_numbers<float>(row, matrix.depth, lane, to.data());
        break;
      case PanelType::F16:
      case PanelType::BF16:
        pack_numbers<uint16_t>(row, matrix.depth, lane, to.data());
        break;
      case PanelType::Q8_0:
        pack_q8_0(row, matrix.depth, lane, to.data());
        break;
      case PanelType::Q4_0:
        pack_q4_0(row, matrix.depth, lane, to.data());
        break;
    }
  }
}

}  // namespace

PanelUnit panel_unit(PanelType type) {
  switch (type) {
    case PanelType::F32:
      return {1, 4};
    case PanelType::F16:
    case PanelType::BF16:
      return {1, 2};
    case PanelType::Q8_0:
      return {kBlock, 34};
    case PanelType::Q4_0:
      return {kBlock, 18};
  }
  fail(ErrorCode::Unsupported, "weights of type id {} cannot be computed with", static_cast<int32_t>(type));
}

bool takes_bytes(PanelType type) { return type == PanelType::Q8_0 || type == PanelType::Q4_0; }

size_t panel_bytes(PanelType type, int32_t depth) {
  const auto numbers = static_cast<size_t>(depth);
  switch (type) {
    case PanelType::F32:
      return numbers * 64;
    case PanelType::Q8_0:
      return numbers / kBlock * 544;
    case PanelType::Q4_0:
      return numbers / kBlock * 288;
    case PanelType::F16:
    case PanelType::BF16:
      break;
  }
  return numbers * 32;
}

int32_t panel_count(int32_t outputs) { return div_ceil(outputs, kPanelOutputs); }

size_t packed_bytes(PanelType type, int32_t outputs, int32_t depth) {
  return panel_bytes(type, depth) * static_cast<size_t>(panel_count(outputs));
}

void pack_panels(const MatrixRows& matrix, std::span<std::byte> to) {
  const PanelUnit unit = panel_unit(matrix.type);
  INFLIGHT_CHECK(matrix.depth % unit.numbers == 0);
  const size_t stride = static_cast<size_t>(matrix.depth / unit.numbers) * static_cast<size_t>(unit.bytes);
  const size_t bytes = panel_bytes(matrix.type, matrix.depth);
  INFLIGHT_CHECK(to.size() == packed_bytes(matrix.type, matrix.outputs, matrix.depth) &&
                 matrix.rows.size() == stride * static_cast<size_t>(matrix.outputs));
  in_parallel(to.size() / bytes, [&](size_t begin, size_t end) {
    for (size_t panel = begin; panel < end; ++panel) {
      pack_panel(matrix, stride, static_cast<int32_t>(panel), to.subspan(panel * bytes, bytes));
    }
  });
}

}  // namespace inflight
