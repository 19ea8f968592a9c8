// SPDX-License-Identifier: Apache-2.0
// How evenly tenants were served while they competed. Only time in which every tenant has a request that waits counts:
// somebody who asks for less than a fair share gets less of it, and that is no unfairness. Service is what VTC counts:
// prompt tokens, when the request starts, and output tokens twice (Sheng et al., "Fairness in Serving Large Language
// Models", OSDI 2024); or, as DLPM counts (Cao et al., arXiv 2501.14312), of the prompt only what was not stored.
#pragma once

#include <cstdint>
#include <span>

namespace inflight {

struct RequestRecord;
struct Workload;

struct ServiceFairness {
  // Jain's index (Jain, Chiu and Hawe 1984) of the service that tenants got while all of them were backlogged:
  // (sum x)^2 / (n * sum x^2), 1 when equal, 1 / n when one got everything. 1 when they never all were.
  double index = 1.0;
  // The most by which the service of two tenants has differed since all of them became backlogged: what theorem 4.4 of
  // that paper bounds.
  double gap_max_tokens = 0.0;
  double backlogged_s = 0.0;  // how long all were; 0: the two above say nothing, as with one tenant
};

enum class PromptService : uint8_t { Whole, Computed };

// Of the tenants that `records` are of. Output tokens are taken as coming evenly between a request's first and last.
// COST: O(records * log(records) + events while all are backlogged * tenants).
[[nodiscard]] ServiceFairness service_fairness(std::span<const RequestRecord> records, const Workload& workload,
                                               PromptService prompts);

}  // namespace inflight
