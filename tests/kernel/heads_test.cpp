// SPDX-License-Identifier: Apache-2.0
// The stages of heads.cl, each by itself: numbers of heads against plain loops, the heads' products against the bits of
// linear.cl's contract. What must not be written is poisoned.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "ops/linear_case.h"
#include "support/pretended_device.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

constexpr int32_t kHeads = 3;

// GetParam(): as a GPU, whose items have a part of the rows each.
class HeadStages : public testing::TestWithParam<bool> {
 protected:
  int32_t add_aligned(std::span<const float> values) {
    bench_.add_poison((16 - bench_.activations.size() % 16) % 16);  // rows begin at whole vectors
    return bench_.add_floats(values);
  }
  int32_t add_poisoned(size_t count) {
    bench_.add_poison((16 - bench_.activations.size() % 16) % 16);
    return bench_.add_poison(count);
  }
  [[nodiscard]] float at(int32_t offset, size_t i) const { return bench_.activations[static_cast<size_t>(offset) + i]; }

  Device device_ = GetParam() ? test::open_as_gpu() : Device::open({});
  test::StageBench bench_{
      device_,
      {.head_count = kHeads, .kv_head_count = 1, .head_size = 16, .rope_pair_count = 4, .latent = true},
      size_t{1} << 18,
      64};
  Rng rng_{5};
};

// Of heads of `size` numbers those from `first` on become rows of their own, floats and int8; those behind go
// elsewhere.
TEST_P(HeadStages, DivideRowsIntoThoseOfHeads) {
  struct Parts {
    int32_t size, first, depth;
    bool bytes;
  };
  constexpr int32_t kRows = 5, kRestStride = 11, kAll = kRows * kHeads;
  for (const auto& [size, first, depth, bytes] :
       {Parts{72, 0, 64, true}, Parts{48, 16, 32, true}, Parts{31, 5, 20, false}, Parts{51, 0, 40, false}}) {
    SCOPED_TRACE(size);
    bench_.activations.clear();
    std::vector<float> numbers(static_cast<size_t>(kAll) * static_cast<size_t>(size));
    for (float& number : numbers) number = static_cast<float>(4.0 * rng_.uniform() - 2.0);
    const size_t width = static_cast<size_t>(depth), blocks = width / 32;
    Stage stage{.operation = Operation::Divide, .items = kAll};
    stage.divide = {.in = add_aligned(numbers),
                    .size = size,
                    .first = first,
                    .depth = depth,
                    .rows = kRows,
                    .out = {.floats = add_poisoned(kAll * width)},
                    .rest = add_poisoned(kAll * kRestStride),
                    .rest_stride = kRestStride};
    if (bytes) {
      stage.divide.out.bytes = add_poisoned(kAll * width / 4);
      stage.divide.out.scales = add_poisoned(kAll * blocks);
      stage.divide.out.sums = add_poisoned(2 * kAll * blocks);
    }
    const DivideArgs args = stage.divide;
    bench_.run({stage});
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t head = 0; head < kHeads; ++head) {
        const size_t item = row * kHeads + head, place = head * kRows + row;
        const float* const x = numbers.data() + item * static_cast<size_t>(size) + first;
        for (size_t k = 0; k < width; ++k) {
          ASSERT_EQ(at(args.out.floats, place * width + k), x[k]) << "row " << row << " head " << head;
        }
        const auto behind = static_cast<size_t>(size - first - depth);
        for (size_t i = 0; i < kRestStride; ++i) {
          const float rest = at(args.rest, item * kRestStride + i);
          ASSERT_TRUE(i < behind ? rest == x[width + i] : test::StageBench::poisoned(rest)) << i << " of " << behind;
        }
        for (size_t block = 0; bytes && block < blocks; ++block) {
          float largest = 0.0F;
          for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[block * 32 + i]));
          const float scale = at(args.out.scales, block * kAll + place);
          ASSERT_EQ(scale, largest * (1.0F / 127.0F));
          for (size_t i = 0; i < 32; ++i) {
            const auto word = std::bit_cast<uint32_t>(at(args.out.bytes, (block * kAll + place) * 8 + i / 4));
            const auto byte = static_cast<int8_t>(word >> (8 * (i % 4)));
            ASSERT_NEAR(x[block * 32 + i], static_cast<float>(byte) * scale, 0.501F * scale);
          }
        }
      }
    }
  }
}

// A head's products have the bits of a linear layer of its own, wherever its rows and panels begin and end up.
TEST_P(HeadStages, MultiplyByTheirOwnMatrices) {
  constexpr int32_t kOutputs = 48, kRows = 7, kOffset = 5, kHeadStride = kOffset + kOutputs + 3;
  constexpr int32_t kRowStride = kHeads * kHeadStride;
  for (const PanelType type : {PanelType::F32, PanelType::F16, PanelType::Q8_0, PanelType::Q4_0, PanelType::Q6_K}) {
    SCOPED_TRACE(static_cast<int>(type));
    const LinearCase c = make_linear_case({type, kHeads * kOutputs, 256, kHeads * kRows}, 11);
    for (const int32_t panels : {1, 2, 3}) {
      bench_.activations.clear();
      bench_.weights = c.panels;
      std::vector<float> bytes((c.bytes.size() + 3) / 4), sums(c.sums.size());
      if (!bytes.empty()) std::memcpy(bytes.data(), c.bytes.data(), c.bytes.size());
      if (!sums.empty()) std::memcpy(sums.data(), c.sums.data(), c.sums.size() * sizeof(int32_t));
      const int32_t out = add_poisoned(static_cast<size_t>(kRows) * kRowStride);
      Stage stage{.operation = Operation::Heads, .items = kHeads * ((kOutputs / 16 + panels - 1) / panels)};
      stage.heads = {.weight = {.type = type, .depth = 256, .outputs = kHeads * kOutputs},
                     .in = {add_aligned(c.x), add_aligned(bytes), add_aligned(c.scales), add_aligned(sums)},
                     .out = {.floats = out + kOffset},
                     .row_stride = kRowStride,
                     .head_stride = kHeadStride,
                     .rows = kRows,
                     .panels = panels};
      bench_.run({stage});
      for (int32_t i = 0; i < kRows * kRowStride; ++i) {
        const int32_t row = i / kRowStride, head = i % kRowStride / kHeadStride, output = i % kHeadStride - kOffset;
        const float found = at(out, static_cast<size_t>(i));
        if (output < 0 || output >= kOutputs) {
          ASSERT_TRUE(test::StageBench::poisoned(found)) << i;
        } else {
          ASSERT_EQ(found, expected_output(c, head * kRows + row, head * kOutputs + output))
              << "row " << row << " head " << head << " output " << output << " panels " << panels;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadStages, testing::Bool(),
                         [](const auto& test) { return test.param ? "AsGpu" : "AsItIs"; });

}  // namespace
}  // namespace inflight
