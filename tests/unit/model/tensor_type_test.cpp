// SPDX-License-Identifier: Apache-2.0
// Goal: type names and sizes are those of GGUF's specification.
#include "model/tensor_type.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace inflight {
namespace {

TEST(TensorType, NamesParseInAnyCase) {
  for (const TensorType type :
       {TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0}) {
    EXPECT_EQ(parse_tensor_type(to_string(type)), type);
    EXPECT_EQ(readable_type(static_cast<uint32_t>(type)), type);
  }
  EXPECT_EQ(parse_tensor_type("q8_0"), TensorType::Q8_0);
  EXPECT_EQ(parse_tensor_type("bf16"), TensorType::BF16);
  for (const char* name : {"", "q8", "q8_00", "Q6_K", "f33"}) {
    EXPECT_FALSE(parse_tensor_type(name)) << name;
  }
}

TEST(TensorType, RowsHaveWholeUnits) {
  EXPECT_EQ(row_bytes(TensorType::F32, 7), 28U);
  EXPECT_EQ(row_bytes(TensorType::BF16, 7), 14U);
  EXPECT_EQ(row_bytes(TensorType::Q8_0, 96), 3U * 34);
  EXPECT_EQ(row_bytes(TensorType::Q4_0, 96), 3U * 18);
  EXPECT_EQ(row_bytes(TensorType::Q4_0, 0), 0U);
  EXPECT_THROW((void)row_bytes(TensorType::Q4_0, 33), InternalError);
}

TEST(StoredType, KnowsTypesThatAreReadOnlyOrNotAtAll) {
  const StoredType* const q6 = find_stored_type(14);
  ASSERT_NE(q6, nullptr);
  EXPECT_STREQ(q6->name, "Q6_K");
  EXPECT_EQ(q6->unit.numbers, 256);
  EXPECT_EQ(q6->unit.bytes, 210);  // 128 + 64 bytes of quants, 16 scales, one f16
  EXPECT_EQ(readable_type(14), TensorType::Q6_K);
  EXPECT_EQ(computed_type(TensorType::Q6_K), TensorType::Q6_K);
  EXPECT_EQ(computed_type(TensorType::Q4_0), TensorType::Q4_0);
  EXPECT_EQ(computed_type(TensorType::Q4_1), TensorType::Q4_1);
  EXPECT_EQ(computed_type(TensorType::Q4_K), TensorType::Q4_1);
  EXPECT_EQ(computed_type(TensorType::Q5_K), TensorType::Q5_1);
  EXPECT_EQ(computed_type(TensorType::Q5_0), TensorType::Q5_1);
  EXPECT_EQ(computed_type(TensorType::Q3_K), TensorType::Q6_K);
  EXPECT_EQ(computed_type(TensorType::Q2_K), TensorType::Q8_0);
  EXPECT_EQ(computed_type(TensorType::IQ4_NL), TensorType::IQ4_NL);
  EXPECT_EQ(computed_type(TensorType::IQ4_XS), TensorType::IQ4_NL);
  EXPECT_EQ(computed_type(TensorType::MXFP4), TensorType::MXFP4);
  EXPECT_EQ(parse_computed_type("q6_k"), TensorType::Q6_K);
  EXPECT_FALSE(parse_computed_type("Q4_K"));
  EXPECT_STREQ(find_stored_type(16)->name, "IQ2_XXS");
  EXPECT_FALSE(readable_type(16));
  for (const uint32_t withdrawn : {4U, 5U, 31U, 32U, 33U, 36U, 1000U, ~0U}) {
    EXPECT_EQ(find_stored_type(withdrawn), nullptr) << withdrawn;
    EXPECT_FALSE(readable_type(withdrawn)) << withdrawn;
  }
}

}  // namespace
}  // namespace inflight
