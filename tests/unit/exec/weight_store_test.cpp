// SPDX-License-Identifier: Apache-2.0
// Goal: matrices of many pieces arrive whole, whoever packed which piece.
// Method: the whole matrix transposed by hand, number by number, beside what the device holds.
#include "exec/weight_store.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "device/device.h"

namespace inflight {
namespace {

constexpr int32_t kColumns = 96, kPanel = 16;

struct Floats {
  explicit Floats(int32_t rows, uint64_t seed) : numbers(static_cast<size_t>(rows) * kColumns) {
    Rng rng(seed);
    for (float& number : numbers) number = static_cast<float>(rng.below(1'000'000));
    view = {.name = "matrix of " + std::to_string(rows),
            .type = TensorType::F32,
            .rows = rows,
            .columns = kColumns,
            .bytes = std::as_bytes(std::span(numbers))};
  }
  std::vector<float> numbers;
  WeightView view;
};

void expect_panels(WeightStore& store, const Floats& matrix) {
  const StageWeight place = store.matrix(matrix.view);
  const auto panels = static_cast<size_t>((matrix.view.rows + kPanel - 1) / kPanel);
  std::vector<float> found(panels * kPanel * kColumns, -1.0F);
  const DeviceMemory& chunk = store.chunks()[static_cast<size_t>(place.chunk)].memory();
  chunk.read(static_cast<size_t>(place.offset) * kWeightAlignment, std::as_writable_bytes(std::span(found)));
  std::vector<float> wanted(found.size(), 0.0F);  // lanes without a row are zero
  for (size_t row = 0; row < static_cast<size_t>(matrix.view.rows); ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      wanted[(row / kPanel * kColumns + column) * kPanel + row % kPanel] = matrix.numbers[row * kColumns + column];
    }
  }
  EXPECT_EQ(found, wanted) << matrix.view.name;
}

TEST(WeightStore, PacksMatricesOfManyPieces) {
  Device device = Device::open({});
  const Floats embedding(30'001, 1), output(17, 2), norm(1, 3);  // 11 MiB: six pieces and the last one's odd row
  ModelWeights weights;
  weights.token_embedding = embedding.view;
  weights.output = output.view;
  weights.output_norm = norm.view;
  double last = 0.0;
  WeightStore store(device, weights, [&](double fraction, const char*) {
    EXPECT_GT(fraction, last);
    last = fraction;
    return false;
  });
  EXPECT_EQ(last, 1.0);
  expect_panels(store, embedding);
  expect_panels(store, output);
}

}  // namespace
}  // namespace inflight
