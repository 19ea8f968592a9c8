// SPDX-License-Identifier: Apache-2.0
// What a client submits once.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "core/sampling_params.h"

namespace inflight {

inline constexpr TimeNs kNoDeadline = std::numeric_limits<TimeNs>::max();

// What a request asks of the prompt's final hidden states (those the output layer reads), instead of tokens.
// Discard: nothing, but that the prompt is computed.
enum class Pooling : uint8_t { None, Last, Mean, Discard };

struct Request {
  RequestId id{};
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  std::vector<TokenId> end_tokens;      // the model's own (eos, end of turn); obeyed unless sampling.ignore_eos
  TimeNs arrival = 0;                   // before tokenizing
  int32_t priority = 0;                 // lower = sooner
  uint32_t tenant = 0;                  // dense, in [0, limits::kTenantsMax)
  uint32_t adapter = 0;                 // which adapter (LoRA) it runs with; 0 = none. Stored prefixes are its own
  uint64_t cache_salt = 0;              // requests share stored prefixes only with requests of the same salt
  TimeNs ttft_deadline = kNoDeadline;   // absolute time by which the first token is wanted
  TimeNs e2e_deadline = kNoDeadline;    // absolute time by which the last token is wanted
  TimeNs itl_target = kNoDeadline;      // wanted gap between tokens
  int32_t predicted_output_tokens = 0;  // the client's guess of its output length; 0 = none
  std::vector<TokenId> prediction;      // what the client expects in the output: speculative decoding guesses from it
  Pooling pooling = Pooling::None;      // not None: nothing is generated
  bool has_token_filter = false;        // a TokenFilter says which tokens may come
  bool filter_sleeps = false;           // not from the first one on, but when it wakes

  // Of every output token the host says which it may be.
  [[nodiscard]] bool is_filtered_throughout() const {
    return (has_token_filter && !filter_sleeps) || !sampling.bad_words.empty();
  }
};

// Tokens of a prompt at most.   generates: a place is left for the first token of the answer.
[[nodiscard]] constexpr int32_t prompt_tokens_max(int32_t max_model_len, bool generates) {
  return max_model_len - (generates ? 1 : 0);
}

// Why a stream ended, in OpenAI's words (abort and error are ours).
enum class FinishReason : int32_t { None = 0, Stop = 1, Length = 2, Abort = 3, Error = 4 };

[[nodiscard]] const char* to_string(FinishReason reason);

}  // namespace inflight
