// SPDX-License-Identifier: Apache-2.0
#include "sample/allowed_tokens.h"

#include <algorithm>
#include <vector>

namespace inflight {
namespace {

std::vector<TokenId> unwanted_tokens(const SamplingParams& sampling, const TokenHistory& history,
                                     int32_t prompt_token_count) {
  std::vector<TokenId> tokens;
  const auto output = history.known_tokens.subspan(static_cast<size_t>(prompt_token_count));
  sampling.ban_early_ends(static_cast<int32_t>(output.size()), history.end_tokens,
                          [&](TokenId token) { tokens.push_back(token); });
  for (const auto& word : sampling.bad_words) {
    const size_t before = word.size() - 1;
    if (before > output.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, output.end() - static_cast<std::ptrdiff_t>(before))) {
      tokens.push_back(word.back());
    }
  }
  return tokens;
}

}  // namespace

void find_allowed(const SamplingParams& sampling, const TokenHistory& history, int32_t prompt_token_count,
                  TokenFilter* filter, std::span<uint32_t> allowed) {
  std::ranges::fill(allowed, ~0U);
  if (filter != nullptr) filter->allow(allowed);
  const std::vector<TokenId> unwanted = unwanted_tokens(sampling, history, prompt_token_count);
  if (unwanted.empty()) return;
  std::vector<uint32_t> left(allowed.begin(), allowed.end());
  for (const TokenId token : unwanted) {
    if (token < 0 || static_cast<size_t>(token) / 32 >= left.size()) continue;
    left[static_cast<size_t>(token) / 32] &= ~(1U << static_cast<uint32_t>(token) % 32);
  }
  const bool nothing = std::ranges::all_of(left, [](uint32_t word) { return word == 0; });
  if (filter == nullptr || !nothing) std::ranges::copy(left, allowed.begin());
}

}  // namespace inflight
