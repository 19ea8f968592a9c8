// SPDX-License-Identifier: Apache-2.0
#include "engine/classifier.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/quote.h"
#include "model/quantize.h"

namespace inflight {
namespace {

std::vector<float> row_of(const WeightView& weights, int32_t row) {
  std::vector<float> numbers(static_cast<size_t>(weights.columns));
  const size_t bytes = row_bytes(weights.type, weights.columns);
  dequantize_row(weights.type, weights.bytes.subspan(static_cast<size_t>(row) * bytes, bytes), numbers);
  return numbers;
}

std::vector<std::string> split(std::string_view texts) {
  std::vector<std::string> parts;
  for (size_t end = texts.find(','); end != texts.npos; end = texts.find(',')) {
    parts.emplace_back(texts.substr(0, end));
    texts.remove_prefix(end + 1);
  }
  parts.emplace_back(texts);
  return parts;
}

}  // namespace

std::optional<Classifier> Classifier::of_file(const LoadedModel& model) {
  if (model.spec.labels.empty()) return {};
  Classifier classifier;
  classifier.labels_ = model.spec.labels;
  const WeightView& weights = model.weights.classifier;
  for (int32_t row = 0; row < weights.rows; ++row) classifier.rows_.push_back(row_of(weights, row));
  if (model.weights.classifier_bias.present()) classifier.biases_ = row_of(model.weights.classifier_bias, 0);
  return classifier;
}

Classifier Classifier::of_tokens(const LoadedModel& model, const Tokenizer& tokenizer, std::string_view tokens) {
  Classifier classifier;
  classifier.labels_ = split(tokens);
  if (classifier.labels_.size() > 2) {
    fail(ErrorCode::InvalidArgument, "classifier_from_token is {}, allowed: one or two tokens, as \"no,yes\"",
         quote(tokens));
  }
  std::ranges::reverse(classifier.labels_);
  std::vector<float> biases;
  if (model.weights.output_bias.present()) biases = row_of(model.weights.output_bias, 0);
  for (const std::string& label : classifier.labels_) {
    const std::vector<TokenId> ids = tokenizer.encode(label, {.add_special = false});
    if (ids.size() != 1) {
      fail(ErrorCode::InvalidArgument, "classifier_from_token: the text {} is {} tokens of this model, allowed: 1",
           quote(label), ids.size());
    }
    classifier.rows_.push_back(row_of(model.weights.output, ids[0]));
    if (!biases.empty()) classifier.biases_.push_back(biases[static_cast<size_t>(ids[0])]);
  }
  classifier.scale_ = double{model.spec.logit_scale};
  classifier.softcap_ = double{model.spec.logit_softcap};
  return classifier;
}

std::vector<float> Classifier::probabilities(std::span<const float> hidden) const {
  std::vector<double> logits;
  for (size_t label = 0; label < rows_.size(); ++label) {
    double sum = 0.0;
    for (size_t i = 0; i < hidden.size(); ++i) sum += double{rows_[label][i]} * double{hidden[i]};
    sum = scale_ * sum + (biases_.empty() ? 0.0 : double{biases_[label]});
    logits.push_back(softcap_ > 0.0 ? softcap_ * std::tanh(sum / softcap_) : sum);
  }
  if (logits.size() == 1) logits.push_back(0.0);  // the softmax of x and 0 is 1 / (1 + exp(-x))
  const double most = *std::ranges::max_element(logits);
  double total = 0.0;
  for (double& logit : logits) total += logit = std::exp(logit - most);
  std::vector<float> result;
  for (size_t label = 0; label < rows_.size(); ++label) result.push_back(static_cast<float>(logits[label] / total));
  return result;
}

}  // namespace inflight
