// SPDX-License-Identifier: Apache-2.0
// How likely each of a model's labels is for a prompt, from the final hidden state h of its last token: softmax(W h +
// b), and of one label alone 1 / (1 + exp(-(w h + b))). W is the classifier that the model's file has, or the rows that
// the output layer has for some tokens: how likely the model is to answer with one of them and not with the others.
// SOURCE: llama.cpp's pooling "rank" as Qwen3-Reranker's files have it; vLLM's classifier_from_token.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_loader.h"
#include "text/tokenizer.h"

namespace inflight {

class Classifier {
 public:
  // None: the file has none.   COST: of both, numbers of W.
  [[nodiscard]] static std::optional<Classifier> of_file(const LoadedModel& model);
  // tokens: "no,yes", or one; the last one says "relevant", and is the first label.
  // ERRORS: InvalidArgument for another number of texts, or one that is no token.
  [[nodiscard]] static Classifier of_tokens(const LoadedModel& model, const Tokenizer& tokenizer,
                                            std::string_view tokens);

  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }
  // One a label; sums run in order, in doubles.   REQUIRES: the model's hidden size.
  [[nodiscard]] std::vector<float> probabilities(std::span<const float> hidden) const;

 private:
  std::vector<std::string> labels_;
  std::vector<std::vector<float>> rows_;  // W
  std::vector<float> biases_;             // b; empty: none
  double scale_ = 1.0, softcap_ = 0.0;    // of the output layer's logits
};

}  // namespace inflight
