// SPDX-License-Identifier: Apache-2.0
#include "ops/panel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"
#include "base/math.h"

namespace inflight {
namespace {

constexpr size_t kLanes = kPanelOutputs;
constexpr size_t kPieceBytes = 16;  // of a row, that move at once
constexpr size_t kLine = 64;        // of a processor's cache

using Rows = std::array<const std::byte*, kLanes>;  // of one panel

template <typename Item>
struct Piece {
  [[gnu::vector_size(kPieceBytes)]] Item items;
};

// a0 b0 a1 b1 ... of two pieces of n items: the first n into `low`, the others into `high`.
template <typename Item, size_t... i>
void zip(Piece<Item> a, Piece<Item> b, Piece<Item>& low, Piece<Item>& high, std::index_sequence<i...> /*items*/) {
  constexpr size_t n = sizeof...(i);
  low.items = __builtin_shufflevector(a.items, b.items, (i / 2 + i % 2 * n)...);
  high.items = __builtin_shufflevector(a.items, b.items, (n / 2 + i / 2 + i % 2 * n)...);
}

// The next kPieceBytes, n items, of n rows: item k of each goes to the n places from to[k * kLanes] on.
template <typename Item>
void transpose_piece(const std::byte* const* rows, size_t offset, std::byte* to) {
  constexpr size_t n = kPieceBytes / sizeof(Item);
  std::array<Piece<Item>, n> lines, zipped;
  for (size_t i = 0; i < n; ++i) std::memcpy(&lines[i], rows[i] + offset, kPieceBytes);
  for (size_t zips = 1; zips < n; zips *= 2) {  // log2(n) times: line i with line i + n / 2
    for (size_t i = 0; i < n / 2; ++i) {
      zip(lines[i], lines[i + n / 2], zipped[2 * i], zipped[2 * i + 1], std::make_index_sequence<n>());
    }
    lines = zipped;
  }
  for (size_t i = 0; i < n; ++i) std::memcpy(to + i * kLanes * sizeof(Item), &lines[i], kPieceBytes);
}

// `count` items of each row from `offset` bytes on, item by item, those of the lanes side by side.
template <typename Item>
void interleave(const Rows& rows, size_t offset, size_t count, std::byte* to) {
  constexpr size_t n = kPieceBytes / sizeof(Item);
  size_t item = 0;
  for (; item + n <= count; item += n) {
    for (size_t lane = 0; lane < kLanes; lane += n) {
      transpose_piece<Item>(&rows[lane], offset + item * sizeof(Item), to + (item * kLanes + lane) * sizeof(Item));
    }
  }
  for (; item < count; ++item) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      std::memcpy(to + (item * kLanes + lane) * sizeof(Item), rows[lane] + offset + item * sizeof(Item), sizeof(Item));
    }
  }
}

// Reads rows, which lie one after another, in their order: so they come from memory faster than sixteen at once.
void bring_near(const std::byte* rows, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine) static_cast<void>(*const_cast<const volatile std::byte*>(rows + i));
}

// The same without waiting.
void ask_for(const std::byte* rows, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(rows + i, 0, 2);
}

constexpr size_t kQ6KBlocks = 8;                   // of 32 numbers in one of Q6_K
constexpr size_t kQ6KBlockBytes = 2 * 2 + 8 + 16;  // of a lane in the panel
constexpr size_t kHalvesBytes = 2 * sizeof(uint16_t);
constexpr size_t kWord = sizeof(uint32_t);

// Bit 4 i + j to bit 8 j + i.
uint32_t transpose_bits(uint32_t bits) {
  uint32_t result = 0;
  for (uint32_t j = 0; j < 4; ++j) {
    uint32_t eight = bits >> j & 0x11111111U;
    eight = (eight | eight >> 3U) & 0x03030303U;
    eight = (eight | eight >> 6U) & 0x000F000FU;
    result |= ((eight | eight >> 12U) & 0xFFU) << (8 * j);
  }
  return result;
}

// One block of Q6_K (layout: model/block_formats.h) as 8 blocks of one lane of the panel: two half scales, 8 bytes of
// upper bits, 16 bytes of nibbles.
void repack_q6_k(const std::byte* from, std::byte* to) {
  const float d = float_of_half(load<uint16_t>(from + 208));
  for (size_t block = 0; block < kQ6KBlocks; ++block, to += kQ6KBlockBytes) {
    for (size_t i = 0; i < 2; ++i) {
      const auto scale = d * static_cast<float>(static_cast<int8_t>(from[192 + 2 * block + i]));
      store(finite_half(scale, "scale"), to + i * sizeof(uint16_t));
    }
    const size_t half = block / 4, quarter = block % 4;
    std::array<uint32_t, 8> four, two;  // bits of numbers 4 i to 4 i + 3, each in a byte
    for (size_t i = 0; i < 8; ++i) {
      four[i] = load<uint32_t>(from + 64 * half + 32 * (quarter % 2) + kWord * i) >> (4 * (quarter / 2)) & 0x0F0F0F0FU;
      two[i] = load<uint32_t>(from + 128 + 32 * half + kWord * i) >> (2 * quarter) & 0x03030303U;
    }
    for (size_t i = 0; i < 2; ++i) {
      const uint32_t* const of = &two[4 * i];
      store(of[0] | of[1] << 2U | of[2] << 4U | of[3] << 6U, to + kHalvesBytes + kWord * i);
    }
    for (size_t i = 0; i < 4; ++i) store(four[i] | four[i + 4] << 4U, to + kHalvesBytes + kWord * (2 + i));
  }
}

