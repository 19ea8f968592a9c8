// SPDX-License-Identifier: Apache-2.0
// /inflight/simulate: the simulator for the page /widget, within bounds.
#pragma once

#include <string>

namespace inflight::server {

// An object with options of `inflight sim` as keys, to what `inflight sim --json` prints. No files (traces, profiles,
// policies are those that ship), at most 1,000 requests of at most 16,384 tokens, 2,000,000 in all, 5 seconds.
// ERRORS: ApiError 400 naming the key.   COST: up to these seconds.   THREAD: any.
[[nodiscard]] std::string simulate_answer(const std::string& body);

}  // namespace inflight::server
