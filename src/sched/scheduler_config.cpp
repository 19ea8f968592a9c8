// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_config.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

namespace inflight {
namespace {

constexpr std::array<const char*, 4> kBatchingNames = {"continuous", "prefill_first", "dynamic", "static"};
constexpr std::array<const char*, 3> kPreemptNames = {"recompute", "swap", "auto"};
constexpr std::array<const char*, 5> kVictimNames = {"last_admitted", "lowest_priority", "fewest_output",
                                                     "most_freeable", "cheapest"};

template <typename Enum, size_t Count>
std::optional<Enum> parse(const std::array<const char*, Count>& names, std::string_view name) {
  for (size_t i = 0; i < Count; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <typename Number>
void require(const char* name, Number value, Number low, Number high) {
  if (!(value >= low && value <= high)) {
    fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {} to {}", name, value, low, high);
  }
}

}  // namespace

const char* to_string(BatchingMode mode) { return kBatchingNames[static_cast<size_t>(mode)]; }
std::optional<BatchingMode> parse_batching_mode(std::string_view name) {
  return parse<BatchingMode>(kBatchingNames, name);
}
const char* to_string(PreemptMode mode) { return kPreemptNames[static_cast<size_t>(mode)]; }
std::optional<PreemptMode> parse_preempt_mode(std::string_view name) { return parse<PreemptMode>(kPreemptNames, name); }

const char* to_string(VictimRule rule) { return kVictimNames[static_cast<size_t>(rule)]; }
std::optional<VictimRule> parse_victim_rule(std::string_view name) { return parse<VictimRule>(kVictimNames, name); }
std::string victim_rule_names() { return fmt::format("{}", fmt::join(kVictimNames, ", ")); }

int32_t SchedulerConfig::local_slots_needed(int32_t local_window, int32_t width) const {
  // Of a sequence: the blocks that its window touches, and those that the step's tokens, and guesses of it, touch.
  const int64_t seen = div_ceil(local_window - 1, width) + 1;
  const int64_t tokens = max_num_batched_tokens + int64_t{max_num_seqs} * num_speculative_tokens;
  return static_cast<int32_t>(max_num_seqs * (seen + 1) + div_ceil<int64_t>(tokens, width));
}

void SchedulerConfig::validate(int64_t longest) const {
  require("max_num_seqs", max_num_seqs, 1, limits::kSequencesMax);
  require("max_num_batched_tokens", max_num_batched_tokens, 1, limits::kBatchedTokensMax);
  require("max_prefill_tokens", max_prefill_tokens, 0, limits::kBatchedTokensMax);
  require("long_prefill_token_threshold", long_prefill_token_threshold, 0, limits::kBatchedTokensMax);
  require("max_num_partial_prefills", max_num_partial_prefills, 0, limits::kSequencesMax);
  if (max_requests < max_num_seqs || max_requests > limits::kRequestsMax) {
    fail(ErrorCode::InvalidArgument, "max_requests is {}, allowed: max_num_seqs ({}) to {}", max_requests, max_num_seqs,
         limits::kRequestsMax);
  }
  require("sliding_window", sliding_window, 0, limits::kContextTokensMax);
  require("local_share", local_share, 0.0, 1.0);
  require<int64_t>("max_model_len", max_model_len, 2, longest);
  require("max_batch_delay_ms", max_batch_delay_ms, 0.0, 3.6e6);
  require("schedule_conservativeness", schedule_conservativeness, 0.0, 10.0);
  require("host_kv_blocks", host_blocks, 0, limits::kBlocksMax);
  require("host_cache_blocks", host_cache_blocks, 0, limits::kBlocksMax - host_blocks);
  require("num_speculative_tokens", num_speculative_tokens, 0, limits::kDraftTokensMax);
  require("prompt_lookup_max", prompt_lookup_max, 1, limits::kDraftTokensMax);
  require("prompt_lookup_min", prompt_lookup_min, 1, prompt_lookup_max);
  require("disable_by_batch_size", disable_by_batch_size, 0, limits::kSequencesMax);
  require("priority_preemption_threshold", priority_preemption_threshold.value_or(0), 0,
          std::numeric_limits<int32_t>::max());
  require("max_loras", max_loras, 0, limits::kSequencesMax);
  require("kv_headroom", kv_headroom, 0.0, 0.99);
  if (max_num_batched_tokens < max_num_seqs) {
    fail(ErrorCode::InvalidArgument,
         "max_num_batched_tokens is {}, allowed: at least max_num_seqs ({}), so that every running sequence can decode",
         max_num_batched_tokens, max_num_seqs);
  }
}

void SchedulerConfig::warn_of_no_effect() const {
  if (preempt != PreemptMode::Recompute && host_blocks == 0) {
    log(LogLevel::Warning, "preempt is {}, but host_kv_blocks is 0: preempted sequences are computed again",
        to_string(preempt));
  }
}

}  // namespace inflight
