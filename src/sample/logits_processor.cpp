// SPDX-License-Identifier: Apache-2.0
#include "sample/logits_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "sample/sampler.h"

namespace inflight {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// The logits with ids checked: options may name tokens that the model does not have.
class Logits {
 public:
  explicit Logits(std::span<float> values) : values_(values) {}
  // A finite logit stays finite: an infinite one would be a ban, or leave no distribution.
  template <typename Function>
  void change(TokenId token, Function&& function) {
    if (!has(token)) return;
    float& value = values_[static_cast<size_t>(token)];
    if (!std::isfinite(value)) return;
    value = std::clamp(function(value), std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
  void ban(TokenId token) {
    if (has(token)) values_[static_cast<size_t>(token)] = kBanned;
  }

 private:
  [[nodiscard]] bool has(TokenId token) const { return token >= 0 && static_cast<size_t>(token) < values_.size(); }
  std::span<float> values_;
};

// A word at a time: of a large vocabulary few words are mixed.
void ban_all_but(std::span<const uint32_t> allowed, std::span<float> values) {
  for (size_t first = 0; first < values.size(); first += 32) {
    const uint32_t word = allowed[first / 32];
    const size_t end = std::min(first + 32, values.size());
    if (word == ~0U) continue;
    for (size_t token = first; token < end; ++token) {
      if ((word >> (token - first) & 1U) == 0) values[token] = kBanned;
    }
  }
}

void ban_what_may_not_come(const LogitsContext& context, std::span<float> values) {
  if (!context.history.allowed.empty()) return ban_all_but(context.history.allowed, values);
  Logits logits(values);
  const auto known = static_cast<int32_t>(context.history.known_tokens.size());
  context.sampling.ban_early_ends(known - context.prompt_token_count, context.history.end_tokens,
                                  [&](TokenId token) { logits.ban(token); });
}

void penalise_presence(const SamplingParams& sampling, const TokenCounts& counts, Logits& logits) {
  for (size_t i = 0; i < counts.tokens().size(); ++i) {
    logits.change(counts.tokens()[i], [&, count = counts.counts()[i]](float logit) {
      logit *= logit > 0.0F ? 1.0F / sampling.repetition_penalty : sampling.repetition_penalty;
      if (count > 0) logit -= sampling.presence_penalty + sampling.frequency_penalty * static_cast<float>(count);
      return logit;
    });
  }
}

void penalise_repetitions(const LogitsContext& context, Logits& logits) {
  const SamplingParams& sampling = context.sampling;
  auto tokens = context.history.known_tokens;
  if (sampling.dry_penalty_last_n >= 0) {
    tokens = tokens.last(std::min(tokens.size(), static_cast<size_t>(sampling.dry_penalty_last_n)));
  }
  std::unordered_map<TokenId, int32_t> longest;
  for (const auto& [token, length] : repetitions(tokens, sampling.dry_sequence_breakers)) {
    longest[token] = std::max(longest[token], length);
  }
  for (const auto& [token, length] : longest) {
    if (length < sampling.dry_allowed_length) continue;
    const double penalty = double{sampling.dry_multiplier} *
                           std::pow(double{sampling.dry_base}, double(length - sampling.dry_allowed_length));
    logits.change(token, [&](float logit) { return logit - static_cast<float>(std::min(penalty, 1e30)); });
  }
}

void keep_typical(float typical_p, std::span<float> logits) {
  const LogSoftmax probabilities(logits);
  if (!probabilities.valid()) return;
  double entropy = 0.0;
  std::vector<double> surprise(logits.size());  // distance of a token's information from the mean
  for (size_t i = 0; i < logits.size(); ++i) {
    surprise[i] = -double{probabilities.of(static_cast<TokenId>(i))};
    if (logits[i] != kBanned) entropy += surprise[i] * std::exp(-surprise[i]);
  }
  // A heap: of a large vocabulary few tokens are kept.
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto comes_later = [&](size_t a, size_t b) {
    return std::pair(std::abs(surprise[a] - entropy), a) > std::pair(std::abs(surprise[b] - entropy), b);
  };
  std::ranges::make_heap(order, comes_later);
  for (double mass = 0.0; mass < double{typical_p} && !order.empty(); order.pop_back()) {
    std::ranges::pop_heap(order, comes_later);
    mass += std::exp(-surprise[order.back()]);
  }
  for (const size_t i : order) logits[i] = kBanned;
}

}  // namespace

// Z-algorithm over the reversed tokens: z[j] = how many of the last tokens end at tokens[n - 1 - j] too.
std::vector<std::pair<TokenId, int32_t>> repetitions(std::span<const TokenId> tokens,
                                                     std::span<const TokenId> breakers) {
  std::vector<std::pair<TokenId, int32_t>> result;
  const size_t n = tokens.size();
  size_t limit = 0;  // tokens since the last breaker: no repetition is longer
  while (limit < n && !std::ranges::binary_search(breakers, tokens[n - 1 - limit])) ++limit;
  const auto reversed = [&](size_t i) { return tokens[n - 1 - i]; };
  std::vector<size_t> z(n, 0);
  size_t left = 0, right = 0;
  for (size_t j = 1; j < n; ++j) {
    size_t length = j < right ? std::min(right - j, z[j - left]) : 0;
    while (j + length < n && reversed(length) == reversed(j + length)) ++length;
    z[j] = length;
    if (j + length > right) {
      left = j;
      right = j + length;
    }
    const TokenId next = reversed(j - 1);
    const size_t repeated = std::ranges::binary_search(breakers, next) ? 0 : std::min(length, limit);
    if (repeated > 0) result.emplace_back(next, static_cast<int32_t>(repeated));
  }
  return result;
}

void process_logits(const LogitsContext& context, std::span<float> values) {
  const SamplingParams& sampling = context.sampling;
  Logits logits(values);
  ban_what_may_not_come(context, values);
  for (const auto& [token, bias] : sampling.logit_bias) {
    logits.change(token, [bias = bias](float logit) { return logit + bias; });
  }
  if (sampling.penalises()) penalise_presence(sampling, *context.history.counts, logits);
  if (sampling.dry_multiplier > 0.0F) penalise_repetitions(context, logits);
  if (sampling.typical_p < 1.0F) keep_typical(sampling.typical_p, values);
}

LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  if (std::ranges::any_of(logits, [](float v) { return std::isnan(v); })) return;
  const float largest = logits.empty() ? kBanned : *std::ranges::max_element(logits);
  if (!std::isfinite(largest)) return;
  largest_ = double{largest};
  log_sum_ = std::log(double{exp_sum(logits, largest)});
  valid_ = true;
}

float LogSoftmax::of(TokenId token) const {
  return static_cast<float>(double{logits_[static_cast<size_t>(token)]} - largest_ - log_sum_);
}

std::vector<TokenLogprob> LogSoftmax::top(int32_t count) const {
  std::vector<TokenId> order(logits_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(static_cast<std::ptrdiff_t>(count), std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [this](TokenId a, TokenId b) {
    const float x = logits_[static_cast<size_t>(a)], y = logits_[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  std::vector<TokenLogprob> result;
  for (auto it = order.begin(); it != end; ++it) result.push_back({*it, of(*it)});
  return result;
}

}  // namespace inflight
