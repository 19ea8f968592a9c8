// SPDX-License-Identifier: Apache-2.0
#include "support/token_executor.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"
#include "support/oracle_executor.h"

namespace inflight::test {

std::span<TokenId> TokenExecutor::block(BlockId id) {
  return std::span(slots_).subspan(static_cast<size_t>(to_integer(id) * width_), static_cast<size_t>(width_));
}

void TokenExecutor::move_blocks(const BatchPlan& plan) {
  for (const SwapCopy& copy : plan.swap_out) {
    const std::span<TokenId> from = block(copy.device);
    host_blocks_[copy.host].assign(from.begin(), from.end());
  }
  for (const SwapCopy& copy : plan.swap_in) std::ranges::copy(host_blocks_.at(copy.host), block(copy.device).begin());
  for (const BlockCopy& copy : plan.copies) std::ranges::copy(block(copy.from), block(copy.to).begin());
}

void TokenExecutor::submit(const BatchPlan& plan) {
  submitting = true;
  paused.wait(true);
  if (failing) fail(ErrorCode::Device, "the device is gone");
  move_blocks(plan);
  for (const BatchEntry& entry : plan.entries) {
    for (int32_t i = 0; i < entry.scheduled_token_count; ++i) {
      const auto k = static_cast<size_t>(i);
      slot(entry, entry.computed_token_count + i) =
          k < entry.tokens.size() ? entry.tokens[k] : row_tokens_[static_cast<size_t>(entry.row)];
    }
  }
  const auto swapped = static_cast<TimeNs>(plan.swap_out.size() + plan.swap_in.size());
  const auto logprob_of = [](TokenId token) { return -0.5F - 0.01F * static_cast<float>(token); };
  Done done{.result = {.step = plan.step, .duration = step_time, .swap_duration = swapped * kSwapTime},
            .logits = {},
            .further = {}};
  for (const BatchEntry& entry : plan.entries) {
    for (int32_t i = 0; i < entry.prompt_logprobs_wanted; ++i) {
      const int32_t position = entry.first_told_position() + i;
      const LogSoftmax probabilities(done.logits.emplace_back(oracle_logits(prefix(entry, position), kVocabulary)));
      done.result.prompt_logprobs.push_back(
          {.sequence = entry.sequence,
           .position = position,
           .logprob = probabilities.of(entry.history->known_tokens[static_cast<size_t>(position)]),
           .top_logprobs = done.further.emplace_back(probabilities.top(entry.sampling->prompt_logprobs))});
    }
    if (entry.host_samples) {
      const std::vector<float>& row =
          done.logits.emplace_back(oracle_logits(prefix(entry, entry.context_token_count()), kVocabulary));
      done.result.logits.push_back({.sequence = entry.sequence, .values = row});
    }
    if (!entry.samples) continue;
    const auto token_at = [&](int32_t position) {
      const std::vector<TokenId> tokens = prefix(entry, position);
      const bool changes = entry.sampling->changes_logits(position - entry.prompt_token_count);
      if (entry.history == nullptr || !(changes || entry.filtered)) {
        return oracle_next_token(tokens, kVocabulary, entry.sampling->seed);
      }
      return draw_changed(entry, tokens);
    };
    std::vector<TokenLogprob>& top = done.further.emplace_back();
    const auto drawn_at = [&](int32_t position) {
      const TokenId token = token_at(position);
      if (token < 0 || entry.sampling->logprobs <= 0) return TokenLogprob{token, logprob_of(token)};
      const std::vector<float> logits = oracle_logits(prefix(entry, position), kVocabulary);
      const LogSoftmax probabilities(logits);
      for (const TokenLogprob& one : probabilities.top(entry.sampling->logprobs)) top.push_back(one);
      return TokenLogprob{token, probabilities.of(token)};
    };
    const TokenLogprob next = entry.host_samples ? TokenLogprob{-1} : drawn_at(entry.sampled_position());
    const size_t width = top.size();
    std::vector<TokenLogprob>& further = done.further.emplace_back();
    verify_drafts(entry.drafts(), next.token, further,
                  [&](size_t i) { return drawn_at(entry.sampled_position() + 1 + static_cast<int32_t>(i)); });
    row_tokens_[static_cast<size_t>(entry.row)] = next.token;
    done.result.sampled.push_back({.sequence = entry.sequence,
                                   .token = next.token,
                                   .logprob = next.logprob,
                                   .valid = entry.host_samples || next.token >= 0,
                                   .top_logprobs = std::span(top).first(width),
                                   .further = further,
                                   .further_top_logprobs = std::span(top).subspan(width)});
  }
  done_.push_back(std::move(done));
}

std::vector<TokenId> TokenExecutor::prefix(const BatchEntry& entry, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(slot(entry, i));
  return tokens;
}

// The counts that came with the entry are those of the tokens that the host knows, which come first.
TokenId TokenExecutor::draw_changed(const BatchEntry& entry, std::span<const TokenId> tokens) {
  const auto prompt = static_cast<size_t>(entry.prompt_token_count);
  const bool with_prompt = entry.sampling->repetition_penalty != 1.0F;
  INFLIGHT_CHECK(std::ranges::equal(entry.history->known_tokens, tokens.first(entry.history->known_tokens.size())));
  TokenCounts counts(prompt, with_prompt);
  if (entry.sampling->penalises()) {
    counts.advance(entry.history->known_tokens);
    INFLIGHT_CHECK(std::ranges::equal(counts.tokens(), entry.history->counts->tokens()));
    INFLIGHT_CHECK(std::ranges::equal(counts.counts(), entry.history->counts->counts()));
    counts.advance(tokens);
  }
  std::vector<float> logits = oracle_logits(tokens, kVocabulary);
  const int32_t guesses = static_cast<int32_t>(tokens.size()) - entry.sampled_position();
  const TokenHistory history{.known_tokens = tokens,
                             .end_tokens = entry.history->end_tokens,
                             .counts = &counts,
                             .allowed = entry.history->mask(guesses, kVocabulary)};
  process_logits({.sampling = *entry.sampling, .history = history, .prompt_token_count = entry.prompt_token_count},
                 logits);
  const Draw draw = draw_token(logits, *entry.sampling, static_cast<int32_t>(tokens.size()));
  return draw.valid ? draw.token : -1;
}

std::vector<float> oracle_logits(std::span<const TokenId> tokens, int32_t vocabulary_size) {
  uint64_t seed = 99;
  for (const TokenId token : tokens) seed = seed * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(token) + 1;
  Rng rng(seed);
  std::vector<float> logits;
  for (int32_t i = 0; i < vocabulary_size; ++i) logits.push_back(static_cast<float>(8.0 * rng.uniform() - 4.0));
  return logits;
}

const StepResult& TokenExecutor::wait() {
  current_ = std::move(done_.front());
  done_.pop_front();
  if (clock != nullptr) clock->advance(step_time);
  return current_.result;
}

TokenId& TokenExecutor::slot(const BatchEntry& entry, int32_t position) {
  const auto block = to_integer(entry.block_table[static_cast<size_t>(position / width_)]);
  return slots_[static_cast<size_t>(block * width_ + position % width_)];
}

}  // namespace inflight::test
