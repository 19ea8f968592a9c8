// SPDX-License-Identifier: Apache-2.0
#include "support/scheduler_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace inflight::test {

std::vector<TokenId> random_prompt(int32_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) token = rng.between(0, 63);
  return tokens;
}

Expected expected_output(const RequestOptions& options, const WorldOptions& world, int32_t choice) {
  const uint64_t seed = choice_seed(options.seed, choice);
  Expected expected;
  std::vector<TokenId> tokens = options.prompt;
  while (expected.finish == FinishReason::None) {
    const TokenId token = oracle_next_token(tokens, world.vocabulary_size, seed);
    tokens.push_back(token);
    expected.output.push_back(token);
    const auto count = static_cast<int32_t>(expected.output.size());
    if (std::ranges::find(options.end_tokens, token) != options.end_tokens.end()) {
      expected.finish = FinishReason::Stop;
    } else if (count == options.max_tokens || static_cast<int32_t>(tokens.size()) == world.config.max_model_len) {
      expected.finish = FinishReason::Length;
    }
  }
  return expected;
}

SchedulerWorld::SchedulerWorld(const WorldOptions& options, SchedulePolicy* policy, EvictPolicy* evict_policy)
    : options_(options),
      blocks_(options.blocks, evict_policy != nullptr ? *evict_policy : lru_),
      scheduler_(options.config, blocks_, policy != nullptr ? *policy : fcfs_),
      executor_(
          {.block_count = options.blocks.block_count,
           .host_block_count = options.config.host_blocks + options.config.host_cache_blocks,
           .block_token_count = options.blocks.block_token_count,
           .row_count = options.config.max_num_seqs,
           .token_budget = options.config.max_num_batched_tokens,
           .draft_tokens = options.config.num_speculative_tokens,
           .vocabulary_size = options.vocabulary_size,
           .sliding_window = options.config.sliding_window,
           .local_window = options.blocks.local_window,
           .local_slots = options.blocks.local_slots,
           .has_state = options.config.has_state,
           .kept_states = options.config.kept_states},
          [this](SequenceId id) -> SequenceTruth& { return records_.at(key_of_sequence_.at(id)).truth; }, &clock_),
      loop_(scheduler_, executor_, clock_, options.overlap) {}

uint64_t SchedulerWorld::add(const RequestOptions& options) {
  const uint64_t id = next_request_++;
  Request request;
  request.id = static_cast<RequestId>(id);
  request.prompt = options.prompt;
  request.sampling.max_tokens = options.max_tokens;
  request.end_tokens = options.end_tokens;
  request.arrival = clock_.now();
  request.cache_salt = options.salt;
  request.adapter = options.adapter;
  request.priority = options.priority;
  request.tenant = options.tenant;
  if (options.ttft_deadline != 0) request.ttft_deadline = options.ttft_deadline;
  if (options.e2e_deadline != 0) request.e2e_deadline = options.e2e_deadline;
  if (options.itl_target != 0) request.itl_target = options.itl_target;
  request.predicted_output_tokens = options.predicted_output_tokens;
  request.sampling.n = options.n;
  request.sampling.seed = options.seed;
  if (options.host_draws) request.sampling.typical_p = 0.5F;
  request.has_token_filter = options.filtered;
  request.sampling.prompt_logprobs = options.prompt_logprobs ? 2 : -1;
  for (int32_t slot = scheduler_.add(std::move(request), clock_.now()); slot >= 0;
       slot = scheduler_.sequence(slot).next_choice_slot) {
    const Sequence& sequence = scheduler_.sequence(slot);
    const uint64_t key = key_of(id, sequence.choice);
    records_[key] = {.options = options,
                     .truth = {options.salt * 1000 + options.adapter, options.prompt},
                     .output = {},
                     .choice = sequence.choice};
    key_of_sequence_[sequence.id] = key;
  }
  return id;
}

void SchedulerWorld::cancel(uint64_t request) {
  std::vector<uint64_t> live;
  for (int32_t choice = 0; records_.contains(key_of(request, choice)); ++choice) {
    if (record(request, choice).finish == FinishReason::None) live.push_back(key_of(request, choice));
  }
  const bool here = scheduler_.cancel(static_cast<RequestId>(request), FinishReason::Abort, clock_.now());
  INFLIGHT_CHECK(here == !live.empty());
  for (const uint64_t key : live) records_.at(key).cancelled = true;
  take_output();
}

