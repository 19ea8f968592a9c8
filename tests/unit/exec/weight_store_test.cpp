// SPDX-License-Identifier: Apache-2.0
// Goal: matrices of many pieces arrive whole, whoever packed which piece, also from the file of an earlier start, which
// is
//       used as long as it is whole and the model's.
// Method: the whole matrix transposed by hand, number by number, beside what the device holds; a kept file with one
// number
//         changed, which only who computes from that file sees.
// Covers: exec/weight_store.cpp, exec/packed_file.cpp, exec/pack_rows.cpp
#include "exec/weight_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "device/device.h"
#include "support/temp_folder.h"

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
  WeightStore store(device, weights, "", [&](double fraction, const char*) {
    EXPECT_GT(fraction, last);
    last = fraction;
    return false;
  });
  EXPECT_EQ(last, 1.0);
  expect_panels(store, embedding);
  expect_panels(store, output);
}

class KeptWeights : public ::testing::Test {
 protected:
  KeptWeights() {
    write(matrix_);
    std::filesystem::permissions(folder_.file("some.gguf"), std::filesystem::perms{0750});
  }
  void write(const Floats& matrix) const { folder_.write("some.gguf", matrix.view.bytes); }

  // As a start of the engine with the file as it is; what the device then holds.
  float first_number(Floats matrix) {
    const MappedFile file(folder_.file("some.gguf"));
    matrix.view.bytes = file.bytes();
    const ModelWeights weights{.files = {file.identity()},
                               .token_embedding = matrix.view,
                               .layers = {},
                               .output_norm = norm_.view,
                               .output = matrix.view,
                               .tied_output = true,
                               .rope_factors = {}};
    WeightStore store(device_, weights, folder_.file("cache"), nullptr);
    std::vector<float> first(1);
    store.chunks()[0].memory().read(0, std::as_writable_bytes(std::span(first)));
    if (first[0] == matrix.numbers[0]) expect_panels(store, matrix);
    return first[0];
  }

  std::string kept_file() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file("cache"))) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1U);
    return files.empty() ? "" : files[0];
  }

  static void put(const std::string& path, std::streamoff at, std::span<const std::byte> bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  // So that whoever reads the file is seen.
  void mark() const { put(kept_file(), 0, std::as_bytes(std::span(&kMark, 1))); }

  static constexpr float kMark = -7.0F;
  const test::TempFolder folder_;
  Device device_ = Device::open({});
  const Floats matrix_{5'000, 1}, norm_{1, 2};
};

TEST_F(KeptWeights, AreFoundByTheNextStart) {
  EXPECT_EQ(first_number(matrix_), matrix_.numbers[0]);
  EXPECT_EQ(first_number(matrix_), matrix_.numbers[0]);
  EXPECT_NE(kept_file().find("/some.gguf."), std::string::npos) << kept_file();
  // Who may not read the model may not read them.
  EXPECT_EQ(std::filesystem::status(kept_file()).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
  mark();
  EXPECT_EQ(first_number(matrix_), kMark);
}

TEST_F(KeptWeights, OfAChangedModelAreReplaced) {
  (void)first_number(matrix_);
  mark();
  Floats changed(5'000, 3);
  write(changed);
  EXPECT_EQ(first_number(changed), changed.numbers[0]);
  EXPECT_EQ(first_number(changed), changed.numbers[0]);
  mark();
  EXPECT_EQ(first_number(changed), kMark);
  changed.view.name = "another matrix";
  EXPECT_EQ(first_number(changed), changed.numbers[0]);
}

TEST_F(KeptWeights, ThatAreDamagedArePackedAgain) {
  const auto damage = [&](const std::function<void(const std::string& path)>& how) {
    (void)first_number(matrix_);
    mark();
    how(kept_file());
    EXPECT_EQ(first_number(matrix_), matrix_.numbers[0]);
    mark();
    EXPECT_EQ(first_number(matrix_), kMark) << "was not kept again";
  };
  damage([](const std::string& path) { std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1); });
  damage([](const std::string& path) { std::filesystem::resize_file(path, 0); });
  const std::byte zero{0};
  damage([&](const std::string& path) { put(path, -1, {&zero, 1}); });   // the hash
  damage([&](const std::string& path) { put(path, -16, {&zero, 1}); });  // the mark of such files
}

TEST_F(KeptWeights, OfAFolderThatCannotBeWrittenAreNone) {
  folder_.write("cache", std::string("a file"));
  EXPECT_EQ(first_number(matrix_), matrix_.numbers[0]);
  std::filesystem::remove(folder_.file("cache"));
  (void)first_number(matrix_);
  const std::string path = kept_file();
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(first_number(matrix_), matrix_.numbers[0]);
}

}  // namespace
}  // namespace inflight
