// SPDX-License-Identifier: Apache-2.0
// Panels hold every number of the matrix where cl_kernels/linear.cl says, and zeros behind the last output.
#include "ops/panel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"

namespace inflight {
namespace {

constexpr int32_t kDepth = 64, kOutputs = 21;  // one panel and 5 of the next

std::vector<std::byte> random_rows(PanelType type) {
  const PanelUnit unit = panel_unit(type);
  std::vector<std::byte> rows(static_cast<size_t>(kDepth / unit.numbers * unit.bytes * kOutputs));
  Rng rng(9);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(rng.below(256));
  return rows;
}

std::vector<std::byte> packed(PanelType type, const std::vector<std::byte>& rows) {
  std::vector<std::byte> panels(packed_bytes(type, kOutputs, kDepth), std::byte{0xEE});
  pack_panels({type, kOutputs, kDepth, rows}, panels);
  return panels;
}

TEST(Panel, PlainNumbersLieSixteenOutputsSideBySide) {
  for (const PanelType type : {PanelType::F32, PanelType::F16, PanelType::BF16}) {
    const auto bytes = static_cast<size_t>(panel_unit(type).bytes);
    const std::vector<std::byte> rows = random_rows(type), panels = packed(type, rows);
    for (size_t output = 0; output < 32; ++output) {
      for (size_t k = 0; k < kDepth; ++k) {
        const std::byte* const found =
            &panels[output / 16 * panel_bytes(type, kDepth) + (k * 16 + output % 16) * bytes];
        const std::vector<std::byte> zeros(bytes);
        const std::byte* const expected = output < kOutputs ? &rows[(output * kDepth + k) * bytes] : zeros.data();
        ASSERT_EQ(std::memcmp(found, expected, bytes), 0) << output << ' ' << k;
      }
    }
  }
}

TEST(Panel, QuantisedBlocksKeepScalesFirst) {
  for (const PanelType type : {PanelType::Q8_0, PanelType::Q4_0, PanelType::Q4_1}) {
    const std::vector<std::byte> rows = random_rows(type), panels = packed(type, rows);
    const auto unit = static_cast<size_t>(panel_unit(type).bytes);
    const size_t halves = type == PanelType::Q4_1 ? 2 : 1, numbers = unit - 2 * halves, block_bytes = 16 * unit;
    for (size_t output = 0; output < kOutputs; ++output) {
      for (size_t block = 0; block < 2; ++block) {
        const std::byte* const from = &rows[(output * 2 + block) * unit];
        const std::byte* const to = &panels[output / 16 * panel_bytes(type, kDepth) + block * block_bytes];
        const size_t lane = output % 16;
        for (size_t i = 0; i < halves; ++i) ASSERT_EQ(std::memcmp(to + 32 * i + lane * 2, from + 2 * i, 2), 0);
        for (size_t i = 0; i < numbers; ++i) {
          ASSERT_EQ(to[32 * halves + i / 4 * 64 + lane * 4 + i % 4], from[2 * halves + i])
              << output << ' ' << block << ' ' << i;
        }
      }
    }
    EXPECT_EQ(panels.back(), std::byte{0});
  }
}

}  // namespace
}  // namespace inflight
