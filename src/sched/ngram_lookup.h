// SPDX-License-Identifier: Apache-2.0
// Guessing what follows by looking up the newest tokens among those before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace inflight {

struct NgramLengths {
  int32_t least = 1;
  int32_t most = 1;  // >= least
};

// Appends to `guesses` at most `count` tokens: what followed the latest place before at which the last n tokens stand,
// for the largest n within `lengths` that is found; where that runs past the end it goes on with the guesses, so that
// what repeats with a short period is continued. Appends nothing when nothing is found. COST: O(tokens * lengths.most)
// at worst, O(tokens) as a rule.   THREAD: any.
void look_up_ngram(std::span<const TokenId> tokens, NgramLengths lengths, int32_t count, std::vector<TokenId>& guesses);

}  // namespace inflight
