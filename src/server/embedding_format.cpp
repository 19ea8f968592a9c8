// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/embeddings.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

// The numbers as little-endian 32-bit floats, in base 64 (RFC 4648).
std::string base64_of(const std::vector<float>& values) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint32_t> bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) bytes.push_back(bits >> shift & 0xFFU);
  }
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = bytes[i] << 16U;
    if (count > 1) group |= bytes[i + 1] << 8U;
    if (count > 2) group |= bytes[i + 2];
    for (size_t digit = 0; digit < 4; ++digit) {
      text += digit <= count ? kDigits[group >> (18 - 6 * digit) & 0x3FU] : '=';
    }
  }
  return text;
}

void normalize(std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) squares += double{value} * double{value};
  if (squares == 0.0) return;
  for (float& value : values) value = static_cast<float>(double{value} / std::sqrt(squares));
}

class EmbeddingFormat final : public WholeFormat {
 public:
  EmbeddingFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), embeddings_(static_cast<size_t>(info_.choice_count)) {}

  void collect(const AnswerDelta& delta) override {
    if (!delta.embedding.empty()) embeddings_[static_cast<size_t>(delta.choice)] = delta.embedding;
  }

  std::string whole(const AnswerUsage& usage) override {
    Json answer;
    answer["object"] = "list";
    answer["data"] = Json::array();
    for (size_t i = 0; i < embeddings_.size(); ++i) {
      if (request_.normalize) normalize(embeddings_[i]);
      Json entry;
      entry["object"] = "embedding";
      entry["index"] = i;
      entry["embedding"] = request_.base64 ? Json(base64_of(embeddings_[i])) : Json(embeddings_[i]);
      answer["data"].push_back(std::move(entry));
    }
    answer["model"] = info_.model;
    answer["usage"]["prompt_tokens"] = usage.prompt_tokens;
    answer["usage"]["total_tokens"] = usage.prompt_tokens;
    return to_text(answer);
  }

 private:
  const GenerationRequest& request_;
  const AnswerInfo info_;
  std::vector<std::vector<float>> embeddings_;  // one a prompt
};

}  // namespace

std::unique_ptr<AnswerFormat> embedding_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<EmbeddingFormat>(request, std::move(info));
}

}  // namespace inflight::server
