// SPDX-License-Identifier: Apache-2.0
// How one request's tokens are drawn and when it ends. Names are vLLM's SamplingParams; typical_p and dry_* are
// llama.cpp's. The order in which they act on the logits is that of sample/logits_processor.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace inflight {

struct SamplingParams {
  float temperature = 0.0F;  // >= 0; 0 = greedy (the largest logit, the lowest id among equals)
  int32_t top_k = 0;         // keep the k most likely; 0 = all
  float top_p = 1.0F;        // (0, 1]: keep the smallest set of most likely tokens whose probabilities reach top_p
  float min_p = 0.0F;        // [0, 1]: drop tokens less likely than min_p times the most likely one
  uint64_t seed = 0;         // equal seeds draw equal tokens at equal positions
  int32_t max_tokens = 16;   // output tokens at most; 0: the prompt alone
  bool ignore_eos = false;   // do not end at the model's end tokens
  std::vector<TokenId> stop_token_ids;  // end also at these

  int32_t n = 1;        // answers to the prompt, 1..limits::kChoicesMax; answer k > 0 draws with choice_seed(seed, k)
  int32_t best_of = 0;  // 0 = n; else >= n: so many are generated, the n of the highest mean logprob are given

  // What follows changes the logits: bad_words and what changes_logits() tells of on the device; on the host (sample/)
  // all of it, where needs_logits().
  float typical_p = 1.0F;           // (0, 1]: locally typical sampling (Meister et al. 2022); 1 = off
  float repetition_penalty = 1.0F;  // (0, 10]: of tokens in prompt or output (Keskar et al. 2019, CTRL); 1 = off
  float presence_penalty = 0.0F;    // [-2, 2]: once for each token that was output
  float frequency_penalty = 0.0F;   // [-2, 2]: for each time it was output
  // DRY: a token that would continue a repetition of length l >= dry_allowed_length loses
  // dry_multiplier * dry_base^(l - dry_allowed_length).
  float dry_multiplier = 0.0F;  // 0 = off
  float dry_base = 1.75F;       // >= 1
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;                    // tokens looked back on; -1 = all
  std::vector<TokenId> dry_sequence_breakers;         // repetitions end at these, which are never penalised; ascending
  std::vector<std::pair<TokenId, float>> logit_bias;  // added; -100 bans and 100 forces in practice (OpenAI)
  int32_t min_tokens = 0;                             // no end or stop token before so many output tokens
  std::vector<std::vector<TokenId>> bad_words;        // token runs that are never completed
  int32_t logprobs = -1;         // report the most likely tokens of each position: how many, 0..20; -1 = none
  int32_t prompt_logprobs = -1;  // the same for the prompt's tokens

  // ERRORS: InvalidArgument naming the field, the value and the range.
  void validate() const;

  // The host draws the output tokens.
  [[nodiscard]] bool needs_logits() const { return typical_p < 1.0F || dry_multiplier > 0.0F; }
  // The logits of output token `output_token_count` are changed in ways that the device can, too.
  [[nodiscard]] bool changes_logits(int32_t output_token_count) const {
    return penalises() || !logit_bias.empty() || output_token_count < min_tokens;
  }
  // They depend on the tokens that there were (TokenCounts).
  [[nodiscard]] bool penalises() const {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F;
  }
  // Tokens that may not come as output token `output_token_count`, by min_tokens, are handed to ban(token).
  template <typename Ban>
  void ban_early_ends(int32_t output_token_count, std::span<const TokenId> end_tokens, Ban&& ban) const {
    if (output_token_count >= min_tokens) return;
    std::ranges::for_each(stop_token_ids, ban);
    if (!ignore_eos) std::ranges::for_each(end_tokens, ban);
  }
  // Sequences that the request runs as.
  [[nodiscard]] int32_t choice_count() const { return best_of > n ? best_of : n; }
};

// The seed of answer `choice`; answer 0 is what the request gives with n = 1.
[[nodiscard]] constexpr uint64_t choice_seed(uint64_t seed, int32_t choice) {
  return seed + static_cast<uint64_t>(choice) * 0x9E3779B97F4A7C15ULL;
}

}  // namespace inflight
