// SPDX-License-Identifier: Apache-2.0
// Goal: a well-formed file is taken apart as written; each way to contradict the format is named.
// Method: files from the tests' own writer, one field wrong at a time. Random damage is in
// gguf_damage_test.cpp.
#include "model/gguf_parser.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "support/expect_error.h"
#include "support/gguf_writer.h"

namespace inflight::test {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8 = 8;

std::vector<std::byte> zeros(size_t count) { return std::vector<std::byte>(count); }

void expect_corrupt(const GgufWriter& writer, const char* text, ErrorCode code = ErrorCode::CorruptFile) {
  const auto bytes = writer.bytes();
  INFLIGHT_EXPECT_ERROR(code, text, [&] { (void)parse_gguf("m.gguf", bytes); });
}

TEST(GgufParser, TakesApartWhatWasWritten) {
  for (const uint32_t version : {2U, 3U}) {
    GgufWriter writer;
    writer.version = version;
    writer.key_u32("a", 7).key_string("b", "text").key_strings("c", {"x", "", "zz"}).key_f32s("d", {1, 2, 3});
    writer.tensor("t", TensorType::F32, {5, 2}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    writer.tensor("u", kQ8, {64, 1, 3}, zeros(3 * 68));
    const auto bytes = writer.bytes();
    const GgufContents contents = parse_gguf("m.gguf", bytes);
    EXPECT_EQ(contents.version, version);
    ASSERT_EQ(contents.metadata.size(), 4U);
    EXPECT_EQ(contents.metadata[0].key, "a");
    EXPECT_EQ(contents.metadata[0].type_name(), "uint32");
    EXPECT_EQ(contents.metadata[1].bytes.size(), 4U);
    EXPECT_EQ(contents.metadata[2].type_name(), "array of string");
    EXPECT_EQ(contents.metadata[2].count, 3U);
    EXPECT_EQ(contents.metadata[2].bytes.size(), 3U * 8 + 3);
    EXPECT_EQ(contents.metadata[3].bytes.size(), 12U);
    ASSERT_EQ(contents.tensors.size(), 2U);
    const GgufTensor& t = contents.tensors[contents.tensors_by_name.at("t")];
    EXPECT_EQ(t.shape(), "[5, 2]");
    EXPECT_EQ(t.rows(), 2);
    float last = 0;
    std::memcpy(&last, t.bytes.data() + 36, sizeof last);
    EXPECT_EQ(last, 9.0F);
    const GgufTensor& u = contents.tensors[1];
    EXPECT_STREQ(u.type->name, "Q8_0");
    EXPECT_EQ(u.numbers(), 192);
    EXPECT_EQ(u.bytes.data() + u.bytes.size(), bytes.data() + bytes.size());
    EXPECT_EQ((u.bytes.data() - bytes.data()) % 32, 0);
  }
}

TEST(GgufParser, ObeysTheAlignmentKey) {
  GgufWriter writer;
  writer.alignment = 256;
  writer.key_u32("general.alignment", 256).tensor("t", kF32, {1}, zeros(4)).tensor("u", kF32, {1}, zeros(4));
  const auto bytes = writer.bytes();
  const GgufContents contents = parse_gguf("m.gguf", bytes);
  EXPECT_EQ(contents.alignment, 256U);
  EXPECT_EQ(contents.tensors[1].bytes.data() - contents.tensors[0].bytes.data(), 256);
  for (const uint32_t bad : {0U, 1U, 4U, 24U, 1U << 17, 1U << 31}) {
    expect_corrupt(GgufWriter().key_u32("general.alignment", bad), "metadata key 'general.alignment': is ");
  }
  expect_corrupt(GgufWriter().key_f32("general.alignment", 32), "is float32, expected uint32");
}

TEST(GgufParser, KnowsTheFileByItsFirstBytes) {
  GgufWriter writer;
  writer.magic = 0x67676A74;  // an older format of the same project
  expect_corrupt(writer, "m.gguf: is no GGUF file");
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "is no GGUF file", [] { (void)parse_gguf("m.gguf", zeros(3)); });
  for (const uint32_t version : {0U, 1U, 4U}) {
    writer = {};
    writer.version = version;
    expect_corrupt(writer, "supported: versions 2 and 3", ErrorCode::Unsupported);
  }
  writer.version = 0x03000000;
  expect_corrupt(writer, "is a big-endian GGUF file", ErrorCode::Unsupported);
}

TEST(GgufParser, RefusesCountsBeyondLimitsAndFile) {
  GgufWriter writer;
  writer.key_count = ~0ULL;
  expect_corrupt(writer, "header: claims 18446744073709551615 metadata entries, allowed: up to 1048576");
  writer.key_count = 1;
  expect_corrupt(writer, "metadata entry 1 of 1: needs 8 bytes at byte 24, but the file ends at byte 24");
  writer = {};
  writer.tensor_count = 1ULL << 40;
  expect_corrupt(writer, "header: claims 1099511627776 tensors, allowed: up to 1048576");
  writer.tensor_count = 1;
  expect_corrupt(writer, "tensor 1 of 1: needs 8 bytes");
}

TEST(GgufParser, RefusesBrokenMetadata) {
  expect_corrupt(GgufWriter().key_u32("", 1), "metadata entry 1 of 1: the key has 0 bytes, allowed: 1 to 65535");
  expect_corrupt(GgufWriter().key_u32(std::string(65536, 'k'), 1), "the key has 65536 bytes");
  expect_corrupt(GgufWriter().key_u32("k", 1).key_bool("k", true), "metadata key 'k': occurs twice");
  expect_corrupt(GgufWriter().key_raw("k", 13, zeros(8)), "metadata key 'k': has value type 13, allowed: 0 to 12");
  expect_corrupt(GgufWriter().key_raw("k", 8, ByteWriter().number(~0ULL).bytes()),
                 "metadata key 'k': the string has 18446744073709551615 bytes, allowed: 0 to 1073741824");
  expect_corrupt(GgufWriter().key_raw("k", 8, ByteWriter().number(uint64_t{5}).bytes()), "needs 5 bytes at byte");
  const auto array = [](uint32_t element_type, uint64_t count) {
    return GgufWriter().key_raw("k", 9, ByteWriter().number(element_type).number(count).bytes());
  };
  expect_corrupt(array(4, ~0ULL), "the array has 18446744073709551615 elements, allowed: up to 268435456");
  expect_corrupt(array(4, 1U << 28), "needs 1073741824 bytes");
  expect_corrupt(array(8, 1U << 28), "needs 8 bytes");
  expect_corrupt(array(9, 1U << 28), "needs 4 bytes");
  expect_corrupt(array(77, 0), "has value type 77");
}

TEST(GgufParser, BoundsTheDepthOfArrays) {
  const auto nested = [](int depth) {
    ByteWriter value;
    for (int i = 1; i < depth; ++i) value.number(9U).number(uint64_t{1});
    value.number(0U).number(uint64_t{0});
    return GgufWriter().key_raw("k", 9, value.bytes());
  };
  const auto allowed = nested(4).bytes();
  EXPECT_EQ(parse_gguf("m.gguf", allowed).metadata[0].type_name(), "array of array");
  expect_corrupt(nested(5), "metadata key 'k': arrays are nested more than 4 deep");
  expect_corrupt(nested(100000), "arrays are nested more than 4 deep");
}

TEST(GgufParser, RefusesBrokenShapes) {
  const auto shaped = [](const std::vector<uint64_t>& dimensions, uint32_t type = kF32) {
    return GgufWriter().tensor("t", type, dimensions, zeros(64));
  };
  expect_corrupt(shaped({}), "tensor 't': has 0 dimensions, allowed: 1 to 4");
  expect_corrupt(shaped({1, 1, 1, 1, 1}), "has 5 dimensions");
  expect_corrupt(shaped({0}), "has shape [0], allowed: each at least 1");
  expect_corrupt(shaped({~0ULL}), "has shape [-1]");
  expect_corrupt(shaped({1ULL << 32, 1ULL << 31}), "has shape [4294967296, 2147483648]");
  expect_corrupt(shaped({1ULL << 32, 1ULL << 32, 1ULL << 32, 1}), "the product below 2^63");
  expect_corrupt(shaped({1ULL << 62}, 28), "more than 2^64 bytes");  // F64: 8 bytes each
  expect_corrupt(shaped({1ULL << 61}), "reach past the file's end");
  expect_corrupt(shaped({33}, kQ8), "has rows of 33 numbers, allowed for Q8_0: multiples of 32");
  expect_corrupt(shaped({4}, 31), "tensor 't': has type 31, which is not known here", ErrorCode::Unsupported);
}

TEST(GgufParser, RefusesTensorsOutsideTheFileOrInEachOther) {
  const auto placed = [](uint64_t offset) {
    return GgufWriter().tensor("t", kF32, {8}, zeros(32)).tensor("u", kF32, {8}, zeros(32), offset);
  };
  EXPECT_NO_THROW((void)parse_gguf("m.gguf", placed(32).bytes()));
  expect_corrupt(placed(0), "overlaps tensor 't'");
  expect_corrupt(placed(16), "tensor 'u': its offset 16 is no multiple of the alignment 32");
  expect_corrupt(placed(64), "tensor 'u': 32 bytes at offset 64");
  expect_corrupt(placed(~0ULL - 31), "reach past the file's end");
  expect_corrupt(GgufWriter().tensor("t", kF32, {8}, zeros(31)), "reach past the file's end");
  expect_corrupt(GgufWriter().tensor("t", kF32, {8}, zeros(32)).tensor("t", kF32, {8}, zeros(32)),
                 "tensor 't': occurs twice");
  expect_corrupt(GgufWriter().tensor("", kF32, {8}, zeros(32)), "tensor 1 of 1: the name has 0 bytes");
  // One inside the other, not next to it in the file's order.
  expect_corrupt(GgufWriter()
                     .tensor("big", kF32, {24}, zeros(96))
                     .tensor("v", kF32, {8}, zeros(32), 96)
                     .tensor("inner", kF32, {8}, zeros(32), 32),
                 "tensor 'inner': overlaps tensor 'big'");
}

TEST(GgufParser, NamesHostileNamesInOneLine) {
  expect_corrupt(GgufWriter().key_raw("a\nb\x1B[2J", 99, zeros(1)), R"(metadata key 'a\nb\x1B[2J')");
}

}  // namespace
}  // namespace inflight::test
