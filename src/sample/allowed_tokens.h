// SPDX-License-Identifier: Apache-2.0
// Which tokens may come, where that is a question of all tokens before: token filters (grammars), bad words, and
// min_tokens beside them.
#pragma once

#include <cstdint>
#include <span>

#include "core/batch_plan.h"
#include "core/token_filter.h"

namespace inflight {

// Of the output token behind the known ones. A filter that leaves nothing else is obeyed: a text that is complete ends
// before min_tokens.
// filter: null = any.   allowed: ceil(V / 32) words, set as TokenHistory::allowed.   ERRORS: those of the filter.
void find_allowed(const SamplingParams& sampling, const TokenHistory& history, int32_t prompt_token_count,
                  TokenFilter* filter, std::span<uint32_t> allowed);

}  // namespace inflight