SchedulerWorld::Record& SchedulerWorld::record_of_slot(int32_t slot) {
  const Sequence& sequence = scheduler_.sequence(slot);
  return records_.at(key_of(to_integer(sequence.request.id), sequence.choice));
}

void SchedulerWorld::take_output() {
  const SchedulerOutput& output = scheduler_.output();
  for (const PreemptedOutput& preempted : output.preempted) {
    ++records_.at(key_of_sequence_.at(preempted.sequence)).preemptions;
  }
  for (const PromptLogprobOutput& told : output.prompt_logprobs) {
    Record& record = record_of_slot(told.slot);
    INFLIGHT_CHECK(record.options.prompt_logprobs && record.choice == 0 && record.output.empty());
    INFLIGHT_CHECK(told.position == ++record.told_prompt_tokens);
    INFLIGHT_CHECK(told.logprob == -static_cast<float>(told.position) && told.top_count == 2);
  }
  for (const TokenOutput& token : output.tokens) {
    Record& record = record_of_slot(token.slot);
    INFLIGHT_CHECK(record.finish == FinishReason::None);
    INFLIGHT_CHECK(token.top_count == (record.options.host_draws || record.options.filtered ? 2 : 0));
    if (record.output.empty()) {
      record.first_token_step = now_step();
      record.first_token_time = clock_.now();
    }
    record.output.push_back(token.token);
  }
  for (const FinishedOutput& finished : output.finished) {
    Record& record = record_of_slot(finished.slot);
    INFLIGHT_CHECK(record.finish == FinishReason::None);
    record.finish = finished.reason;
    record.finish_step = now_step();
    const Expected expected = expected_output(record.options, options_, record.choice);
    if (record.cancelled) {
      INFLIGHT_CHECK(finished.reason == FinishReason::Abort);
      INFLIGHT_CHECK(std::ranges::equal(record.output, std::span(expected.output).first(record.output.size())));
    } else if (finished.cause == FinishCause::RejectedByPolicy) {
      INFLIGHT_CHECK(finished.reason == FinishReason::Error && record.output.empty());
    } else {
      INFLIGHT_CHECK(record.output == expected.output);
      INFLIGHT_CHECK(record.finish == expected.finish);
      const auto prompt_count = static_cast<int32_t>(record.options.prompt.size());
      const bool tells = record.options.prompt_logprobs && record.choice == 0;
      INFLIGHT_CHECK(record.told_prompt_tokens == (tells ? prompt_count - 1 : 0));
    }
  }
  scheduler_.output().clear();
}

std::string SchedulerWorld::last_plan_text() const {
  std::string text;
  for (const BatchEntry& entry : last_plan().entries) {
    const uint64_t key = key_of_sequence_.at(entry.sequence);
    const uint64_t choice = key >> 32;
    text += fmt::format("{}{}{}:{}+{}", text.empty() ? "" : " ", key & 0xffffffff,
                        choice == 0 ? "" : fmt::format(".{}", choice), entry.computed_token_count,
                        entry.scheduled_token_count);
  }
  return text;
}

bool SchedulerWorld::step() {
  executor_.forget_last_plan();
  bool busy = loop_.step();
  take_output();
  if (!busy && scheduler_.wake_time()) {  // virtual time passes until something is to be done
    clock_.advance(*scheduler_.wake_time() - clock_.now());
    busy = loop_.step();
    take_output();
  }
  return busy;
}

int64_t SchedulerWorld::run(int64_t steps_max) {
  const int64_t begin = now_step();
  for (int64_t i = 0; i < steps_max; ++i) {
    if (!step() && scheduler_.idle()) return now_step() - begin;
  }
  ADD_FAILURE() << "not idle after " << steps_max << " steps: " << scheduler_.waiting_count() << " waiting, "
                << scheduler_.running_count() << " running";
  return now_step() - begin;
}

}  // namespace inflight::test
