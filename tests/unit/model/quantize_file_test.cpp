// SPDX-License-Identifier: Apache-2.0
// Goal: a converted file holds the same model: the same metadata, each tensor rounded as the
// reference rounds it.
// Method: the demo model's Q8_0 file, which PyPI's gguf package made from the same numbers;
// synthetic models for each type; damaged numbers and places for what must leave nothing behind.
// Covers: model/convert_rows.cpp
#include "model/quantize_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/model_loader.h"
#include "model/quantize.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

void ignore_progress(const QuantizeProgress&) {}

std::string convert(const TempFolder& folder, const std::string& input, TensorType type) {
  const std::string output = folder.file("out.gguf");
  (void)quantize_file({.input_path = input, .output_path = output, .type = type}, ignore_progress);
  return output;
}

void expect_same_tensors(const GgufFile& actual, const GgufFile& expected) {
  ASSERT_EQ(actual.tensors().size(), expected.tensors().size());
  for (size_t i = 0; i < expected.tensors().size(); ++i) {
    const GgufTensor& a = actual.tensors()[i];
    const GgufTensor& e = expected.tensors()[i];
    EXPECT_EQ(a.name, e.name);
    EXPECT_STREQ(a.type->name, e.type->name) << e.name;
    EXPECT_EQ(a.shape(), e.shape()) << e.name;
    EXPECT_TRUE(std::ranges::equal(a.bytes, e.bytes)) << e.name;
  }
}

void expect_same_metadata(const GgufFile& actual, const GgufFile& expected) {
  ASSERT_EQ(actual.metadata().size(), expected.metadata().size());
  for (size_t i = 0; i < expected.metadata().size(); ++i) {
    const GgufValue& a = actual.metadata()[i];
    const GgufValue& e = expected.metadata()[i];
    EXPECT_EQ(a.key, e.key);
    EXPECT_EQ(a.type_name(), e.type_name()) << e.key;
    EXPECT_EQ(a.count, e.count) << e.key;
    if (e.key == "general.file_type") continue;
    EXPECT_TRUE(std::ranges::equal(a.bytes, e.bytes)) << e.key;
  }
}

TEST(QuantizeFile, MakesTheDemoModelsQ8File) {
  const TempFolder folder;
  const std::string input = kDemoModel;
  const GgufFile output(convert(folder, input, TensorType::Q8_0));
  const GgufFile golden(source_path("models/tinyworld/tinyworld-q8_0.gguf"));
  expect_same_tensors(output, golden);
  expect_same_metadata(output, golden);
  EXPECT_EQ(output.find_integer("general.file_type"), 7);  // GGUF: mostly Q8_0
}

TEST(QuantizeFile, ConvertsBetweenFloatsWithoutLoss) {
  const TempFolder folder;
  const GgufFile input(kDemoModel);
  const std::string wide = folder.file("wide.gguf");
  std::filesystem::rename(convert(folder, input.path(), TensorType::F32), wide);
  EXPECT_EQ(GgufFile(wide).find_tensor("token_embd.weight")->bytes.size(), 1024U * 256 * 4);
  EXPECT_EQ(GgufFile(wide).find_integer("general.file_type"), 0);
  const GgufFile back(convert(folder, wide, TensorType::F16));
  expect_same_tensors(back, input);
  expect_same_metadata(back, input);
}

TEST(QuantizeFile, MakesOneFileOfSeveral) {
  const TempFolder folder;
  const auto of = [&](const char* input) { return read_file(convert(folder, source_path(input), TensorType::F16)); };
  EXPECT_EQ(of("tests/golden/parts-00001-of-00003.gguf"), of("tests/golden/reference_gqa_linear.gguf"));
  for (const char* const number : {"1", "2", "3"}) {
    const std::string name = std::string("parts-0000") + number + "-of-00003.gguf";
    std::filesystem::copy_file(source_path("tests/golden/" + name), folder.file(name));
  }
  const QuantizeOptions onto_a_part{.input_path = folder.file("parts-00001-of-00003.gguf"),
                                    .output_path = folder.file("parts-00003-of-00003.gguf"),
                                    .type = TensorType::F16};
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "parts-00003-of-00003.gguf: is the input file too",
                        [&] { (void)quantize_file(onto_a_part, ignore_progress); });
}

