// SPDX-License-Identifier: Apache-2.0
// What a step brought back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace inflight {

// A token that could have come at a position.
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;
};

struct SampledToken {
  SequenceId sequence{};
  TokenId token = 0;           // meaningful when valid
  float logprob = 0.0F;        // natural log of the token's probability under the unmodified logits
  bool valid = true;           // false: the logits held a NaN or no finite value; the request ends with `error`
  bool filter_failed = false;  // not valid because its token filter gave up
  bool filter_wakes = false;   // its last token wakes its filter: the next one is drawn freely (TokenFilter::see())
  std::span<const TokenLogprob> top_logprobs = {};  // where wanted: most likely first. LIFETIME: as the result's
  // With guesses (BatchEntry::draft_token_count): what follows it, one token for each guess, from the first on, that
  // was what was drawn. LIFETIME: as the result's
  std::span<const TokenLogprob> further = {};
  std::span<const TokenLogprob> further_top_logprobs = {};  // of each of `further`, as many as of the first token
  // What must follow these, by a grammar: known without computing it. Made by the host. LIFETIME: as the result's
  std::span<const TokenId> forced = {};
};

// Verifies guesses: `last` is the token drawn before the first of them. draw(i) gives what was drawn behind guess i, a
// TokenLogprob; asked for in order, while the guesses are right. What it gave is appended to `further`.
template <typename Draw>
void verify_drafts(std::span<const TokenId> drafts, TokenId last, std::vector<TokenLogprob>& further, Draw&& draw) {
  for (size_t i = 0; i < drafts.size() && drafts[i] == last; ++i) last = further.emplace_back(draw(i)).token;
}

// The unmodified logits that an entry's token is drawn from.   LIFETIME: as the result's.
struct EntryLogits {
  SequenceId sequence{};
  std::span<const float> values;  // [V]
};

// What the output layer reads, of some of an entry's tokens: normed, not yet multiplied.   LIFETIME: as the result's.
struct EntryHidden {
  SequenceId sequence{};
  int32_t row_count = 0;
  std::span<const float> values;  // [row_count, E] row-major
};

// A prompt's hidden states as one vector: their mean, or the last one.   LIFETIME: as the result's.
struct PooledHidden {
  SequenceId sequence{};
  std::span<const float> values;  // [E]
};

// How likely a prompt token was after those before it.   LIFETIME of the span: as the result's.
struct PromptLogprob {
  SequenceId sequence{};
  int32_t position = 0;  // of the token, >= 1
  float logprob = 0.0F;  // 0 and none below where the logits held a NaN or no finite value
  std::span<const TokenLogprob> top_logprobs = {};
};

struct StepResult {
  uint64_t step = 0;                           // the plan's
  std::vector<SampledToken> sampled;           // one for each plan entry with `samples`, in the plan's order
  TimeNs duration = 0;                         // from submit to finished, as the executor measured or modelled it
  TimeNs swap_duration = 0;                    // of this, copying blocks to and from host memory; 0: none, or not known
  std::vector<EntryLogits> logits;             // one for each plan entry with `host_samples`, in the plan's order
  std::vector<EntryHidden> hidden;             // one for each plan entry with `hidden_wanted` > 0, in the plan's order
  std::vector<PromptLogprob> prompt_logprobs;  // one for each wanted, in the plan's order
  std::vector<PooledHidden> pooled;            // made by the host from `hidden`, at the end of each prompt
};

}  // namespace inflight
