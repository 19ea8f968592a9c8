// SPDX-License-Identifier: Apache-2.0
// Panels hold every number of the matrix where cl_kernels/linear.cl says, and zeros behind the last output.
#include "ops/panel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/half.h"
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

// Number k of a unit in a model file, without scale and minimum (GGUF's layouts).
int32_t number_in_file(PanelType type, const std::byte* unit, size_t k) {
  const auto byte = [unit](size_t at) { return static_cast<int32_t>(unit[at]); };
  if (type == PanelType::Q5_1)
    return (k < 16 ? byte(8 + k) & 15 : byte(8 + k - 16) >> 4) | (byte(4 + k / 8) >> k % 8 & 1) << 4;
  const size_t half = k / 128, quarter = k / 32 % 4;
  const int32_t upper = byte(128 + 32 * half + k % 32) >> 2 * quarter & 3;
  return (byte(64 * half + k % 64) >> (quarter < 2 ? 0 : 4) & 15) | upper << 4;
}

// Depth k of a lane's block in a panel, as cl_kernels/linear.cl has it.
int32_t number_in_panel(PanelType type, const std::byte* block, size_t lane, size_t k) {
  const size_t group = k / 4, j = k % 4;
  const auto byte = [&](size_t words) { return static_cast<int32_t>(block[64 + 64 * words + 4 * lane + j]); };
  const size_t upper_words = type == PanelType::Q5_1 ? 1 : 2;
  const int32_t nibble = byte(upper_words + group % 4) >> (group < 4 ? 0 : 4) & 15;
  const int32_t upper = type == PanelType::Q5_1 ? byte(0) >> group & 1 : byte(group / 4) >> 2 * (group % 4) & 3;
  return nibble | upper << 4;
}

TEST(Panel, UpperBitsLieBeforeTheNibbles) {
  constexpr int32_t kLong = 512;
  for (const PanelType type : {PanelType::Q5_1, PanelType::Q6_K}) {
    const PanelUnit unit = panel_unit(type);
    std::vector<std::byte> rows(static_cast<size_t>(kLong / unit.numbers * unit.bytes * kOutputs));
    Rng rng(10);
    for (std::byte& byte : rows) byte = static_cast<std::byte>(rng.below(0x7C));  // no half is infinite
    std::vector<std::byte> panels(packed_bytes(type, kOutputs, kLong), std::byte{0xEE});
    const auto row_bytes = static_cast<size_t>(kLong / unit.numbers * unit.bytes),
               numbers = static_cast<size_t>(unit.numbers);
    if (type == PanelType::Q6_K) {
      for (size_t at = 209; at < rows.size(); at += 210) rows[at] = static_cast<std::byte>(rng.below(0x40));
    }
    pack_panels({type, kOutputs, kLong, rows}, panels);
    for (size_t output = 0; output < kOutputs; ++output) {
      for (size_t k = 0; k < kLong; ++k) {
        const std::byte* const from = &rows[output * row_bytes + k / numbers * static_cast<size_t>(unit.bytes)];
        const std::byte* const block = &panels[output / 16 * panel_bytes(type, kLong) + k / 32 * panel_bytes(type, 32)];
        ASSERT_EQ(number_in_panel(type, block, output % 16, k % 32), number_in_file(type, from, k % numbers))
            << output << ' ' << k;
        const size_t which = type == PanelType::Q6_K ? k % 32 / 16 : k % 2;
        uint16_t found = 0, stored = 0;
        std::memcpy(&found, block + 32 * which + 2 * (output % 16), 2);
        std::memcpy(&stored, type == PanelType::Q6_K ? from + 208 : from + 2 * which, 2);
        const auto scale = type == PanelType::Q6_K ? static_cast<int8_t>(from[192 + k % numbers / 16]) : int8_t{1};
        ASSERT_EQ(found, half_of_float(float_of_half(stored) * static_cast<float>(scale))) << output << ' ' << k;
      }
    }
    EXPECT_EQ(panels.back(), std::byte{0});
  }
}

// Scales 2^(e - 128) become what a float's exponent is, and nibbles stand as those of Q4_0.
TEST(Panel, ExponentsOfMxfp4LieBeforeTheNibbles) {
  constexpr size_t kBlocks = 3, kUnit = 17;
  std::vector<std::byte> rows(kOutputs * kBlocks * kUnit);
  Rng rng(11);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(rng.below(256));
  rows[0] = std::byte{0};
  std::vector<std::byte> panels(packed_bytes(PanelType::MXFP4, kOutputs, 96), std::byte{0xEE});
  ASSERT_EQ(panels.size(), size_t{(kOutputs + 15) / 16 * kBlocks * 272});
  pack_panels({PanelType::MXFP4, kOutputs, 96, rows}, panels);
  for (size_t output = 0; output < kOutputs; ++output) {
    for (size_t block = 0; block < kBlocks; ++block) {
      const std::byte* const from = &rows[(output * kBlocks + block) * kUnit];
      const std::byte* const to = &panels[(output / 16 * kBlocks + block) * 272];
      const auto exponent = static_cast<int>(from[0]);
      ASSERT_EQ(static_cast<int>(to[output % 16]), exponent == 0 ? 0 : exponent - 1) << output << ' ' << block;
      for (size_t i = 0; i < 16; ++i) ASSERT_EQ(to[16 + i / 4 * 64 + output % 16 * 4 + i % 4], from[1 + i]);
    }
  }
  EXPECT_EQ(panels.back(), std::byte{0});
}

TEST(Panel, ScalesBeyondHalfPrecisionAreRefused) {
  std::vector<std::byte> row(210, std::byte{2});
  row[209] = std::byte{0x7B};  // d = 57408
  std::vector<std::byte> panels(packed_bytes(PanelType::Q6_K, 1, 256));
  EXPECT_THROW(pack_panels({PanelType::Q6_K, 1, 256, row}, panels), Error);
}

}  // namespace
}  // namespace inflight
