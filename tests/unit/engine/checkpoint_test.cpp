// SPDX-License-Identifier: Apache-2.0
// Goal: a folder that transformers saved is the model that transformers loads from it.
// Method: small ones with what it makes of texts and ids (tests/golden/make_checkpoints.py); damaged copies.
// Covers: model/checkpoint.cpp, model/checkpoint_config.cpp, model/checkpoint_tokenizer.cpp, model/safetensors.cpp
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/rng.h"
#include "engine/classifier.h"
#include "model/quantize_file.h"
#include "support/expect_error.h"
#include "support/reference_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

using Json = nlohmann::json;

const Json& golden_cases() {
  static const Json cases = Json::parse(read_file(source_path("tests/golden/checkpoints.json")))["cases"];
  return cases;
}

std::string folder_of(const Json& golden) {
  return source_path("tests/golden/checkpoints/" + golden["folder"].get<std::string>());
}

std::vector<double> log_softmax(std::vector<double> logits) {
  const double most = *std::ranges::max_element(logits);
  const double total = std::accumulate(logits.begin(), logits.end(), 0.0,
                                       [most](double sum, double logit) { return sum + std::exp(logit - most); });
  for (double& logit : logits) logit -= most + std::log(total);
  return logits;
}

void expect_log_probabilities(const std::vector<double>& found, const Json& golden) {
  const auto expected = golden["log_probabilities"].get<std::vector<double>>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 5e-5) << i;
}

TEST(Checkpoint, ComputesWhatTransformersDoes) {
  for (const Json& golden : golden_cases()) {
    SCOPED_TRACE(golden["folder"]);
    const LoadedModel model = load_model(folder_of(golden));
    ReferenceModel reference(model);
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    if (const auto classifier = Classifier::of_file(model)) {
      const std::vector<double> hidden = reference.feed_hidden(ids).back();
      std::vector<double> found;
      for (const float odds : classifier->probabilities(std::vector<float>(hidden.begin(), hidden.end()))) {
        found.push_back(std::log(double{odds}));
      }
      expect_log_probabilities(found, golden);
    } else {
      expect_log_probabilities(log_softmax(reference.feed(ids)), golden);
    }
  }
}

TEST(Checkpoint, CutsTextsAsTransformersDoes) {
  for (const Json& golden : golden_cases()) {
    SCOPED_TRACE(golden["folder"]);
    const auto tokenizer = Tokenizer::create(load_model(folder_of(golden)).vocabulary);
    for (const Json& text : golden["texts"]) {
      EXPECT_EQ(tokenizer->encode(text["text"].get<std::string>()), text["ids"].get<std::vector<TokenId>>())
          << text["text"];
    }
  }
}

// transformers 5 states the base and the scaling of RoPE in one place.
TEST(Checkpoint, TakesConfigurationsOfBothVersions) {
  for (const char* const name : {"llama", "phi3", "qwen2"}) {
    SCOPED_TRACE(name);
    const TempFolder folder;
    const std::string older = source_path(std::string("tests/golden/checkpoints/") + name);
    std::filesystem::copy(older, folder.file("copy"));
    Json config = Json::parse(read_file(folder.file("copy/config.json")));
    Json rope = config["rope_scaling"].is_null() ? Json{{"rope_type", "default"}} : config["rope_scaling"];
    for (const char* const key : {"rope_theta", "original_max_position_embeddings"}) {
      if (config.contains(key)) rope[key] = config[key];
      config.erase(key);
    }
    config.erase("rope_scaling");
    config["rope_parameters"] = rope;
    static_cast<void>(folder.write("copy/config.json", config.dump()));
    const LoadedModel before = load_model(older), after = load_model(folder.file("copy"));
    EXPECT_EQ(after.spec.rope_base, before.spec.rope_base);
    EXPECT_EQ(after.spec.rope_scaling.factor, before.spec.rope_scaling.factor);
    EXPECT_EQ(after.spec.rope_scaling.magnitude, before.spec.rope_scaling.magnitude);
    EXPECT_EQ(after.spec.rope_scaling.original_context_length, before.spec.rope_scaling.original_context_length);
    EXPECT_EQ(after.weights.rope_factors.present(), before.weights.rope_factors.present());
    EXPECT_NE(after.spec.rope_base, 0.0F);
  }
}

