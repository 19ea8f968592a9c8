// SPDX-License-Identifier: Apache-2.0
#include "sched/ngram_lookup.h"

#include <algorithm>

namespace inflight {

void look_up_ngram(std::span<const TokenId> tokens, NgramLengths lengths, int32_t count,
                   std::vector<TokenId>& guesses) {
  const size_t size = tokens.size();
  size_t best = 0, best_end = 0;  // length of the longest run found, and the index behind it
  const auto most = std::min(static_cast<size_t>(lengths.most), size);
  for (size_t end = size - 1; end > 0 && count > 0 && best < most; --end) {
    size_t length = 0;
    while (length < most && length < end && tokens[end - 1 - length] == tokens[size - 1 - length]) ++length;
    if (length > best) {
      best = length;
      best_end = end;
    }
  }
  if (best < static_cast<size_t>(lengths.least)) return;
  const size_t period = size - best_end, begin = guesses.size();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    guesses.push_back(i < period ? tokens[best_end + i] : guesses[begin + i - period]);
  }
}

}  // namespace inflight
