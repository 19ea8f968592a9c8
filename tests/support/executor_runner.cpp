// SPDX-License-Identifier: Apache-2.0
#include "support/executor_runner.h"

#include <span>

#include "base/error.h"

namespace inflight::test {

namespace {

void add_history(BatchEntry& entry, RunnerSequence& sequence) {
  if (!sequence.sampling.changes_logits(0) && sequence.allowed.empty()) return;
  if (!sequence.counts) sequence.counts.emplace(static_cast<size_t>(sequence.prompt_token_count), true);
  sequence.counts->advance(sequence.tokens);
  sequence.masks = masks_of(sequence, 0);
  sequence.history = {
      .known_tokens = sequence.tokens, .end_tokens = {}, .counts = &*sequence.counts, .allowed = sequence.masks};
  entry.filtered = !sequence.allowed.empty();
  entry.history = &sequence.history;
  entry.prompt_token_count = sequence.prompt_token_count;
}

}  // namespace

std::vector<uint32_t> masks_of(const RunnerSequence& sequence, int32_t guesses) {
  const size_t width = sequence.allowed.size();
  std::vector<uint32_t> masks;
  for (size_t position = sequence.tokens.size(); position <= sequence.tokens.size() + static_cast<size_t>(guesses);
       ++position) {
    for (size_t i = 0; i < width; ++i) masks.push_back(sequence.allowed[(i + position) % width]);
  }
  return masks;
}

BatchEntry entry_of(RunnerSequence& sequence, int32_t count) {
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
  if (entry.samples) add_history(entry, sequence);
  return entry;
}

void add_entry(BatchPlan& plan, RunnerSequence& sequence, int32_t count) {
  plan.entries.push_back(entry_of(sequence, count));
  plan.scheduled_token_count += count;
  plan.sampled_row_count += plan.entries.back().samples ? 1 : 0;
}

void add_entry_behind(BatchPlan& plan, RunnerSequence& sequence) {
  BatchEntry& entry = plan.entries.emplace_back();
  entry.sequence = sequence.id;
  entry.row = sequence.row;
  entry.adapter = sequence.adapter;
  entry.computed_token_count = static_cast<int32_t>(sequence.tokens.size());
  entry.scheduled_token_count = 1;
  entry.input_on_device = entry.samples = true;
  entry.phase = Phase::Decode;
  entry.block_table = sequence.blocks;
  entry.sampling = &sequence.sampling;
  add_history(entry, sequence);
  ++plan.scheduled_token_count;
  ++plan.sampled_row_count;
}

}  // namespace inflight::test
