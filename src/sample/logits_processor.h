// SPDX-License-Identifier: Apache-2.0
// What a request's options do to the logits before a token is drawn, in this order (where these are 1 to 4 alone, the
// device does it: cl_kernels/sampling_item.cl):
//   1. token filter (grammar), bad words, min_tokens: banned tokens get minus infinity (sample/allowed_tokens.h)
//   2. logit_bias                         added
//   3. repetition_penalty                 positive logits times 1 / it, negative times it (Keskar et al. 2019, CTRL)
//   4. presence and frequency penalties   subtracted (OpenAI)
//   5. DRY                                subtracted (text-generation-webui #5677)
//   6. typical_p                          tokens outside the locally typical set are banned (Meister et al. 2022)
// Temperature, min_p, top_k and top_p follow in the sampler, as for every request. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch_plan.h"
#include "core/step_result.h"

namespace inflight {

// What the processing looks at besides the logits.
struct LogitsContext {
  const SamplingParams& sampling;
  const TokenHistory& history;
  int32_t prompt_token_count = 0;
};

// MODIFIES: logits [V]; ids beyond V in the options are ignored.   COST: O(V + known tokens * log breakers); typical_p:
// O(V + kept tokens * log V).
void process_logits(const LogitsContext& context, std::span<float> logits);

// Natural logs of probabilities under the logits as they are, with the bits that the device gives.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);
  // False: there is a NaN or plus infinity, or nothing finite is left to draw from.
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] float of(TokenId token) const;
  // The `count` most likely tokens, likeliest first, the lower id among equals.
  [[nodiscard]] std::vector<TokenLogprob> top(int32_t count) const;

 private:
  std::span<const float> logits_;
  double largest_ = 0.0;
  double log_sum_ = 0.0;  // of exp(logit - largest)
  bool valid_ = false;
};

// For DRY: by token, how long a repetition it would continue; pairs (token, length), a token may occur more than once.
// breakers: ascending.   COST: O(tokens * log breakers), whatever repeats.
[[nodiscard]] std::vector<std::pair<TokenId, int32_t>> repetitions(std::span<const TokenId> tokens,
                                                                   std::span<const TokenId> breakers);

}  // namespace inflight
