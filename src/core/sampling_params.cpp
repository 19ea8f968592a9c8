// SPDX-License-Identifier: Apache-2.0
#include "core/sampling_params.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {
namespace {

void require(bool ok, const char* name, double got, const char* allowed) {
  if (!ok) fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {}", name, got, allowed);
}

void require_size(size_t got, const char* name, size_t most) {
  if (got > most) fail(ErrorCode::InvalidArgument, "the number of {} is {}, allowed: at most {}", name, got, most);
}

bool within(float value, float low, float high) { return value >= low && value <= high; }

}  // namespace

void SamplingParams::validate() const {
  require(within(temperature, 0.0F, 100.0F), "temperature", double{temperature}, "0 to 100");
  require(top_k >= 0, "top_k", top_k, "0 (all) or more");
  require(top_p > 0.0F && top_p <= 1.0F, "top_p", double{top_p}, "more than 0, at most 1");
  require(within(min_p, 0.0F, 1.0F), "min_p", double{min_p}, "0 to 1");
  require(max_tokens >= 0, "max_tokens", max_tokens, "0 (none) or more");
  require_size(stop_token_ids.size(), "stop_token_ids", limits::kStopTokensMax);
  require(n >= 1 && n <= limits::kChoicesMax, "n", n, "1 to 128");
  require(best_of == 0 || (best_of >= n && best_of <= limits::kChoicesMax), "best_of", best_of,
          "0 (as n), or n to 128");
  require(typical_p > 0.0F && typical_p <= 1.0F, "typical_p", double{typical_p}, "more than 0, at most 1");
  require(repetition_penalty > 0.0F && repetition_penalty <= 10.0F, "repetition_penalty", double{repetition_penalty},
          "more than 0, at most 10");
  require(within(presence_penalty, -2.0F, 2.0F), "presence_penalty", double{presence_penalty}, "-2 to 2");
  require(within(frequency_penalty, -2.0F, 2.0F), "frequency_penalty", double{frequency_penalty}, "-2 to 2");
  require(within(dry_multiplier, 0.0F, 100.0F), "dry_multiplier", double{dry_multiplier}, "0 (off) to 100");
  require(within(dry_base, 1.0F, 100.0F), "dry_base", double{dry_base}, "1 to 100");
  require(dry_allowed_length >= 1, "dry_allowed_length", dry_allowed_length, "1 or more");
  require(dry_penalty_last_n >= -1, "dry_penalty_last_n", dry_penalty_last_n, "-1 (all) or more");
  require_size(dry_sequence_breakers.size(), "dry_sequence_breakers", limits::kDryBreakersMax);
  if (!std::ranges::is_sorted(dry_sequence_breakers)) {
    fail(ErrorCode::InvalidArgument, "dry_sequence_breakers are not in ascending order");
  }
  require_size(logit_bias.size(), "logit_bias entries", limits::kLogitBiasMax);
  for (const auto& [token, bias] : logit_bias) require(std::isfinite(bias), "a logit_bias", double{bias}, "finite");
  require(min_tokens >= 0 && min_tokens <= max_tokens, "min_tokens", min_tokens, "0 to max_tokens");
  require_size(bad_words.size(), "bad_words", 2 * limits::kBadWordsMax);  // spelt in two ways
  for (const auto& word : bad_words) {
    require(!word.empty() && word.size() <= limits::kBadWordTokensMax, "the number of tokens of a bad word",
            static_cast<double>(word.size()), "1 to 64");
  }
  require(logprobs >= -1 && logprobs <= limits::kLogprobsMax, "logprobs", logprobs, "-1 (none) to 20");
  require(prompt_logprobs >= -1 && prompt_logprobs <= limits::kLogprobsMax, "prompt_logprobs", prompt_logprobs,
          "-1 (none) to 20");
}

}  // namespace inflight
