// SPDX-License-Identifier: Apache-2.0
// Logits to the next token on the host: the twin of cl_kernels/sampling.cl, which states the rule. For requests whose
// logits need host work (grammars, DRY, typical_p, bad_words). Same arithmetic in the same order: the same token and
// the same bits of log probabilities as on the device.   THREAD: any.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "core/sampling_params.h"

namespace inflight {

struct Draw {
  TokenId token = 0;
  bool valid = true;  // false: the logits hold a NaN, +infinity, or no finite value
};

// position: tokens before the drawn one; equal (seed, position) draw equal tokens.   REQUIRES: logits is not empty.
// COST: one pass over V for greedy, otherwise up to about 10 passes over V and a table of 8 V bytes.
[[nodiscard]] Draw draw_token(std::span<const float> logits, const SamplingParams& sampling, int32_t position);

// Sum of exp(logit - largest), in float, in the kernels' order.   REQUIRES: largest is finite and that of the logits.
[[nodiscard]] float exp_sum(std::span<const float> logits, float largest);

// exp(x) for x <= 0, bit for bit as cl_kernels/prelude.cl computes it.
[[nodiscard]] float exp_nonpositive(float x);

}  // namespace inflight
