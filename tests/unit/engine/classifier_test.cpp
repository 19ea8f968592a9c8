// SPDX-License-Identifier: Apache-2.0
// Truth: the float64 reference's hidden states and the formula, written out.
#include "engine/classifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/reference_model.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "unit/text/vocabularies.h"

namespace inflight {
namespace {

using test::build_model;
using test::ReferenceModel;
using test::SyntheticModel;
using test::TempFolder;

std::vector<float> random_numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// A classifier's logits in doubles.
std::vector<double> products(const std::vector<float>& weights, const std::vector<float>& hidden) {
  std::vector<double> logits(weights.size() / hidden.size(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    logits[i / hidden.size()] += double{weights[i]} * double{hidden[i % hidden.size()]};
  return logits;
}

TEST(Classifier, IsASoftmaxOfTheFilesRows) {
  const TempFolder folder;
  SyntheticModel synthetic;
  const auto width = static_cast<size_t>(synthetic.spec.hidden_size);
  const std::vector<float> weights = random_numbers(3 * width, 1), biases = {0.5F, -1.0F, 0.25F};
  auto writer = build_model(synthetic);
  writer.key_strings("llama.classifier.output_labels", {"a", "b", "c"})
      .tensor("cls.output.weight", TensorType::F32, {width, 3}, weights)
      .tensor("cls.output.bias", TensorType::F32, {3}, biases);
  const LoadedModel model = load_model(folder.write("m.gguf", writer.bytes()));
  const auto classifier = Classifier::of_file(model);
  ASSERT_TRUE(classifier);
  EXPECT_EQ(classifier->labels(), std::vector<std::string>({"a", "b", "c"}));
  const std::vector<float> hidden = random_numbers(width, 2);
  std::vector<double> odds = products(weights, hidden);
  double total = 0.0;
  for (size_t i = 0; i < odds.size(); ++i) total += odds[i] = std::exp(odds[i] + double{biases[i]});
  const std::vector<float> probabilities = classifier->probabilities(hidden);
  ASSERT_EQ(probabilities.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(probabilities[i], odds[i] / total, 1e-6);
  std::vector<float> far = hidden;
  for (float& number : far) number *= 1e4F;  // whose exponentials no double holds
  for (const float probability : classifier->probabilities(far)) EXPECT_TRUE(std::isfinite(probability));
}

TEST(Classifier, OfOneLabelIsALogisticFunction) {
  const TempFolder folder;
  SyntheticModel synthetic;
  const auto width = static_cast<size_t>(synthetic.spec.hidden_size);
  const std::vector<float> weights = random_numbers(width, 3), hidden = random_numbers(width, 4);
  auto writer = build_model(synthetic);
  writer.tensor("cls.output.weight", TensorType::F32, {width, 1}, weights);
  const auto classifier = Classifier::of_file(load_model(folder.write("m.gguf", writer.bytes())));
  ASSERT_TRUE(classifier);
  EXPECT_EQ(classifier->labels(), std::vector<std::string>({"LABEL_0"}));
  const double expected = 1.0 / (1.0 + std::exp(-products(weights, hidden)[0]));
  ASSERT_EQ(classifier->probabilities(hidden).size(), 1U);
  EXPECT_NEAR(classifier->probabilities(hidden)[0], expected, 1e-6);
}

// By the logits of the reference, which scales, caps and biases them.
TEST(Classifier, OfTokensIsHowLikelyTheModelAnswersWithThem) {
  for (const bool biased : {false, true}) {
    SCOPED_TRACE(biased);
    SyntheticModel synthetic;
    synthetic.spec.vocabulary_size = 300;
    synthetic.spec.logit_scale = biased ? 1.0F : 0.25F;
    if (biased) {
      synthetic.make_gpt_neox(true);
      synthetic.logit_bias = true;
    }
    const TempFolder folder;
    const LoadedModel model = load_model(folder.write("m.gguf", build_model(synthetic).bytes()));
    VocabularyData data = test::sentencepiece_vocabulary({"a", "b"});
    data.add_space_prefix = false;
    const auto tokenizer = Tokenizer::create(data);
    const Classifier classifier = Classifier::of_tokens(model, *tokenizer, "a,b");
    EXPECT_EQ(classifier.labels(), std::vector<std::string>({"b", "a"}));
    ReferenceModel reference(model);
    const std::vector<TokenId> prompt = {5, 9, 12, 30};
    const std::vector<double> row = reference.feed_hidden(prompt).back();
    reference.reset();
    const std::vector<double> logits = reference.feed(prompt);
    const auto logit_of = [&](const char* text) {
      return logits.at(static_cast<size_t>(tokenizer->encode(text, {.add_special = false}).at(0)));
    };
    const double expected = 1.0 / (1.0 + std::exp(logit_of("a") - logit_of("b")));
    const std::vector<float> probabilities = classifier.probabilities(std::vector<float>(row.begin(), row.end()));
    ASSERT_EQ(probabilities.size(), 2U);
    EXPECT_NEAR(probabilities[0], expected, 1e-5);
    EXPECT_NEAR(probabilities[1], 1.0 - expected, 1e-5);
    EXPECT_GT(std::abs(expected - 0.5), 1e-3);
  }
}

TEST(Classifier, NamesWhatIsNoToken) {
  const LoadedModel model = load_model(test::kDemoModel);
  EXPECT_FALSE(Classifier::of_file(model));
  const auto tokenizer = Tokenizer::create(model.vocabulary);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "the text 'perhaps' is",
                        [&] { (void)Classifier::of_tokens(model, *tokenizer, "yes,perhaps"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "the text '' is 0 tokens of this model, allowed: 1",
                        [&] { (void)Classifier::of_tokens(model, *tokenizer, "yes,"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "classifier_from_token is 'a,b,c', allowed: one or two tokens",
                        [&] { (void)Classifier::of_tokens(model, *tokenizer, "a,b,c"); });
}

}  // namespace
}  // namespace inflight
