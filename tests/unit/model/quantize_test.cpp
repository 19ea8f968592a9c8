// SPDX-License-Identifier: Apache-2.0
// Goal: rows are stored and read back bit for bit as GGUF's reference does it.
// Covers: model/block_formats.cpp, model/convert_rows.cpp
// Method: tests/golden/quants.gguf, written by PyPI's gguf package (make_quants.py): ties, signs,
// scales that are subnormal or 0 in F16, random rows; random blocks of the formats that are only read.
#include "model/quantize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/block_formats.h"
#include "model/convert_rows.h"
#include "model/gguf_file.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> numbers(static_cast<size_t>(tensor.numbers()));
  std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  return numbers;
}

class Rows : public testing::TestWithParam<TensorType> {};

TEST_P(Rows, AreStoredAndReadAsByTheReference) {
  const GgufFile golden(source_path("tests/golden/quants.gguf"));
  const std::string name = to_string(GetParam());
  const GgufTensor* const input = golden.find_tensor("input");
  const GgufTensor* const stored = golden.find_tensor(name);
  const GgufTensor* const back = golden.find_tensor(name + "_back");
  ASSERT_TRUE(input != nullptr && stored != nullptr && back != nullptr);
  ASSERT_EQ(stored->rows(), input->rows());
  const auto columns = static_cast<size_t>(input->columns());
  const size_t stride = row_bytes(GetParam(), input->columns());
  const std::vector<float> numbers = floats_of(*input);
  const std::vector<float> expected = floats_of(*back);
  std::vector<std::byte> row(stride);
  std::vector<float> read(columns);
  for (size_t r = 0; r < static_cast<size_t>(input->rows()); ++r) {
    quantize_row(GetParam(), std::span(numbers).subspan(r * columns, columns), row);
    ASSERT_EQ(std::memcmp(row.data(), stored->bytes.data() + r * stride, stride), 0) << "row " << r;
    dequantize_row(GetParam(), row, read);
    ASSERT_EQ(std::memcmp(read.data(), expected.data() + r * columns, columns * sizeof(float)), 0) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Rows,
                         testing::Values(TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0),
                         [](const auto& type) { return to_string(type.param); });

class ReadOnlyRows : public testing::TestWithParam<TensorType> {};

TEST_P(ReadOnlyRows, AreReadAsByTheReference) {
  const GgufFile golden(source_path("tests/golden/quants.gguf"));
  const std::string name = to_string(GetParam());
  const GgufTensor* const stored = golden.find_tensor(name);
  const GgufTensor* const back = golden.find_tensor(name + "_back");
  ASSERT_TRUE(stored != nullptr && back != nullptr);
  const std::vector<float> expected = floats_of(*back);
  const size_t stride = row_bytes(GetParam(), stored->columns());
  std::vector<float> read(static_cast<size_t>(stored->columns()));
  for (size_t row = 0; row < static_cast<size_t>(stored->rows()); ++row) {
    dequantize_row(GetParam(), stored->bytes.subspan(row * stride, stride), read);
    for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], expected[row * read.size() + i]) << row << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReadOnlyRows,
                         testing::Values(TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1, TensorType::Q2_K,
                                         TensorType::Q3_K, TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K,
                                         TensorType::IQ4_NL, TensorType::IQ4_XS, TensorType::MXFP4),
                         [](const auto& type) { return to_string(type.param); });

// What formats become that keep their numbers, and whether their scales and minima are rounded to half precision.
struct Kept {
  TensorType from, to;
  bool exact;
};
class KeepsNumbers : public testing::TestWithParam<Kept> {};

TEST_P(KeepsNumbers, AndRoundsScalesAtMost) {
  const auto [from, to, exact] = GetParam();
  ASSERT_TRUE(keeps_numbers(from));
  ASSERT_EQ(computed_type(from), to);
  const GgufFile golden(source_path("tests/golden/quants.gguf"));
  const GgufTensor* const stored = golden.find_tensor(to_string(from));
  ASSERT_NE(stored, nullptr);
  const auto rows = static_cast<size_t>(stored->rows()), columns = static_cast<size_t>(stored->columns());
  const size_t from_bytes = row_bytes(from, stored->columns()), to_bytes = row_bytes(to, stored->columns());
  std::vector<std::byte> converted(rows * to_bytes);
  convert_rows(from, to, stored->columns(), stored->bytes, 0, converted);
  std::vector<float> expected(columns), found(columns);
  for (size_t row = 0; row < rows; ++row) {
    dequantize_row(from, stored->bytes.subspan(row * from_bytes, from_bytes), expected);
    dequantize_row(to, std::span(converted).subspan(row * to_bytes, to_bytes), found);
    for (size_t block = 0; block < columns; block += 32) {
      float largest = 0.0F;  // of d s q and e m each: at most three times the largest number or the range
      for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::fabs(expected[i]));
      const float tolerance = exact ? 0.0F : 3 * largest * 0x1p-11F + 32 * 0x1p-25F;
      for (size_t i = block; i < block + 32; ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << row << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KeepsNumbers,
                         testing::Values(Kept{TensorType::Q4_K, TensorType::Q4_1, false},
                                         Kept{TensorType::Q5_K, TensorType::Q5_1, false},
                                         Kept{TensorType::Q5_0, TensorType::Q5_1, true},
                                         Kept{TensorType::Q3_K, TensorType::Q6_K, true},
                                         Kept{TensorType::IQ4_XS, TensorType::IQ4_NL, false}),
                         [](const auto& kept) { return to_string(kept.param.from); });

TEST(QuantizeRow, StoresZerosWhereTheScaleVanishes) {
  const std::vector<float> tiny(kQuantBlock, 1e-42F);
  for (const TensorType type : {TensorType::Q8_0, TensorType::Q4_0}) {
    std::vector<std::byte> row(row_bytes(type, kQuantBlock));
    std::vector<float> read(kQuantBlock, 1.0F);
    quantize_row(type, tiny, row);
    dequantize_row(type, row, read);
    for (const float number : read) EXPECT_EQ(number, 0.0F);
  }
}

TEST(QuantizeRow, RefusesWhatTheTypeCannotHold) {
  const auto refusal = [](TensorType type, float number) -> std::string {
    std::vector<float> numbers(kQuantBlock, 1.0F);
    numbers[7] = number;
    std::vector<std::byte> row(row_bytes(type, kQuantBlock));
    try {
      quantize_row(type, numbers, row);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    return "";
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const TensorType type :
       {TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0}) {
    EXPECT_EQ(refusal(type, kNan), "number 7 is nan");
    EXPECT_EQ(refusal(type, -kInfinity), "number 7 is -inf");
  }
  EXPECT_EQ(refusal(TensorType::F16, 65519.0F), "");
  EXPECT_EQ(refusal(TensorType::F16, 65520.0F), "65520 is too large for F16");
  EXPECT_EQ(refusal(TensorType::Q8_0, 65519.0F * 127.0F), "");
  EXPECT_EQ(refusal(TensorType::Q8_0, -1e7F), "10000000 is too large for Q8_0");
  EXPECT_EQ(refusal(TensorType::Q4_0, 1e6F), "1000000 is too large for Q4_0");
  EXPECT_EQ(refusal(TensorType::BF16, 3.4e38F), "3.4e+38 is too large for BF16");
  EXPECT_EQ(refusal(TensorType::F32, 3.4e38F), "");
}

}  // namespace
}  // namespace inflight::test
