// SPDX-License-Identifier: Apache-2.0
#include "sample/host_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "sample/allowed_tokens.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"

namespace inflight {

void HostSampler::set_filter(SequenceId sequence, std::unique_ptr<TokenFilter> filter) {
  (filter->is_awake() ? filters_ : sleeping_)[to_integer(sequence)] = std::move(filter);
}

void HostSampler::forget(SequenceId sequence) {
  filters_.erase(to_integer(sequence));
  sleeping_.erase(to_integer(sequence));
  pools_.erase(to_integer(sequence));
}

namespace {

// A grammar that takes too much to follow ends its own request only: whatever `ask` throws, which asks its filter, is
// told.   False: it threw.
template <typename Ask>
bool ask_filter(Ask&& ask) {
  try {
    ask();
    return true;
  } catch (const std::exception& error) {
    log(LogLevel::Warning, "a request ends: {}", error.what());
    return false;
  }
}

void end(SampledToken& sampled) { sampled = {.sequence = sampled.sequence, .valid = false, .filter_failed = true}; }

// In the place of one that gave up where tokens had come before in the same step: the next step says so.
class FailedFilter final : public TokenFilter {
 public:
  explicit FailedFilter(std::string why) : why_(std::move(why)) {}
  void allow(std::span<uint32_t>) override { throw Error(ErrorCode::InvalidArgument, why_); }
  void accept(TokenId) override {}
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<FailedFilter>(why_); }

 private:
  const std::string why_;
};

}  // namespace

TokenFilter* HostSampler::filter_of(SequenceId sequence) {
  const auto found = filters_.find(to_integer(sequence));
  return found == filters_.end() ? nullptr : found->second.get();
}

void HostSampler::submit(const BatchPlan& plan) {
  const bool filters = plan.read_before_next && std::ranges::any_of(plan.entries, &BatchEntry::filtered);
  const BatchPlan& submitted = filters ? with_allowed(plan) : plan;
  device_.submit(submitted);
  INFLIGHT_CHECK(count_ < wanted_.size());
  std::vector<BatchEntry>& wanted = wanted_[(first_ + count_++) % wanted_.size()];
  wanted.clear();
  if (!plan.read_before_next && plan.hidden_row_count == 0) return;
  for (const BatchEntry& entry : submitted.entries) {
    if (entry.hidden_wanted > 0) pools_.try_emplace(to_integer(entry.sequence));
    if (entry.needs_host() || entry.hidden_wanted > 0) wanted.push_back(entry);
  }
}

// One whose filter gives up is computed like others, and ends when its token has been read.
const BatchPlan& HostSampler::with_allowed(const BatchPlan& plan) {
  filtered_plan_ = plan;
  size_t row_count = 0;
  for (const BatchEntry& entry : plan.entries) {
    if (entry.filtered) row_count += 1 + static_cast<size_t>(entry.draft_token_count);
  }
  const size_t width = mask_words(vocabulary_size_);
  histories_.clear();
  histories_.reserve(plan.entries.size());  // entries point into it
  allowed_.resize(row_count * width);
  std::span<uint32_t> free = allowed_;
  for (BatchEntry& entry : filtered_plan_.entries) {
    if (!entry.filtered) continue;
    TokenHistory& history = histories_.emplace_back(*entry.history);
    entry.history = &history;
    TokenFilter* const filter = filter_of(entry.sequence);
    if (filter == nullptr && entry.sampling->bad_words.empty()) continue;  // it has gone to sleep again
    const auto masks = free.first((1 + static_cast<size_t>(entry.draft_token_count)) * width);
    free = free.subspan(masks.size());
    ask_filter([&] { history.allowed = masks.first(find_allowed(entry, filter, masks) * width); });
  }
  return filtered_plan_;
}

const StepResult& HostSampler::wait() {
  const StepResult& read = device_.wait();
  const std::vector<BatchEntry>& wanted = wanted_[first_];
  first_ = (first_ + 1) % wanted_.size();
  --count_;
  if (wanted.empty() && sleeping_.empty()) return read;
  result_ = read;
  top_.clear();
  forced_.clear();
  pooled_.clear();
  auto next_logits = read.logits.begin();
  auto next_hidden = read.hidden.begin();
  auto sampled = result_.sampled.begin();
  for (const BatchEntry& entry : wanted) {
    if (entry.hidden_wanted > 0) {
      INFLIGHT_CHECK(next_hidden != read.hidden.end());
      pool(entry, *next_hidden++);
    }
    if (entry.needs_host()) {
      sampled = std::ranges::find(sampled, result_.sampled.end(), entry.sequence, &SampledToken::sequence);
      INFLIGHT_CHECK(sampled != result_.sampled.end());
    }
    if (entry.host_samples) {
      INFLIGHT_CHECK(next_logits != read.logits.end());
      const EntryLogits& logits = *next_logits++;
      INFLIGHT_CHECK(logits.sequence == entry.sequence && std::ssize(logits.values) == vocabulary_size_);
      draw(entry, logits.values, *sampled);
    }
    if (entry.filtered) follow(entry, *sampled);
  }
  if (!sleeping_.empty()) std::ranges::for_each(result_.sampled, [this](SampledToken& token) { watch(token); });
  return result_;
}

