// SPDX-License-Identifier: Apache-2.0
// Goal: values come back as the file holds them, or the error says what was there instead.
// Covers: model/gguf_file.cpp, model/mapped_file.cpp
// Method: files from the tests' own writer and one from PyPI's gguf package
// (tests/golden/quants.gguf).
#include "model/gguf_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "support/expect_error.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  return ByteWriter().number(value).bytes();
}

GgufFile open_bytes(const GgufWriter& writer) {
  const TempFolder folder;
  return GgufFile(folder.write("m.gguf", writer.bytes()));  // the mapping outlives the file's name
}

TEST(GgufFile, ReadsEveryScalarType) {
  GgufWriter writer;
  writer.key_raw("u8", 0, bytes_of(uint8_t{200})).key_raw("i8", 1, bytes_of(int8_t{-100}));
  writer.key_raw("u16", 2, bytes_of(uint16_t{60000})).key_raw("i16", 3, bytes_of(int16_t{-30000}));
  writer.key_raw("u32", 4, bytes_of(4000000000U)).key_raw("i32", 5, bytes_of(-2000000000));
  writer.key_raw("u64", 10, bytes_of(uint64_t{1} << 62)).key_raw("i64", 11, bytes_of(int64_t{-1} << 62));
  writer.key_raw("f32", 6, bytes_of(1.5F)).key_raw("f64", 12, bytes_of(-2.25)).key_bool("bool", true);
  writer.key_raw("large", 10, bytes_of(~0ULL)).key_string("text", "héllo");
  const GgufFile file = open_bytes(writer);
  EXPECT_EQ(file.find_integer("u8"), 200);
  EXPECT_EQ(file.find_integer("i8"), -100);
  EXPECT_EQ(file.find_integer("u16"), 60000);
  EXPECT_EQ(file.find_integer("i16"), -30000);
  EXPECT_EQ(file.find_integer("u32"), 4000000000);
  EXPECT_EQ(file.find_integer("i32"), -2000000000);
  EXPECT_EQ(file.find_integer("u64"), int64_t{1} << 62);
  EXPECT_EQ(file.find_integer("i64"), -(int64_t{1} << 62));
  EXPECT_EQ(file.find_number("f32"), 1.5);
  EXPECT_EQ(file.find_number("f64"), -2.25);
  EXPECT_EQ(file.find_number("i8"), -100.0);
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.find_string("text"), "héllo");
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "metadata key 'large' is 18446744073709551615, allowed: below 2^63",
                        [&] { (void)file.find_integer("large"); });
}

TEST(GgufFile, ReadsArrays) {
  GgufWriter writer;
  writer.key_strings("strings", {"a", "", "日本"})
      .key_i32s("ints", {-1, 2})
      .key_f32s("floats", {0.5F})
      .key_f32s("none", {});
  const GgufFile file = open_bytes(writer);
  EXPECT_EQ(file.find_strings("strings"), (std::vector<std::string_view>{"a", "", "日本"}));
  EXPECT_EQ(file.find_integers("ints"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file.find_numbers("ints"), (std::vector<double>{-1, 2}));
  EXPECT_EQ(file.find_numbers("floats"), (std::vector<double>{0.5}));
  EXPECT_EQ(file.find_numbers("none"), std::vector<double>{});
}

TEST(GgufFile, TellsAbsentFromWrong) {
  GgufWriter writer;
  writer.key_u32("number", 1)
      .key_string("text", "x")
      .key_strings("texts", {"x"})
      .key_f32("float", 1)
      .key_bool("bool", true);
  writer.key_f32s("floats", {1});
  const GgufFile file = open_bytes(writer);
  EXPECT_FALSE(file.find_integer("absent") || file.find_number("absent") || file.find_bool("absent") ||
               file.find_string("absent") || file.find_integers("absent") || file.find_numbers("absent") ||
               file.find_strings("absent"));
  EXPECT_EQ(file.find_value("absent"), nullptr);
  EXPECT_EQ(file.find_tensor("absent"), nullptr);
  const auto expect = [](const char* text, auto&& function) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, text, function);
  };
  expect("metadata key 'text' has type string, expected an integer", [&] { (void)file.find_integer("text"); });
  expect("'texts' has type array of string, expected an integer", [&] { (void)file.find_integer("texts"); });
  expect("'float' has type float32, expected an integer", [&] { (void)file.find_integer("float"); });
  expect("'bool' has type bool, expected an integer", [&] { (void)file.find_integer("bool"); });
  expect("'text' has type string, expected a number", [&] { (void)file.find_number("text"); });
  expect("'bool' has type bool, expected a number", [&] { (void)file.find_number("bool"); });
  expect("'number' has type uint32, expected a bool", [&] { (void)file.find_bool("number"); });
  expect("'number' has type uint32, expected a string", [&] { (void)file.find_string("number"); });
  expect("'text' has type string, expected an array of strings", [&] { (void)file.find_strings("text"); });
  expect("'floats' has type array of float32, expected an array of strings",
         [&] { (void)file.find_strings("floats"); });
  expect("'floats' has type array of float32, expected an integer", [&] { (void)file.find_integers("floats"); });
  expect("'number' has type uint32, expected an array of integers", [&] { (void)file.find_integers("number"); });
  expect("'texts' has type array of string, expected an array of numbers", [&] { (void)file.find_numbers("texts"); });
}

