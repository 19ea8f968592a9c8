// SPDX-License-Identifier: Apache-2.0
// The stages of wide_heads.cl, each by itself, against plain loops over doubles. What must not be written is poisoned.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

constexpr int32_t kQueryHeads = 3, kWide = 96;

class WideHeads : public testing::TestWithParam<int32_t> {  // numbers of a head
 protected:
  int32_t add_aligned(size_t count, bool poison) {
    bench_.add_poison((16 - bench_.activations.size() % 16) % 16);  // rows begin at whole vectors
    if (poison) return bench_.add_poison(count);
    std::vector<float> numbers(count);
    for (float& number : numbers) number = static_cast<float>(4.0 * rng_.uniform() - 2.0);
    return bench_.add_floats(numbers);
  }
  [[nodiscard]] float at(int32_t offset, size_t i) const { return bench_.activations[static_cast<size_t>(offset) + i]; }
  // Where number j of a narrow head lies in a wide one, `before` others coming before it: its halves lie in those of
  // the wide head.
  [[nodiscard]] size_t place(size_t j, size_t before) const {
    const size_t half = size_ / 2;
    return before * half + (j < half ? j : kWide / 2 + j - half);
  }
  [[nodiscard]] std::vector<double> normed(int32_t in, size_t item, double epsilon) const {
    double squares = 0.0;
    for (size_t j = 0; j < size_; ++j) squares += std::pow(double{at(in, item * size_ + j)}, 2);
    std::vector<double> numbers;
    for (size_t j = 0; j < size_; ++j) {
      numbers.push_back(double{at(in, item * size_ + j)} / std::sqrt(squares / static_cast<double>(size_) + epsilon));
    }
    return numbers;
  }

  size_t size_ = static_cast<size_t>(GetParam());
  size_t fitting_ = kWide % size_ == 0 ? kWide / size_ : 1;  // in a wide one
  Device device_ = Device::open({});
  test::StageBench bench_{
      device_,
      {.head_count = kQueryHeads, .kv_head_count = 1, .head_size = kWide, .rope_pair_count = 48, .wide_heads = true},
      size_t{1} << 16,
      64};
  Rng rng_{7};
};

TEST_P(WideHeads, AreNormedAndWidened) {
  constexpr size_t kRows = 4;
  constexpr double kEpsilon = 0.25;  // shows where it is added
  for (const auto& [heads, shared] : {std::pair(kQueryHeads, 1), {2, 1}, {6, 2}, {6, 3}}) {
    for (const bool weighted : {true, false}) {
      bench_.activations.clear();
      bench_.vectors.resize(16 + size_);
      for (size_t j = 0; j < size_; ++j) bench_.vectors[16 + j] = 1.0F + 0.01F * static_cast<float>(j);
      const size_t all = kRows * static_cast<size_t>(heads);
      Stage stage{.operation = Operation::Widen, .items = static_cast<int32_t>(all)};
      stage.widen = {.in = add_aligned(all * size_, false),
                     .heads = heads,
                     .size = GetParam(),
                     .weight = weighted ? 16 : kNone,
                     .epsilon = static_cast<float>(kEpsilon),
                     .out = add_aligned(all * kWide, true),
                     .together = 1,
                     .shared = shared,
                     .places = static_cast<int32_t>(fitting_)};
      const int32_t behind = bench_.add_poison(16);
      const WidenArgs args = stage.widen;
      bench_.run({stage});
      for (size_t item = 0; item < all; ++item) {
        const std::vector<double> head = normed(args.in, item, kEpsilon);
        std::vector<double> expected(kWide, 0.0);
        for (size_t j = 0; j < size_; ++j) {
          const double weight = weighted ? double{bench_.vectors[16 + j]} : 1.0;
          const size_t before = item % static_cast<size_t>(heads) / static_cast<size_t>(shared) % fitting_;
          expected[place(j, before)] = head[j] * weight;
        }
        for (size_t i = 0; i < kWide; ++i) {
          ASSERT_NEAR(at(args.out, item * kWide + i), expected[i], 2e-6) << "head " << item << " number " << i;
        }
      }
      EXPECT_TRUE(test::StageBench::poisoned(at(behind, 0)));
    }
  }
}

// As many of K, or V, as fill a wide one.
TEST_P(WideHeads, LieSideBySide) {
  constexpr size_t kRows = 3;
  const size_t heads = 2 * fitting_, all = kRows * heads;
  Stage stage{.operation = Operation::Widen, .items = static_cast<int32_t>(all)};
  stage.widen = {.in = add_aligned(all * size_, false),
                 .heads = static_cast<int32_t>(heads),
                 .size = GetParam(),
                 .weight = kNone,
                 .epsilon = 0.0F,
                 .out = add_aligned(kRows * 2 * kWide, true),
                 .together = static_cast<int32_t>(fitting_),
                 .shared = 1,
                 .places = static_cast<int32_t>(fitting_)};
  const int32_t behind = bench_.add_poison(16);
  const WidenArgs args = stage.widen;
  bench_.run({stage});
  for (size_t item = 0; item < all; ++item) {
    const std::vector<double> head = normed(args.in, item, 0.0);
    for (size_t j = 0; j < size_; ++j) {
      const size_t to = item / fitting_ * kWide + place(j, item % fitting_);
      ASSERT_NEAR(at(args.out, to), head[j], 2e-6) << "head " << item << " number " << j;
    }
  }
  EXPECT_TRUE(test::StageBench::poisoned(at(behind, 0)));
}

TEST_P(WideHeads, BecomeTheRowsOfTheNextLayer) {
  constexpr size_t kRows = 5;
  const size_t depth = kQueryHeads * size_, blocks = depth / 32;
  Stage stage{.operation = Operation::Narrow, .items = kRows};
  stage.narrow = {.in = add_aligned(kRows * kQueryHeads * kWide, false),
                  .size = GetParam(),
                  .shared = 2,
                  .places = static_cast<int32_t>(fitting_),
                  .rows = kRows,
                  .out = {.floats = add_aligned(kRows * depth, true),
                          .bytes = add_aligned(kRows * depth / 4, true),
                          .scales = add_aligned(kRows * blocks, true),
                          .sums = add_aligned(2 * kRows * blocks, true)}};
  const NarrowArgs args = stage.narrow;
  bench_.run({stage});
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t block = 0; block < blocks; ++block) {
      float largest = 0.0F;
      for (size_t column = block * 32; column < block * 32 + 32; ++column) {
        const size_t head = column / size_, before = head / 2 % fitting_;
        const float x = at(args.in, (row * kQueryHeads + head) * kWide + place(column % size_, before));
        ASSERT_EQ(at(args.out.floats, row * depth + column), x) << "row " << row << " column " << column;
        largest = std::max(largest, std::fabs(x));
      }
      ASSERT_EQ(at(args.out.scales, block * kRows + row), largest * (1.0F / 127.0F));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WideHeads, testing::Values(32, 64, kWide),
                         [](const auto& test) { return "Of" + std::to_string(test.param); });

}  // namespace
}  // namespace inflight
