// SPDX-License-Identifier: Apache-2.0
#include "sched/ngram_lookup.h"

#include <algorithm>

namespace inflight {
namespace {

struct Run {
  size_t length = 0;
  size_t end = 0;  // index behind it, within the text
};

// The latest of the longest runs in `text`, its last token left out, with which `tokens` ends.
Run find_run(std::span<const TokenId> text, std::span<const TokenId> tokens, int32_t most) {
  Run best;
  const auto limit = std::min(static_cast<size_t>(most), tokens.size());
  for (size_t end = text.empty() ? 0 : text.size() - 1; end > 0 && best.length < limit; --end) {
    size_t length = 0;
    while (length < limit && length < end && text[end - 1 - length] == tokens[tokens.size() - 1 - length]) ++length;
    if (length > best.length) best = {length, end};
  }
  return best;
}

}  // namespace

void look_up_ngram(std::span<const TokenId> tokens, std::span<const TokenId> prediction, NgramLengths lengths,
                   int32_t count, std::vector<TokenId>& guesses) {
  const Run expected = find_run(prediction, tokens, lengths.most);
  Run own;
  if (expected.length < static_cast<size_t>(lengths.most)) own = find_run(tokens, tokens, lengths.most);
  if (std::max(expected.length, own.length) < static_cast<size_t>(lengths.least)) return;
  if (expected.length >= own.length) {
    const auto next = prediction.subspan(expected.end);
    const auto end = next.begin() + std::min(static_cast<std::ptrdiff_t>(count), std::ssize(next));
    guesses.insert(guesses.end(), next.begin(), end);
    return;
  }
  const size_t period = tokens.size() - own.end, begin = guesses.size();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    guesses.push_back(i < period ? tokens[own.end + i] : guesses[begin + i - period]);
  }
}

}  // namespace inflight