TEST(GgufFile, ReadsFilesOfTheReferenceImplementation) {
  const GgufFile file(source_path("tests/golden/quants.gguf"));
  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.find_string("general.architecture"), "llama");
  EXPECT_EQ(file.tensors().size(), 31U);
  EXPECT_EQ(file.find_tensor("input")->columns(), 64);
  EXPECT_EQ(file.find_tensor("Q4_0")->rows(), file.find_tensor("input")->rows());
}

TEST(GgufFile, SurvivesAMove) {
  GgufFile from =
      open_bytes(GgufWriter().key_string("k", "value").tensor("t", TensorType::F32, {1}, std::vector{3.0F}));
  const std::string_view text = *from.find_string("k");
  const GgufFile to = std::move(from);
  EXPECT_EQ(to.find_string("k")->data(), text.data());
  EXPECT_EQ(text, "value");
}

TEST(GgufFile, JoinsFilesOfTheReferenceImplementation) {
  const GgufFile joined(source_path("tests/golden/parts-00001-of-00003.gguf"));
  const GgufFile whole(source_path("tests/golden/reference_gqa_linear.gguf"));
  EXPECT_EQ(joined.parts().size(), 3U);
  EXPECT_EQ(whole.parts().size(), 1U);
  EXPECT_GT(joined.file_bytes(), whole.file_bytes());
  ASSERT_EQ(joined.tensors().size(), whole.tensors().size());
  for (const GgufTensor& expected : whole.tensors()) {
    const GgufTensor* const tensor = joined.find_tensor(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->type, expected.type);
    EXPECT_EQ(tensor->dimensions, expected.dimensions);
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, expected.bytes)) << expected.name;
  }
  ASSERT_EQ(joined.metadata().size(), whole.metadata().size());
  for (const GgufValue& expected : whole.metadata()) {
    const GgufValue* const value = joined.find_value(expected.key);
    ASSERT_NE(value, nullptr) << expected.key;
    EXPECT_TRUE(std::ranges::equal(value->bytes, expected.bytes)) << expected.key;
  }
}

TEST(GgufFile, SaysWhatIsWrongWithOneOfSeveral) {
  const TempFolder folder;
  const auto part = [](uint16_t number, uint16_t count, std::optional<int32_t> tensors, const char* tensor) {
    GgufWriter writer;
    writer.key_raw("split.no", 2, bytes_of(number)).key_raw("split.count", 2, bytes_of(count)).key_string("k", "v");
    if (tensors) writer.key_raw("split.tensors.count", 5, bytes_of(*tensors));
    return writer.tensor(tensor, TensorType::F32, {1}, std::vector{3.0F});
  };
  const std::string first = folder.write("m-00001-of-00002.gguf", part(0, 2, 2, "a").bytes());
  const auto with_second = [&](const GgufWriter& writer) {
    const std::string second = folder.write("m-00002-of-00002.gguf", writer.bytes());
    return [path = second, first] { GgufFile file(first); };
  };
  const auto open = [](const std::string& path) { return [path] { GgufFile file(path); }; };
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "m-00002-of-00002.gguf: cannot open", open(first));
  with_second(part(1, 2, {}, "b"))();
  const GgufFile joined(first);
  EXPECT_EQ(joined.find_string("k"), "v");
  EXPECT_EQ(joined.find_value("split.count"), nullptr);
  EXPECT_EQ(joined.metadata().size(), 1U);
  EXPECT_EQ(joined.tensors().size(), 2U);
  INFLIGHT_EXPECT_ERROR(
      ErrorCode::InvalidArgument,
      "is part 2 of a model in 2 files: give the first one, whose name ends with -00001-of-00002.gguf",
      open(folder.file("m-00002-of-00002.gguf")));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "m-00002-of-00002.gguf: tensor 'a' is in another part, too",
                        with_second(part(1, 2, {}, "a")));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile,
                        "says that it is number 0 of 2 parts (split.no, split.count), expected 1 of 2",
                        with_second(part(0, 2, {}, "b")));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "number 1 of 3 parts", with_second(part(1, 3, {}, "b")));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "number -1 of -1 parts", with_second(GgufWriter()));
  with_second(part(1, 2, {}, "b"))();
  static_cast<void>(folder.write("m-00001-of-00002.gguf", part(0, 2, 3, "a").bytes()));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "its parts have 2 tensors, expected 3 (split.tensors.count)",
                        open(first));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "its own has to end with -00001-of-00002.gguf",
                        open(folder.write("renamed.gguf", part(0, 2, 2, "a").bytes())));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "is one of 60000 parts (split.count), allowed: up to 4096",
                        open(folder.write("many.gguf", part(0, 60000, 2, "a").bytes())));
}

TEST(GgufFile, SaysWhyItCannotOpen) {
  const TempFolder folder;
  const auto open = [](const std::string& path) { return [path] { GgufFile file(path); }; };
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "none.gguf: cannot open: No such file", open(folder.file("none.gguf")));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Io, "is a directory", open(folder.path()));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "is empty", open(folder.write("empty", std::string())));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Io, "is a device", open("/dev/zero"));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "is no GGUF file", open(source_path("README.md")));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);  // must not wait for a writer
  INFLIGHT_EXPECT_ERROR(ErrorCode::Io, "is a device, pipe or socket", open(folder.file("pipe")));
}

}  // namespace
}  // namespace inflight::test