// Tells the sequence's filter what came.
void HostSampler::follow(const BatchEntry& entry, SampledToken& sampled) {
  // Others were drawn without a mask: the filter gave up behind a guess.
  if (const size_t masks = entry.history->allowed.size() / mask_words(vocabulary_size_); masks > 0) {
    sampled.further = sampled.further.first(std::min(sampled.further.size(), masks - 1));
  }
  TokenFilter* const filter = filter_of(entry.sequence);
  if (filter == nullptr) return;
  if (entry.history->allowed.empty()) return end(sampled);  // it gave up
  if (!sampled.valid) return;
  FollowedFilter followed(filter, takes_forced(*entry.sampling));
  if (!ask_filter([&] { followed.accept(sampled.token); })) return end(sampled);
  std::vector<TokenLogprob> further;
  try {
    for (TokenLogprob one : sampled.further) {
      if (!followed.forced().empty()) one.logprob = 0.0F;  // as of one that was not guessed
      followed.accept(one.token);
      further.push_back(one);
    }
    if (const auto forced = followed.forced(); !forced.empty()) {
      sampled.forced = forced_.emplace_back(forced.begin(), forced.end());
    }
  } catch (const std::exception& error) {
    set_filter(entry.sequence, std::make_unique<FailedFilter>(error.what()));
  }
  if (!sampled.further.empty()) sampled.further = keep(std::move(further));
}

// Tells a filter that sleeps what came, whoever drew it. Guesses behind the one that wakes it are not taken.
void HostSampler::watch(SampledToken& sampled) {
  const auto found = sleeping_.find(to_integer(sampled.sequence));
  if (found == sleeping_.end() || !sampled.valid) return;
  TokenFilter& filter = *found->second;
  const bool seen = ask_filter([&] {
    sampled.filter_wakes = filter.see(sampled.token);
    size_t count = 0;
    while (count < sampled.further.size() && !sampled.filter_wakes) {
      sampled.filter_wakes = filter.see(sampled.further[count++].token);
    }
    sampled.further = sampled.further.first(count);
  });
  if (!seen) end(sampled);
  if (filter.is_awake()) filters_.insert(sleeping_.extract(found));
}

void HostSampler::draw(const BatchEntry& entry, std::span<const float> logits, SampledToken& sampled) {
  const SamplingParams& sampling = *entry.sampling;
  const LogSoftmax probabilities(logits);
  sampled = {.sequence = entry.sequence, .valid = probabilities.valid()};
  if (!sampled.valid) return;
  logits_.assign(logits.begin(), logits.end());
  process_logits({.sampling = sampling, .history = *entry.history, .prompt_token_count = entry.prompt_token_count},
                 logits_);
  const Draw drawn = draw_token(logits_, sampling, entry.context_token_count());
  sampled.valid = drawn.valid;  // not so when every token was banned
  if (!drawn.valid) return;
  sampled.token = drawn.token;
  sampled.logprob = probabilities.of(drawn.token);
  if (sampling.logprobs >= 0) sampled.top_logprobs = keep(probabilities.top(sampling.logprobs));
}

// The mean of all rows told of a prompt; of the last one alone, where only that was asked for.
void HostSampler::pool(const BatchEntry& entry, const EntryHidden& hidden) {
  INFLIGHT_CHECK(hidden.sequence == entry.sequence && hidden.row_count == entry.hidden_wanted);
  const auto found = pools_.find(to_integer(entry.sequence));
  if (found == pools_.end()) return;  // it has ended while its step was under way
  Pool& pool = found->second;
  const size_t width = hidden.values.size() / static_cast<size_t>(hidden.row_count);
  if (entry.computed_token_count == 0 || pool.sum.empty()) {  // from the beginning, perhaps after a preemption
    pool.sum.assign(width, 0.0);
    pool.row_count = 0;
  }
  for (size_t i = 0; i < hidden.values.size(); ++i) pool.sum[i % width] += double{hidden.values[i]};
  pool.row_count += hidden.row_count;
  if (entry.context_token_count() < entry.prompt_token_count) return;
  std::vector<float>& mean = pooled_.emplace_back(width);
  for (size_t i = 0; i < width; ++i) mean[i] = static_cast<float>(pool.sum[i] / pool.row_count);
  result_.pooled.push_back({entry.sequence, mean});
  pools_.erase(found);
}

std::span<const TokenLogprob> HostSampler::keep(std::vector<TokenLogprob> top) {
  return top_.emplace_back(std::move(top));
}

}  // namespace inflight
