// SPDX-License-Identifier: Apache-2.0
// Goal: the loader and the float64 reference together compute what other implementations compute on
// real weights.
// Method: the demo model against golden.json, which Hugging Face transformers wrote (float32,
// weights before their conversion to GGUF); stories260K against the text that llama.cpp and
// llama2.c continue with; small random models (tests/golden/make_reference.py) against llama.cpp.
#include "support/reference_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

#ifdef INFLIGHT_SANITIZED
constexpr bool kSlow = true;  // a few short cases only
#else
constexpr bool kSlow = false;
#endif

// A small model of each family: biases, untied output, head sizes other than E/H, MQA, both RoPE styles, all scalings,
// windows, norms behind, scales, caps, joined tensors; 70 tokens each.
// llama.cpp computes in float32; its log probabilities are of the order of 10.
TEST(SmallModels, HaveTheLogProbabilitiesOfLlamaCpp) {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/reference.json")));
  for (const auto& item : golden["cases"]) {
    const std::string name = item["file"];
    SCOPED_TRACE(name);
    const LoadedModel model = load_model(source_path("tests/golden/" + name));
    ReferenceModel reference(model);
    reference.round_gelu();
    const std::vector<double> logits = reference.logits(item["ids"].get<std::vector<TokenId>>());
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0.0;
    for (const double logit : logits) total += std::exp(logit - largest);
    const auto expected = item["log_probabilities"].get<std::vector<double>>();
    ASSERT_EQ(logits.size(), expected.size());
    double worst = 0.0;
    for (size_t id = 0; id < logits.size(); ++id) {
      worst = std::max(worst, std::fabs(logits[id] - largest - std::log(total) - expected[id]));
    }
    EXPECT_LT(worst, item["tolerance"].get<double>());
  }
}

// All 15 cases but the long ones where a sanitizer makes arithmetic ten times slower.
nlohmann::json golden_cases() {
  const auto all = nlohmann::json::parse(read_file(source_path("models/tinyworld/golden.json")));
  nlohmann::json cases;
  for (const auto& golden : all["cases"]) {
    if (!kSlow || golden["prompt_tokens"] <= 10) cases.push_back(golden);
  }
  return cases;
}

// The smallest gap between the two best logits of any step is 0.0036, hundreds of times float32's
// error: every greedy token counts.
TEST(DemoModel, HasTheLogitsAndGreedyTokensOfTransformers) {
  const LoadedModel model = load_model(kDemoModel);
  ReferenceModel reference(model);
  const auto cases = golden_cases();
  EXPECT_EQ(cases.size(), kSlow ? 4U : 15U);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const auto prompt = golden["prompt_ids"].get<std::vector<TokenId>>();
    const std::vector<double> logits = reference.logits(prompt);
    for (const auto& top : golden["top5"]) {
      const double expected = top["logit"];
      EXPECT_NEAR(logits[top["id"].get<size_t>()], expected, 1e-4 * std::fabs(expected)) << top;
    }
    EXPECT_EQ(reference.greedy(logits, 32), golden["greedy_ids"].get<std::vector<TokenId>>());
  }
}

// What rounding to Q8_0 alone costs: no kernel can come closer to transformers on this file.
TEST(DemoModel, KeepsItsLogitsInQ8) {
  const LoadedModel model = load_model(source_path("models/tinyworld/tinyworld-q8_0.gguf"));
  ReferenceModel reference(model);
  for (const auto& golden : golden_cases()) {
    if (golden["prompt_tokens"] > 30) continue;
    SCOPED_TRACE(golden["name"].get<std::string>());
    const std::vector<double> logits = reference.logits(golden["prompt_ids"].get<std::vector<TokenId>>());
    for (const auto& top : golden["top5"]) {
      const double expected = top["logit"];
      EXPECT_NEAR(logits[top["id"].get<size_t>()], expected, 2e-2 * std::fabs(expected)) << top;
    }
  }
}

// The SentencePiece vocabulary's pieces of the prompt, the begin token first, as llama.cpp
// tokenizes it.
TEST(Stories260K, ContinuesAsLlamaCppAndLlama2C) {
  const std::string path = shared_path("stories260K/stories260K-f32.gguf");
  INFLIGHT_REQUIRE_FILE(path);
  const LoadedModel model = load_model(path);
  const auto id_of = [&](const std::string& piece) {
    const auto& tokens = model.vocabulary.tokens;
    return static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), piece) - tokens.begin());
  };
  const std::vector<TokenId> prompt = {*model.vocabulary.bos, id_of("▁Once"), id_of("▁upon"), id_of("▁a"),
                                       id_of("▁time")};
  ReferenceModel reference(model);
  std::string text;
  for (const TokenId id : reference.greedy(reference.logits(prompt), kSlow ? 20 : 200)) {
    const std::string& piece = model.vocabulary.tokens[static_cast<size_t>(id)];
    text += piece.starts_with("▁") ? fmt::format(" {}", piece.substr(3)) : piece;
  }
  std::string expected =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
      "saw a big, red ball.";
  if (kSlow) expected.resize(30);
  EXPECT_EQ(text.substr(0, expected.size()), expected);
}

}  // namespace
}  // namespace inflight::test
