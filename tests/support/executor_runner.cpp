// SPDX-License-Identifier: Apache-2.0
#include "support/executor_runner.h"

#include <span>

#include "base/error.h"

namespace inflight::test {

BatchEntry entry_of(const RunnerSequence& sequence, int32_t count) {
  const auto total = static_cast<int32_t>(sequence.tokens.size());
  INFLIGHT_CHECK(count >= 1 && sequence.computed + count <= total);
  BatchEntry entry;
  entry.sequence = sequence.id;
  entry.row = sequence.row;
  entry.adapter = sequence.adapter;
  entry.computed_token_count = sequence.computed;
  entry.scheduled_token_count = count;
  entry.tokens = std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.computed), static_cast<size_t>(count));
  entry.samples = sequence.computed + count == total;
  entry.phase = entry.samples && count == 1 ? Phase::Decode : Phase::Prefill;
  entry.block_table = sequence.blocks;
  entry.sampling = entry.samples ? &sequence.sampling : nullptr;
  return entry;
}

void add_entry(BatchPlan& plan, const RunnerSequence& sequence, int32_t count) {
  plan.entries.push_back(entry_of(sequence, count));
  plan.scheduled_token_count += count;
  plan.sampled_row_count += plan.entries.back().samples ? 1 : 0;
}

}  // namespace inflight::test
