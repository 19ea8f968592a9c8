// SPDX-License-Identifier: Apache-2.0
#include "sample/host_sampler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"

namespace inflight {

void HostSampler::set_filter(SequenceId sequence, std::unique_ptr<TokenFilter> filter) {
  filters_[to_integer(sequence)] = std::move(filter);
}

void HostSampler::submit(const BatchPlan& plan) {
  device_.submit(plan);
  INFLIGHT_CHECK(count_ < wanted_.size());
  std::vector<BatchEntry>& wanted = wanted_[(first_ + count_++) % wanted_.size()];
  wanted.clear();
  if (plan.logits_row_count == 0) return;
  std::ranges::copy_if(plan.entries, std::back_inserter(wanted),
                       [](const BatchEntry& e) { return e.logits_wanted > 0; });
}

const StepResult& HostSampler::wait() {
  const StepResult& read = device_.wait();
  const std::vector<BatchEntry>& wanted = wanted_[first_];
  first_ = (first_ + 1) % wanted_.size();
  --count_;
  if (wanted.empty()) return read;
  INFLIGHT_CHECK(read.logits.size() == wanted.size());
  result_ = read;
  top_.clear();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const BatchEntry& entry = wanted[i];
    const EntryLogits& logits = read.logits[i];
    INFLIGHT_CHECK(logits.sequence == entry.sequence && logits.row_count == entry.logits_wanted);
    INFLIGHT_CHECK(logits.values.size() ==
                   static_cast<size_t>(logits.row_count) * static_cast<size_t>(vocabulary_size_));
    tell_prompt(entry, logits);
    if (!entry.host_samples) continue;
    const auto sampled = std::ranges::find(result_.sampled, entry.sequence, &SampledToken::sequence);
    INFLIGHT_CHECK(sampled != result_.sampled.end());
    draw(entry, logits.values.last(static_cast<size_t>(vocabulary_size_)), *sampled);
  }
  return result_;
}

void HostSampler::draw(const BatchEntry& entry, std::span<const float> logits, SampledToken& sampled) {
  const SamplingParams& sampling = *entry.sampling;
  const LogSoftmax probabilities(logits);
  sampled = {.sequence = entry.sequence, .valid = probabilities.valid()};
  if (!sampled.valid) return;
  allowed_.clear();
  const auto filter = filters_.find(to_integer(entry.sequence));
  if (filter != filters_.end()) {
    allowed_.assign((logits.size() + 31) / 32, 0);
    filter->second->allow(allowed_);
  }
  logits_.assign(logits.begin(), logits.end());
  process_logits({.sampling = sampling,
                  .known_tokens = entry.known_tokens,
                  .prompt_token_count = entry.prompt_token_count,
                  .end_tokens = entry.end_tokens,
                  .allowed = allowed_},
                 logits_);
  const Draw drawn = draw_token(logits_, sampling, entry.context_token_count());
  sampled.valid = drawn.valid;  // not so when every token was banned
  if (!drawn.valid) return;
  sampled.token = drawn.token;
  sampled.logprob = probabilities.of(drawn.token);
  if (sampling.logprobs >= 0) sampled.top_logprobs = keep(probabilities.top(sampling.logprobs));
  if (filter != filters_.end()) filter->second->accept(drawn.token);
}

void HostSampler::tell_prompt(const BatchEntry& entry, const EntryLogits& logits) {
  const auto width = static_cast<size_t>(vocabulary_size_);
  for (int32_t p = entry.first_told_position(); p < entry.end_told_position(); ++p) {
    const auto row = static_cast<size_t>(p - entry.first_told_position());
    const LogSoftmax probabilities(logits.values.subspan(row * width, width));
    PromptLogprob told{.sequence = entry.sequence, .position = p};
    if (probabilities.valid()) {
      told.logprob = probabilities.of(entry.known_tokens[static_cast<size_t>(p)]);
      told.top_logprobs = keep(probabilities.top(entry.sampling->prompt_logprobs));
    }
    result_.prompt_logprobs.push_back(told);
  }
}

std::span<const TokenLogprob> HostSampler::keep(std::vector<TokenLogprob> top) {
  return top_.emplace_back(std::move(top));
}

}  // namespace inflight
