// SPDX-License-Identifier: Apache-2.0
// How one request's tokens are drawn and when it ends. Names are vLLM's SamplingParams.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace inflight {

struct SamplingParams {
  float temperature = 0.0F;  // >= 0; 0 = greedy (the largest logit, the lowest id among equals)
  int32_t top_k = 0;         // keep the k most likely; 0 = all
  float top_p = 1.0F;        // (0, 1]: keep the smallest set of most likely tokens whose probabilities reach top_p
  float min_p = 0.0F;        // [0, 1]: drop tokens less likely than min_p times the most likely one
  uint64_t seed = 0;         // equal seeds draw equal tokens at equal positions
  int32_t max_tokens = 16;   // >= 1: output tokens at most
  bool ignore_eos = false;   // do not end at the model's end tokens
  std::vector<TokenId> stop_token_ids;  // end also at these

  // ERRORS: InvalidArgument naming the field, the value and the range.
  void validate() const;
};

}  // namespace inflight
