// SPDX-License-Identifier: Apache-2.0
// The scheduler's knobs. Names are vLLM's where vLLM has the knob, else SGLang's; docs/TUNING.md explains each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/limits.h"
#include "core/attended_tokens.h"

namespace inflight {

// When sequences may join a batch.
enum class BatchingMode : uint8_t {
  Continuous,    // at every step: decodes first, prompts fill the rest of the budget (vLLM, Sarathi-Serve)
  PrefillFirst,  // prompts before decodes; a step carries one kind unless enable_mixed_chunk (SGLang)
  Dynamic,       // when max_num_seqs wait or the oldest has waited max_batch_delay_ms, then as Static (Triton)
  // When nobody runs; the batch stays as it is until its longest member ends. Members whose prompts exceed the budgets
  // of its first step start in the next ones.
  Static,
};
[[nodiscard]] const char* to_string(BatchingMode mode);  // "prefill_first"
[[nodiscard]] std::optional<BatchingMode> parse_batching_mode(std::string_view name);

// What happens to the KV of a preempted sequence.
enum class PreemptMode : uint8_t {
  Recompute,  // dropped and computed again
  Swap,       // copied to host memory and back; recompute when the host has no room
  Auto,       // whichever the latency model says is cheaper for this victim
};
[[nodiscard]] const char* to_string(PreemptMode mode);
[[nodiscard]] std::optional<PreemptMode> parse_preempt_mode(std::string_view name);

// Which running sequence gives its blocks back when the policy has no opinion. Never the oldest running one.
enum class VictimRule : uint8_t {
  LastAdmitted,    // vLLM
  LowestPriority,  // then the last admitted (vLLM and SGLang with priorities)
  FewestOutput,    // then the longest prompt (SGLang)
  MostFreeable,    // most blocks that would really come back: shared ones do not
  Cheapest,        // least time to bring back for each block that comes back, by the latency model
};
[[nodiscard]] const char* to_string(VictimRule rule);
[[nodiscard]] std::optional<VictimRule> parse_victim_rule(std::string_view name);
[[nodiscard]] std::string victim_rule_names();  // "last_admitted, lowest_priority, ..."

struct SchedulerConfig {
  int32_t max_num_seqs = 64;                 // sequences running at once, 1..limits::kSequencesMax
  int32_t max_num_batched_tokens = 512;      // token budget of a step, >= max_num_seqs
  int32_t max_prefill_tokens = 0;            // prompt tokens of a step; 0 = the token budget alone
  int32_t long_prefill_token_threshold = 0;  // most tokens of one prompt in one step; 0 = the budgets alone
  int32_t max_num_partial_prefills = 0;      // prompts in progress at the end of a step; 0 = no limit of its own
  int32_t max_model_len = 0;                 // tokens of a sequence, prompt and output; >= 2
  int32_t max_requests = 65536;              // waiting and running, max_num_seqs..limits::kRequestsMax
  int32_t sliding_window = 0;                // the model's (ModelSpec): blocks behind it are given back; 0 = none
  double local_share = 0.0;                  // the model's: of its KV heads, that see KvBlocks' local_window
  // The model's (ModelSpec): a sequence has a state besides its blocks, which only computing its tokens gives.
  bool has_state = false;
  int32_t kept_states = 0;  // of those, how many are kept behind stored prefixes; 0: a prefix is computed again

  BatchingMode batching = BatchingMode::Continuous;
  bool enable_mixed_chunk = false;  // PrefillFirst: decodes ride along with prompts
  double max_batch_delay_ms = 5.0;  // Dynamic: most that the oldest waiting sequence is made to wait

  // Room that admission keeps for what running sequences may still produce: the new-token ratio starts at
  // 0.7 * conservativeness (SGLang); 0 = none, whoever fits now is admitted (vLLM).
  double schedule_conservativeness = 0.0;
  double kv_headroom = 0.0;  // share of the blocks that admission leaves free while anybody runs, [0, 1)

  PreemptMode preempt = PreemptMode::Recompute;
  VictimRule preempt_victim = VictimRule::LastAdmitted;
  int32_t host_blocks = 0;  // KV blocks in host memory for swapping; 0 = never swap
  // KV blocks in host memory, behind those for swapping, for prefixes that were evicted from the device; 0 = none.
  int32_t host_cache_blocks = 0;
  // Speculative decoding (vLLM's speculative_config): tokens guessed ahead for one sequence at most,
  // 0..limits::kDraftTokensMax; 0 = none. Method "ngram" looks the newest tokens up among those before.
  int32_t num_speculative_tokens = 0;
  bool draft_model = false;       // method "draft_model": the plan says how many, sample/DraftProposer guesses them
  bool adaptive_drafts = true;    // at most one more than were right the last time; false: always that many (vLLM)
  int32_t prompt_lookup_min = 2;  // how many of the newest tokens are looked up: the longest run that is found counts
  int32_t prompt_lookup_max = 5;
  int32_t disable_by_batch_size = 0;  // no guesses while more sequences than this run; 0 = always
  int32_t max_loras = 0;              // distinct adapters (Request::adapter) running at once; 0 = no limit
  // A waiting sequence whose priority is better than a running one's by more than this takes its place; off when
  // absent.
  std::optional<int32_t> priority_preemption_threshold;

  // Local slots (cache/local_slots.h) that all running sequences hold at most, when a plan is made.
  // local_window: ModelSpec's.   width: tokens of a block.
  [[nodiscard]] int32_t local_slots_needed(int32_t local_window, int32_t width) const;
  [[nodiscard]] AttentionWindows windows(int32_t local_window) const {
    return {.sliding_window = sliding_window, .local_window = local_window, .local_share = local_share};
  }

  // `longest`: tokens that a sequence may have by what the KV storage holds and the model can; max_model_len may not
  // exceed it.
  // ERRORS: InvalidArgument naming the field, the value and the range.
  void validate(int64_t longest) const;

  // Logs a warning for each field that another one leaves without effect.
  void warn_of_no_effect() const;
};

}  // namespace inflight
