// SPDX-License-Identifier: Apache-2.0
// Guessing what follows by looking up the newest tokens among those before, and in a text that is expected.
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

// Appends to `guesses` at most `count` tokens: what followed the latest place, in `tokens` before their end or in
// `prediction`, at which the last n tokens stand, for the largest n within `lengths` that is found; of equals the
// prediction's. What is found in `tokens` and runs past their end goes on with the guesses, so that what repeats with a
// short period is continued. Appends nothing when nothing is found.   REQUIRES: tokens is not empty.
// COST: O((tokens + prediction) * lengths.most) at worst, O(tokens + prediction) as a rule.   THREAD: any.
void look_up_ngram(std::span<const TokenId> tokens, std::span<const TokenId> prediction, NgramLengths lengths,
                   int32_t count, std::vector<TokenId>& guesses);

}  // namespace inflight