TEST(QuantizeFile, ChoosesTypesByRole) {
  const TempFolder folder;
  SyntheticModel model;
  model.spec.feed_forward_size = 80;  // rows of ffn_down are no multiple of 32
  model.query_key_value_bias = true;
  GgufWriter writer = build_model(model);
  writer.key_strings("tokens.of.mine", {"a", "", "c"}).key_u32("general.file_type", 0);
  const auto type_of = [](const GgufFile& file, const char* name) {
    return std::string(file.find_tensor(name)->type->name);
  };
  const GgufFile tied(convert(folder, folder.write("m.gguf", writer.bytes()), TensorType::Q4_0));
  EXPECT_EQ(type_of(tied, "token_embd.weight"), "Q8_0");
  EXPECT_EQ(type_of(tied, "blk.0.attn_q.weight"), "Q4_0");
  EXPECT_EQ(type_of(tied, "blk.0.ffn_down.weight"), "F16");
  EXPECT_EQ(type_of(tied, "blk.0.attn_q.bias"), "F32");
  EXPECT_EQ(type_of(tied, "blk.0.attn_norm.weight"), "F32");
  EXPECT_EQ(tied.find_integer("general.file_type"), 2);
  EXPECT_EQ(tied.find_integer("general.quantization_version"), 2);
  EXPECT_EQ(tied.find_strings("tokens.of.mine"), (std::vector<std::string_view>{"a", "", "c"}));

  model.tied_output = false;
  const GgufFile untied(convert(folder, folder.write("m.gguf", build_model(model).bytes()), TensorType::Q4_0));
  EXPECT_EQ(type_of(untied, "token_embd.weight"), "Q4_0");
  EXPECT_EQ(type_of(untied, "output.weight"), "Q8_0");
}

TEST(QuantizeFile, RoundsEachRowOfEachType) {
  const TempFolder folder;
  SyntheticModel model;
  model.spec.vocabulary_size = 70001;  // more rows than one slab takes
  const std::string input = folder.write("m.gguf", build_model(model).bytes());
  const LoadedModel source = load_model(input);
  for (const TensorType type : {TensorType::F16, TensorType::BF16, TensorType::Q8_0}) {
    const LoadedModel loaded = load_model(convert(folder, input, type));
    const WeightView& from = source.weights.token_embedding;
    const WeightView& to = loaded.weights.token_embedding;
    ASSERT_EQ(to.type, type);
    const size_t stride = row_bytes(type, 64);
    std::vector<float> numbers(64);
    std::vector<std::byte> row(stride);
    for (size_t r = 0; r < 70001; r += r < 69000 ? 1000 : 1) {
      dequantize_row(TensorType::F32, from.bytes.subspan(r * 256, 256), numbers);
      quantize_row(type, numbers, row);
      ASSERT_TRUE(std::ranges::equal(row, to.bytes.subspan(r * stride, stride))) << to_string(type) << " row " << r;
    }
  }
}

TEST(QuantizeFile, ReportsProgressToTheEnd) {
  const TempFolder folder;
  const std::string input = folder.write("m.gguf", build_model(SyntheticModel{}).bytes());
  size_t before = 0;
  QuantizeProgress last;
  const QuantizeResult result =
      quantize_file({.input_path = input, .output_path = folder.file("o"), .type = TensorType::F16},
                    [&](const QuantizeProgress& progress) {
                      EXPECT_GE(progress.done_bytes, before);
                      before = progress.done_bytes;
                      last = progress;
                    });
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  EXPECT_EQ(result.converted_count, 15);  // 7 matrices a layer, the embedding
  EXPECT_EQ(result.kept_count, 5);        // norms
  EXPECT_EQ(result.output_bytes, std::filesystem::file_size(folder.file("o")));
  EXPECT_EQ(result.input_bytes, std::filesystem::file_size(input));
}

TEST(QuantizeFile, LeavesNothingBehindOnErrors) {
  const TempFolder folder;
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  const auto quantize = [&](const std::string& input) {
    return [&folder, input] { (void)convert(folder, input, TensorType::Q8_0); };
  };
  GgufWriter bad = build_model(SyntheticModel{});
  std::vector<float> numbers(64 * 40, 1.0F);
  numbers[64 * 39 + 5] = std::numeric_limits<float>::quiet_NaN();
  bad.tensor("extra.weight", TensorType::F16, {64, 40}, std::vector<float>(64 * 40));
  bad.tensor("bad.weight", 0, {64, 40}, std::as_bytes(std::span(numbers)));
  const std::string path = folder.write("bad.gguf", bad.bytes());
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "tensor 'bad.weight', row 39: number 5 is nan", quantize(path));
  EXPECT_EQ(files(), 1);

  GgufWriter unknown;
  unknown.tensor("x.weight", 16, {256, 2}, std::vector<std::byte>(132));  // IQ2_XXS
  const std::string unreadable = folder.write("unknown.gguf", unknown.bytes());
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "tensor 'x.weight' has type IQ2_XXS; can be converted: F32",
                        quantize(unreadable));
  std::filesystem::create_symlink(path, folder.file("out.gguf"));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "out.gguf: is the input file too", quantize(path));
  std::filesystem::remove(folder.file("out.gguf"));

  const auto interrupted = [](const QuantizeProgress&) { throw std::runtime_error("enough"); };
  EXPECT_THROW((void)quantize_file({.input_path = path, .output_path = folder.file("out.gguf")}, interrupted),
               std::runtime_error);
  EXPECT_EQ(files(), 2);
}

}  // namespace
}  // namespace inflight::test
