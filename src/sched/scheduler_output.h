// SPDX-License-Identifier: Apache-2.0
// What a scheduler tells its owner: tokens and ends of requests step by step, and totals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "core/request.h"
#include "core/step_result.h"
#include "sched/trace.h"

namespace inflight {

struct TokenOutput {
  int32_t slot = 0;
  TokenId token = 0;
  float logprob = 0.0F;
  // SchedulerOutput::top_logprobs [first, first + count)
  int32_t top_first = 0;
  int32_t top_count = 0;
  bool ends = false;  // its FinishedOutput is here too
};

struct PromptLogprobOutput {
  int32_t slot = 0;
  int32_t position = 0;
  float logprob = 0.0F;
  int32_t top_first = 0;
  int32_t top_count = 0;
};

struct EmbeddingOutput {
  int32_t slot = 0;
  std::vector<float> values;
};

// Why a sequence ended with FinishReason::Error.
enum class FinishCause : uint8_t { None, NoFiniteLogits, RejectedByPolicy, FilterFailed };
[[nodiscard]] const char* to_string(FinishCause cause);  // one phrase for the client

struct FinishedOutput {
  RequestId request{};
  int32_t slot = 0;
  FinishReason reason = FinishReason::None;
  FinishCause cause = FinishCause::None;
  SequenceId sequence{};
  bool stopped_by_token = false;  // its last token is an end or stop token
};

struct PreemptedOutput {
  RequestId request{};
  SequenceId sequence{};
  int32_t lost_tokens = 0;     // computed tokens given up (swapped out: copied to host memory)
  int32_t swapped_blocks = 0;  // 0: recompute
  int32_t blocks_used_before = 0;
  int32_t blocks_used_after = 0;
  bool for_another = false;  // its place goes to a request that was chosen to have it; else KV blocks had run out
};

// What plan(), commit() and cancel() have produced since it was last cleared. Tokens of a request come before its end.
struct SchedulerOutput {
  std::vector<TokenOutput> tokens;
  std::vector<PromptLogprobOutput> prompt_logprobs;  // by position, each once
  std::vector<TokenLogprob> top_logprobs;
  std::vector<EmbeddingOutput> embeddings;
  std::vector<FinishedOutput> finished;
  std::vector<PreemptedOutput> preempted;
  void clear() {
    tokens.clear();
    prompt_logprobs.clear();
    top_logprobs.clear();
    embeddings.clear();
    finished.clear();
    preempted.clear();
  }
};

// Totals since the start. A request counts as many times as it has choices.
struct SchedulerStats {
  int64_t steps = 0;
  int64_t requests_added = 0;
  int64_t requests_finished = 0;  // by stop or length
  int64_t requests_aborted = 0;
  int64_t requests_failed = 0;
  int64_t prompt_tokens = 0;  // of admitted requests
  int64_t cached_tokens = 0;  // of these, found stored
  int64_t output_tokens = 0;
  int64_t forced_tokens = 0;    // of these, known without drawing them: a grammar left no choice
  int64_t drafts = 0;           // times that tokens of a sequence were guessed (speculative decoding)
  int64_t draft_tokens = 0;     // tokens guessed
  int64_t accepted_tokens = 0;  // of these, what was drawn
  int64_t scheduled_tokens = 0;
  int64_t preemptions = 0;
  int64_t preemptions_for_others = 0;  // of these, not for want of blocks: somebody more important took the place
  int64_t recomputed_tokens = 0;
  int64_t swapped_out_blocks = 0;
  int64_t swapped_in_blocks = 0;
  int64_t offloaded_blocks = 0;    // evicted prefixes copied to the host
  int64_t restored_blocks = 0;     // and back
  int64_t host_cached_tokens = 0;  // of cached_tokens, those that were copied back
  int64_t thrashing_steps = 0;     // steps planned while the recompute tax was too high
  // (query, key) pairs, a layer and head: n(n+1)/2 for a prompt of n, however chunked (fewer with a window)
  int64_t attended_tokens = 0;
  int64_t slot_steps = 0;          // steps * max_num_seqs
  int64_t used_slot_steps = 0;     // of these, sequences that were computed
  int64_t backlog_slot_steps = 0;  // the same two over the steps at whose end somebody still waited
  int64_t backlog_used_slot_steps = 0;
  std::array<int64_t, kAdmissionResultCount> admissions{};       // by AdmissionResult
  std::array<int64_t, kAdmissionResultCount> admission_steps{};  // steps that had any
};

}  // namespace inflight