TEST(Checkpoint, TakesRopeByKindsOfLayers) {
  const TempFolder folder;
  std::filesystem::copy(source_path("tests/golden/checkpoints/gemma3"), folder.file("copy"));
  Json config = Json::parse(read_file(folder.file("copy/config.json")));
  config.erase("rope_local_base_freq");
  const auto with_local = [&](double base) {
    config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"rope_theta", 2e6}, {"factor", 8.0}}},
                                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", base}}}};
    static_cast<void>(folder.write("copy/config.json", config.dump()));
    return load_model(folder.file("copy")).spec;
  };
  const ModelSpec spec = with_local(10000.0);
  EXPECT_EQ(spec.rope_base, 2e6F);
  EXPECT_EQ(spec.rope_scaling.factor, 8.0F);
  EXPECT_EQ(spec.local_rope_base, 10000.0F);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'rope_local_base_freq' is 20000, supported: 10000",
                        [&] { (void)with_local(20000.0); });
}

// A GGUF file made of it is the same model to whoever reads GGUF: rows of queries and keys are in its order.
TEST(Checkpoint, BecomesAGgufFile) {
  for (const Json& golden : golden_cases()) {
    SCOPED_TRACE(golden["folder"]);
    const TempFolder folder;
    const std::string output = folder.file("out.gguf");
    (void)quantize_file({.input_path = folder_of(golden), .output_path = output, .type = TensorType::F32},
                        [](const QuantizeProgress&) {});
    const LoadedModel whole = load_model(folder_of(golden)), converted = load_model(output);
    const std::string& family = converted.spec.architecture;
    const bool same = family.starts_with("qwen") || family == "olmo2" || family == "gemma3" || family == "phi3";
    EXPECT_EQ(converted.spec.rope_style, same ? RopeStyle::HalfSplit : RopeStyle::Interleaved);
    EXPECT_EQ(whole.spec.rope_style, RopeStyle::HalfSplit);
    EXPECT_EQ(whole.spec.checkpoint_rows, !same);
    EXPECT_FALSE(converted.spec.checkpoint_rows);
    EXPECT_EQ(converted.vocabulary.tokens, whole.vocabulary.tokens);
    if (!converted.spec.labels.empty()) continue;
    ReferenceModel reference(converted);
    expect_log_probabilities(log_softmax(reference.feed(golden["ids"].get<std::vector<TokenId>>())), golden);
  }
}

// Whose rows of queries make no whole heads: read by nobody before they are reordered.
TEST(Checkpoint, RefusesToReorderParts) {
  const TempFolder folder;
  std::filesystem::copy(source_path("tests/golden/checkpoints/llama"), folder.file("copy"));
  Json config = Json::parse(read_file(folder.file("copy/config.json")));
  config["head_dim"] = 6;
  static_cast<void>(folder.write("copy/config.json", config.dump()));
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "has 16 rows, expected a multiple of the heads' 6", [&] {
    (void)quantize_file(
        {.input_path = folder.file("copy"), .output_path = folder.file("out.gguf"), .type = TensorType::F32},
        [](const QuantizeProgress&) {});
  });
}

TEST(Checkpoint, KnowsItsEnds) {
  for (const Json& golden : golden_cases()) {
    const LoadedModel model = load_model(folder_of(golden));
    const std::string name = golden["folder"];
    const std::string end = name == "llama"              ? "<|end|>"
                            : name == "mistral"          ? "</s>"
                            : name == "gemma3"           ? "</s>"
                            : name == "qwen3_classifier" ? "<|endoftext|>"  // which it puts behind texts
                                                         : "<|im_end|>";
    ASSERT_TRUE(model.vocabulary.eos) << golden["folder"];
    EXPECT_EQ(model.vocabulary.tokens[static_cast<size_t>(*model.vocabulary.eos)], end);
    EXPECT_EQ(model.spec.name, golden["folder"]);
    EXPECT_EQ(model.weights.files.size(), golden["folder"] == "llama" ? 3U : 1U);
  }
}

