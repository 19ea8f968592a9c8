// SPDX-License-Identifier: Apache-2.0
#include "support/token_executor.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
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
    if (entry.logits_wanted > 0) {
      std::vector<float>& rows = done.logits.emplace_back();
      const int32_t first = entry.context_token_count() - entry.logits_wanted;
      for (int32_t i = first; i < entry.context_token_count(); ++i) {
        const auto row = oracle_logits(prefix(entry, i + 1), kVocabulary);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      done.result.logits.push_back(
          {.sequence = entry.sequence, .first_position = first, .row_count = entry.logits_wanted, .values = rows});
    }
    if (!entry.samples) continue;
    const auto token_at = [&](int32_t position) {
      return oracle_next_token(prefix(entry, position), kVocabulary, entry.sampling->seed);
    };
    const TokenId next = entry.host_samples ? -1 : token_at(entry.sampled_position());
    std::vector<TokenLogprob>& further = done.further.emplace_back();
    verify_drafts(entry.drafts(), next, further, [&](size_t i) {
      const TokenId token = token_at(entry.sampled_position() + 1 + static_cast<int32_t>(i));
      return TokenLogprob{token, logprob_of(token)};
    });
    row_tokens_[static_cast<size_t>(entry.row)] = next;
    done.result.sampled.push_back(
        {.sequence = entry.sequence, .token = next, .logprob = logprob_of(next), .valid = true, .further = further});
  }
  done_.push_back(std::move(done));
}

std::vector<TokenId> TokenExecutor::prefix(const BatchEntry& entry, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(slot(entry, i));
  return tokens;
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
