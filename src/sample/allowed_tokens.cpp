// SPDX-License-Identifier: Apache-2.0
#include "sample/allowed_tokens.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "base/error.h"

namespace inflight {
namespace {

std::vector<TokenId> unwanted_tokens(const BatchEntry& entry, std::span<const TokenId> output) {
  std::vector<TokenId> tokens;
  entry.sampling->ban_early_ends(static_cast<int32_t>(output.size()), entry.history->end_tokens,
                                 [&](TokenId token) { tokens.push_back(token); });
  for (const auto& word : entry.sampling->bad_words) {
    const size_t before = word.size() - 1;
    if (before > output.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, output.end() - static_cast<std::ptrdiff_t>(before))) {
      tokens.push_back(word.back());
    }
  }
  return tokens;
}

// Of the token behind `output`.
void find_mask(const BatchEntry& entry, std::span<const TokenId> output, FollowedFilter& filter,
               std::span<uint32_t> mask) {
  filter.allow(mask);
  const std::vector<TokenId> unwanted = unwanted_tokens(entry, output);
  if (unwanted.empty()) return;
  std::vector<uint32_t> left(mask.begin(), mask.end());
  for (const TokenId token : unwanted) {
    if (token < 0 || static_cast<size_t>(token) / 32 >= left.size()) continue;
    left[static_cast<size_t>(token) / 32] &= ~(1U << static_cast<uint32_t>(token) % 32);
  }
  const bool nothing = std::ranges::all_of(left, [](uint32_t word) { return word == 0; });
  if (filter.any() || !nothing) std::ranges::copy(left, mask.begin());
}

bool may_come(TokenId token, std::span<const uint32_t> mask) {
  return (mask[static_cast<size_t>(token) / 32] >> static_cast<uint32_t>(token) % 32 & 1U) != 0;
}

}  // namespace

void FollowedFilter::allow(std::span<uint32_t> allowed) {
  if (any()) {
    std::ranges::fill(allowed, ~0U);
    return;
  }
  if (forced().empty()) return filter_->allow(allowed);
  std::ranges::fill(allowed, 0U);
  const auto token = static_cast<uint32_t>(forced().front());
  allowed[token / 32] = 1U << token % 32;
}

void FollowedFilter::accept(TokenId token) {
  if (any()) return;
  if (!forced().empty()) {
    INFLIGHT_CHECK(token == forced().front());
    ++next_;
    return;
  }
  filter_->accept(token);
  next_ = 0;
  if (takes_forced_) forced_ = filter_->take_forced();
}

bool takes_forced(const SamplingParams& sampling) { return sampling.logprobs < 0 && sampling.best_of <= sampling.n; }

size_t find_allowed(const BatchEntry& entry, TokenFilter* filter, std::span<uint32_t> allowed) {
  const std::span<const TokenId> guesses = entry.drafts();
  const size_t width = allowed.size() / (1 + guesses.size());
  const std::span<const TokenId> known =
      entry.history->known_tokens.subspan(static_cast<size_t>(entry.prompt_token_count));
  const std::unique_ptr<TokenFilter> ahead = filter != nullptr && !guesses.empty() ? filter->ahead() : nullptr;
  FollowedFilter followed(ahead ? ahead.get() : filter, takes_forced(*entry.sampling));
  find_mask(entry, known, followed, allowed.first(width));
  if (guesses.empty()) return 1;
  std::vector<TokenId> output(known.begin(), known.end());
  size_t found = 1;
  try {
    for (; found <= guesses.size(); ++found) {
      const TokenId guess = guesses[found - 1];
      if (!may_come(guess, allowed.subspan((found - 1) * width, width))) break;
      followed.accept(guess);
      output.push_back(guess);
      find_mask(entry, output, followed, allowed.subspan(found * width, width));
    }
  } catch (const std::exception&) {  // if the guesses before are right, the next step will say so
  }
  return found;
}

}  // namespace inflight