// A copy of a checkpoint whose JSON files are changed.
class DamagedCheckpoint : public testing::Test {
 protected:
  explicit DamagedCheckpoint() {
    std::filesystem::copy(source_path("tests/golden/checkpoints/qwen3"), path(),
                          std::filesystem::copy_options::recursive);
  }
  [[nodiscard]] std::string path(const char* name = "") const { return folder_.file("copy") + "/" + name; }
  void change(const char* file, const std::function<void(Json&)>& how) const {
    Json json = Json::parse(read_file(path(file)));
    how(json);
    static_cast<void>(folder_.write(std::string("copy/") + file, json.dump()));
  }
  void expect(ErrorCode code, const char* message) const {
    INFLIGHT_EXPECT_ERROR(code, message, [&] { (void)load_model(path()); });
  }

  TempFolder folder_;
};

TEST_F(DamagedCheckpoint, SaysWhatIsWrongWithItsConfiguration) {
  const auto with = [&](const char* key, const Json& value, ErrorCode code, const char* message) {
    const std::string before = read_file(path("config.json"));
    change("config.json", [&](Json& config) { config[key] = value; });
    expect(code, message);
    static_cast<void>(folder_.write("copy/config.json", before));
  };
  using enum ErrorCode;
  with("model_type", "gpt_neo", Unsupported,
       "model_type is 'gpt_neo', supported: llama, mistral, qwen2, qwen3, granite, smollm3, phi3, olmo2, gemma3_text; "
       "others");
  with("hidden_size", nullptr, CorruptFile, "copy/config.json: 'hidden_size' is missing");
  with("hidden_size", -1, CorruptFile, "'hidden_size' is -1, expected a whole number below 2^31");
  with("hidden_act", "gelu", Unsupported, "'hidden_act' is 'gelu', supported: silu");
  with("use_sliding_window", true, Unsupported, "'use_sliding_window' is true");
  with("use_bidirectional_attention", true, Unsupported, "'use_bidirectional_attention' is true, supported: false");
  with("rope_scaling", {{"rope_type", "dynamic"}}, Unsupported, "'rope_scaling' is 'dynamic', supported: default");
  with("quantization_config", {{"quant_method", "gptq"}}, Unsupported,
       "'quantization_config' is 'gptq', supported: none");
  with("architectures", {"Qwen3ForTokenClassification"}, Unsupported,
       "'architectures' is 'Qwen3ForTokenClassification'");
  with("vocab_size", 10, CorruptFile, "has id");
  static_cast<void>(folder_.write("copy/config.json", std::string("{\"a\": ")));
  expect(CorruptFile, "copy/config.json: ");
  std::filesystem::remove(path("config.json"));
  expect(Io, "is a directory without config.json, expected a GGUF file or a model's folder");
}

TEST_F(DamagedCheckpoint, SaysWhatIsWrongWithItsTokenizer) {
  const auto with = [&](const std::function<void(Json&)>& how, const char* message) {
    const std::string before = read_file(path("tokenizer.json"));
    change("tokenizer.json", how);
    expect(ErrorCode::Unsupported, message);
    static_cast<void>(folder_.write("copy/tokenizer.json", before));
  };
  with([](Json& json) { json["model"]["type"] = "Unigram"; },
       "'model' is of a kind that is not known here, supported: BPE");
  with([](Json& json) { json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "x"; },
       "'pre_tokenizer' is of a kind that is not known here, supported: those of GPT-2");
  with([](Json& json) { json["normalizer"] = {{"type", "Lowercase"}}; }, "'normalizer' is of a kind");
  with([](Json& json) { json["model"]["merges"] = {"ab"}; }, "'merges' is of a kind");
  std::filesystem::remove(path("tokenizer.json"));
  EXPECT_TRUE(load_model(path()).vocabulary.model.empty());
}

