// SPDX-License-Identifier: Apache-2.0
// Speculative decoding: a decode carries guesses of what follows, looked up among the sequence's own tokens and in the
// text that its request expects, or made by a draft model when the plan is carried out. Their K and V are stored and
// their logits give a token each, in the same step. Guesses that are what was drawn are the sequence's next tokens;
// what was computed for the others is never read: their places are computed anew. Every token is drawn from the logits,
// and with the random number, that it would have without guesses, so the answers are the same, greedy or not. What is
// guessed follows from the requests that run, so that a recording can be replayed: it tells in whose tokens the host
// has a part. Sources: Leviathan et al. 2023 (verification), Saxena 2023 (prompt lookup), vLLM's method "ngram".
#include <algorithm>

#include "sched/ngram_lookup.h"
#include "sched/scheduler.h"

namespace inflight {

// With what the step has left when everything else is planned. Steps are not overlapped then (StepLoop): the newest
// token must be known.
void Scheduler::add_drafts() {
  const bool many = config_.disable_by_batch_size > 0 && running_count() > config_.disable_by_batch_size;
  if (many || submitted_count_ > 0) return;
  for (size_t i = 0; i < plan_.entries.size() && tokens_left_ > 0; ++i) {
    BatchEntry& entry = plan_.entries[i];
    Sequence& sequence = *scheduled_[i];
    const bool wakes = sequence.output_token_count() < sequence.filter_wakes_at;  // behind the guesses, perhaps
    if (entry.phase != Phase::Decode || entry.host_samples || wakes) continue;
    const int32_t before_limit = sequence.token_limit - 1 - static_cast<int32_t>(sequence.tokens.size());
    const int32_t most = std::min({sequence.draft_limit, tokens_left_, before_limit});
    sequence.guessed.assign(1, sequence.tokens.back());
    if (config_.draft_model) {
      sequence.guessed.resize(1 + static_cast<size_t>(std::max(most, 0)));  // places for them
    } else {
      look_up_ngram(sequence.tokens, sequence.request.prediction,
                    {config_.prompt_lookup_min, config_.prompt_lookup_max}, most, sequence.guessed);
    }
    const int32_t count = room_for_drafts(sequence, static_cast<int32_t>(sequence.guessed.size()) - 1);
    if (count <= 0) {
      sequence.guessed.clear();
      continue;
    }
    if (blocks_.has_local_slots()) hold_slots(sequence, sequence.computed_token_count + count);
    sequence.guessed.resize(static_cast<size_t>(count) + 1);
    entry.tokens = sequence.guessed;
    entry.draft_token_count = count;
    entry.scheduled_token_count += count;
    entry.block_table = sequence.block_table;
    planned_->work.prefill_tokens += count;
    planned_->work.prefill_pairs += attended_tokens(entry.computed_token_count + 1, count);
    tokens_left_ -= count;
    ++stats_.drafts;
    stats_.draft_tokens += count;
  }
}

// How many of the wanted guesses have a place; blocks are taken for them where there are any.
int32_t Scheduler::room_for_drafts(Sequence& sequence, int32_t wanted) {
  const int32_t missing =
      blocks_for(sequence.computed_token_count + wanted) - static_cast<int32_t>(sequence.block_table.size());
  if (missing <= 0 || blocks_.try_extend(sequence.block_table, missing)) return wanted;
  const auto held = static_cast<int32_t>(sequence.block_table.size());
  return held * blocks_.block_token_count() - sequence.computed_token_count;
}

void Scheduler::note_drafts(Sequence& sequence, const SampledToken& sampled) {
  const auto drafts = static_cast<int32_t>(sequence.guessed.size()) - 1;
  const auto accepted = static_cast<int32_t>(sampled.further.size());
  INFLIGHT_CHECK(accepted <= drafts);
  if (config_.adaptive_drafts) sequence.draft_limit = std::min(accepted + 1, config_.num_speculative_tokens);
  sequence.guessed.clear();
  sequence.draft_token_count += drafts;
  sequence.accepted_token_count += accepted;
  stats_.accepted_tokens += accepted;
}

}  // namespace inflight