void pack_q6_k(const Rows& rows, size_t offset, std::byte* to) {
  std::array<std::array<std::byte, kQ6KBlocks * kQ6KBlockBytes>, kLanes> repacked;
  Rows lanes;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    repack_q6_k(rows[lane] + offset, repacked[lane].data());
    lanes[lane] = repacked[lane].data();
  }
  for (size_t block = 0; block < kQ6KBlocks; ++block, to += kQ6KBlockBytes * kLanes) {
    interleave<uint16_t>(lanes, block * kQ6KBlockBytes, 2, to);
    interleave<uint32_t>(lanes, block * kQ6KBlockBytes + kHalvesBytes, 6, to + kHalvesBytes * kLanes);
  }
}

// One block of MXFP4 (layout: model/block_formats.h) of each row. Its scale is 2^(e - 128) in the file, 2^(e - 127) in
// the panel, where 0 stands for none.
void pack_mxfp4(const Rows& rows, size_t offset, std::byte* to) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const auto exponent = static_cast<uint8_t>(rows[lane][offset]);
    to[lane] = static_cast<std::byte>(std::max(exponent, uint8_t{1}) - 1);
  }
  interleave<uint32_t>(rows, offset + 1, 4, to + kLanes);
}

// `bytes` of each row from `offset` on. Of a block: half scale (Q4_1, Q5_1: and half minimum), then numbers in the
// file; 16 scales (and 16 minima), then pieces of 4 bytes, lane by lane, in the panel. Byte i of 4 bits' nibbles holds
// numbers i (low) and 16 + i (high) in both.
void pack_piece(PanelType type, const Rows& rows, size_t offset, size_t bytes, std::byte* to) {
  switch (type) {
    case PanelType::F32:
      return interleave<uint32_t>(rows, offset, bytes / 4, to);
    case PanelType::F16:
    case PanelType::BF16:
      return interleave<uint16_t>(rows, offset, bytes / 2, to);
    case PanelType::Q8_0:
    case PanelType::Q4_0:
    case PanelType::IQ4_NL:
    case PanelType::Q4_1:
    case PanelType::Q5_1: {
      const size_t halves = type == PanelType::Q4_1 || type == PanelType::Q5_1 ? 2 : 1, before = 2 * halves;
      interleave<uint16_t>(rows, offset, halves, to);
      interleave<uint32_t>(rows, offset + before, (bytes - before) / 4, to + before * kLanes);
      if (type != PanelType::Q5_1) return;
      for (size_t lane = 0; lane < kLanes; ++lane) {  // fifth bits, bit i of number i in the file
        std::byte* const fifth = to + before * kLanes + kWord * lane;
        store(transpose_bits(load<uint32_t>(fifth)), fifth);
      }
      return;
    }
    case PanelType::Q6_K:
      return pack_q6_k(rows, offset, to);
    case PanelType::MXFP4:
      return pack_mxfp4(rows, offset, to);
  }
}

// One panel of a matrix whose rows have `stride` bytes, while the next one's come.
void pack_panel(const MatrixRows& matrix, size_t stride, size_t panel, std::byte* to) {
  const size_t begin = panel * kLanes, end = std::min(begin + kLanes, static_cast<size_t>(matrix.outputs));
  const std::vector<std::byte> absent(end - begin < kLanes ? stride : 0);
  Rows rows;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    rows[lane] = begin + lane < end ? matrix.rows.data() + stride * (begin + lane) : absent.data();
  }
  if (panel == 0) bring_near(rows[0], stride * (end - begin));
  const std::span<const std::byte> next = matrix.rows.subspan(stride * end);
  const auto unit = static_cast<size_t>(panel_unit(matrix.type).bytes);
  const size_t step = takes_bytes(matrix.type) ? unit : kLine;
  const size_t panel_bytes_a_step = panel_bytes(matrix.type, matrix.depth) / (stride / unit) * (step / unit);
  for (size_t offset = 0; offset < stride; offset += step, to += panel_bytes_a_step) {
    const size_t bytes = std::min(step, stride - offset), ahead = std::min(offset * kLanes, next.size());
    ask_for(next.data() + ahead, std::min(bytes * kLanes, next.size() - ahead));
    pack_piece(matrix.type, rows, offset, bytes, to);
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
      return {kBlockDepths, 34};
    case PanelType::Q4_0:
    case PanelType::IQ4_NL:
      return {kBlockDepths, 18};
    case PanelType::Q4_1:
      return {kBlockDepths, 20};
    case PanelType::Q5_1:
      return {kBlockDepths, 24};
    case PanelType::Q6_K:
      return {256, 210};
    case PanelType::MXFP4:
      return {kBlockDepths, 17};
  }
  fail(ErrorCode::Unsupported, "weights of type id {} cannot be computed with", static_cast<int32_t>(type));
}

bool takes_bytes(PanelType type) { return type != PanelType::F32 && type != PanelType::F16 && type != PanelType::BF16; }

size_t panel_bytes(PanelType type, int32_t depth) {
  const auto numbers = static_cast<size_t>(depth), blocks = numbers / kBlockDepths;
  switch (type) {
    case PanelType::F32:
      return numbers * 64;
    case PanelType::F16:
    case PanelType::BF16:
      break;
    case PanelType::Q8_0:
      return blocks * 544;
    case PanelType::Q4_0:
    case PanelType::IQ4_NL:
      return blocks * 288;
    case PanelType::Q4_1:
      return blocks * 320;
    case PanelType::Q5_1:
      return blocks * 384;
    case PanelType::Q6_K:
      return blocks * 448;
    case PanelType::MXFP4:
      return blocks * 272;
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
  for (size_t panel = 0; panel < to.size() / bytes; ++panel) {
    pack_panel(matrix, stride, panel, to.data() + panel * bytes);
  }
}

}  // namespace inflight
