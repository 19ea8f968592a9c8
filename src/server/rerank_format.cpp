// SPDX-License-Identifier: Apache-2.0
// Answers of /v1/rerank, in the form that Jina, Cohere and vLLM share.
#include <algorithm>
#include <numeric>

#include "server/answer_format.h"

namespace inflight::server {
namespace {

class RerankFormat final : public WholeFormat {
 public:
  RerankFormat(const GenerationRequest& request, AnswerInfo info)
      : request_(request), info_(std::move(info)), scores_(static_cast<size_t>(info_.choice_count)) {}

  void collect(const AnswerDelta& delta) override {
    if (!delta.embedding.empty()) scores_[static_cast<size_t>(delta.choice)] = delta.embedding.front();
  }

  // The most relevant first; of equals as they were given.
  std::string whole(const AnswerUsage& usage) override {
    std::vector<size_t> order(scores_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores_[a] > scores_[b]; });
    if (request_.top_n > 0) order.resize(std::min(order.size(), static_cast<size_t>(request_.top_n)));
    Json answer;
    answer["id"] = "rerank-" + info_.id;
    answer["object"] = "list";
    answer["model"] = info_.model;
    answer["usage"]["prompt_tokens"] = usage.prompt_tokens;
    answer["usage"]["total_tokens"] = usage.prompt_tokens;
    answer["results"] = Json::array();
    for (const size_t index : order) {
      Json result;
      result["index"] = index;
      result["relevance_score"] = scores_[index];
      if (request_.return_documents) result["document"]["text"] = request_.prompts[index].text;
      answer["results"].push_back(std::move(result));
    }
    return to_text(answer);
  }

 private:
  const GenerationRequest& request_;
  const AnswerInfo info_;
  std::vector<float> scores_;  // one a document
};

}  // namespace

std::unique_ptr<AnswerFormat> rerank_format(const GenerationRequest& request, AnswerInfo info) {
  return std::make_unique<RerankFormat>(request, std::move(info));
}

}  // namespace inflight::server