// Whatever a byte becomes: it is another model, or there is an error that names it.
TEST_F(DamagedCheckpoint, EndsWithAnErrorAtWorst) {
  constexpr std::string_view kLetters = R"(0123456789{}[]",:-.eE\ntfa )";
  Rng random(5);
  int32_t errors = 0;
  for (const char* const file : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}) {
    const std::string good = read_file(path(file));
    const auto reach = std::min<uint64_t>(good.size(), 3000);
    for (int32_t round = 0; round < 150; ++round) {
      std::string bad = good;
      for (uint64_t hits = 1 + random.below(3); hits > 0; --hits) {
        bad[random.below(reach)] = kLetters[random.below(kLetters.size())];
      }
      if (round % 10 == 0) bad.resize(random.below(reach));
      static_cast<void>(folder_.write(std::string("copy/") + file, bad));
      try {
        const LoadedModel model = load_model(path());
        if (!model.vocabulary.model.empty()) (void)Tokenizer::create(model.vocabulary);
      } catch (const Error& error) {
        ++errors;
        EXPECT_NE(std::string(error.what()).find("copy"), std::string::npos) << error.what();
      }
    }
    static_cast<void>(folder_.write(std::string("copy/") + file, good));
  }
  EXPECT_GT(errors, 300);
}

TEST_F(DamagedCheckpoint, SaysWhatIsWrongWithItsWeights) {
  const std::string good = read_file(path("model.safetensors"));
  uint64_t length = 0;
  std::copy_n(good.data(), sizeof length, reinterpret_cast<char*>(&length));
  size_t odd = 0;
  const auto with = [&](const std::function<void(Json&)>& how, ErrorCode code, const char* message) {
    Json header = Json::parse(good.substr(8, length));
    how(header);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8 + odd, ' ');
    const uint64_t size = text.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    static_cast<void>(folder_.write("copy/model.safetensors", file + text + good.substr(8 + length)));
    expect(code, message);
  };
  using enum ErrorCode;
  const char* const name = "model.norm.weight";
  with([&](Json& header) { header.erase(name); }, CorruptFile, "'output_norm.weight'");
  with([&](Json& header) { header["extra"] = header[name]; }, Unsupported, "tensor 'extra' is not part of the models");
  with([&](Json& header) { header["norm.weight"] = header[name]; }, CorruptFile, "is there twice");
  with([&](Json& header) { header[name]["dtype"] = "F8_E4M3"; }, Unsupported,
       "has type F8_E4M3, supported: F32, F16, BF16");
  with([&](Json& header) { header[name]["dtype"] = 3; }, CorruptFile, "dtype is missing or no text");
  with([&](Json& header) { header[name]["shape"] = {31}; }, CorruptFile, "which is not what BF16 of shape [31] has");
  with([&](Json& header) { header[name]["shape"] = {-32}; }, CorruptFile, "shape has -32, allowed: whole numbers");
  with([&](Json& header) { header[name]["data_offsets"] = {0, 1e9}; }, CorruptFile,
       "data_offsets has 1000000000.0, allowed");
  with([&](Json& header) { header[name]["data_offsets"] = {64, 0}; }, CorruptFile, "data_offsets are [64, 0], allowed");
  with([&](Json& header) { header[name]["data_offsets"] = {0, 1000000000}; }, CorruptFile,
       "a begin and an end within 69056 bytes");
  odd = 2;
  with([&](Json&) {}, Unsupported, "begins at a place that is no multiple of 4 bytes");
  for (const size_t bytes : {size_t{4}, size_t{8}, size_t{100}, good.size() - 1}) {
    static_cast<void>(folder_.write("copy/model.safetensors", good.substr(0, bytes)));
    EXPECT_THROW((void)load_model(path()), Error) << bytes;
  }
  std::filesystem::remove(path("model.safetensors"));
  expect(NotFound, "copy/model.safetensors: cannot open");
}

}  // namespace
}  // namespace inflight::test
