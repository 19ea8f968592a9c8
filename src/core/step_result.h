// SPDX-License-Identifier: Apache-2.0
// What a step brought back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace inflight {

struct SampledToken {
  SequenceId sequence{};
  TokenId token = 0;     // meaningful when valid
  float logprob = 0.0F;  // natural log of the token's probability under the unmodified logits
  bool valid = true;     // false: the logits held a NaN or no finite value; the request ends with `error`
};

struct StepResult {
  uint64_t step = 0;                  // the plan's
  std::vector<SampledToken> sampled;  // one for each plan entry with `samples`, in the plan's order
  TimeNs duration = 0;                // from submit to finished, as the executor measured or modelled it
};

}  // namespace inflight
