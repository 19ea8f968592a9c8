// SPDX-License-Identifier: Apache-2.0
#include "engine/output_stream.h"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

namespace inflight {

OutputStream::OutputStream(RequestId request, int32_t prompt_token_count, int32_t n, int32_t best_of, EndRule ends)
    : request_(request), n_(n), ends_(std::move(ends)), choices_(static_cast<size_t>(std::max(n, best_of))) {
  unfinished_ = static_cast<int32_t>(choices_.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].pending.index = static_cast<int32_t>(i);
    choices_[i].pending.prompt_token_count = prompt_token_count;
  }
}

void OutputStream::release() {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

bool OutputStream::push_token(int32_t choice, TokenId token, float logprob, std::span<const TokenLogprob> top,
                              bool ends, const ChoiceProgress& progress) {
  bool goes_on = true;
  {
    const std::scoped_lock lock(mutex_);
    const bool had_news = has_news();
    Choice& to = choices_[static_cast<size_t>(choice)];
    if (to.ended_by_rule) return false;
    to.pending.tokens.push_back(token);
    to.pending.logprobs.push_back(logprob);
    if (!top.empty()) to.pending.top_logprobs.push_back({logprob, {top.begin(), top.end()}});
    to.logprob_sum += double{logprob};
    to.ended_by_rule = !ends && ends_ && ends_(choice, token);
    to.ending = ends || to.ended_by_rule;
    ++to.pending.output_token_count;
    to.pending.progress = progress;
    goes_on = !to.ended_by_rule;
    tell(had_news);
  }
  arrived_.notify_one();
  return goes_on;
}

void OutputStream::push_prompt_logprob(float logprob, std::span<const TokenLogprob> top) {
  {
    const std::scoped_lock lock(mutex_);
    const bool had_news = has_news();
    choices_[0].pending.prompt_logprobs.push_back({logprob, {top.begin(), top.end()}});
    tell(had_news);
  }
  arrived_.notify_one();
}

void OutputStream::set_embedding(std::vector<float> values) {
  const std::scoped_lock lock(mutex_);
  choices_[0].pending.embedding = std::move(values);
}

void OutputStream::set_cached(int32_t choice, int32_t cached_token_count) {
  const std::scoped_lock lock(mutex_);
  choices_[static_cast<size_t>(choice)].pending.cached_token_count = cached_token_count;
}

bool OutputStream::push_finish(int32_t choice, const Finish& finish) {
  bool last = false;
  {
    const std::scoped_lock lock(mutex_);
    const bool had_news = has_news();
    finish_choice(choices_[static_cast<size_t>(choice)], finish);
    last = unfinished_ == 0;
    tell(had_news);
  }
  arrived_.notify_one();
  return last;
}

void OutputStream::push_finish_to_all(const Finish& finish) {
  {
    const std::scoped_lock lock(mutex_);
    const bool had_news = has_news();
    for (size_t i = 0; unfinished_ > 0; ++i) {
      if (choices_[i].pending.finish == FinishReason::None) finish_choice(choices_[i], finish);
    }
    tell(had_news);
  }
  arrived_.notify_one();
}

// Whatever ended it meanwhile: a choice that its EndRule has ended ends by that.
void OutputStream::finish_choice(Choice& choice, const Finish& finish) {
  StreamBatch& pending = choice.pending;
  pending.error = finish.error;
  pending.error_code = finish.error_code;
  pending.stop_token = choice.ended_by_rule ? std::nullopt : finish.stop_token;
  pending.progress = finish.progress;
  pending.finish = choice.ended_by_rule ? FinishReason::Stop : finish.reason;
  choice.ending = false;
  if (--unfinished_ == 0 && choices_.size() > static_cast<size_t>(n_)) keep_the_best();
}

void OutputStream::keep_the_best() {
  std::vector<PositionLogprobs> prompt = std::move(choices_[0].pending.prompt_logprobs);
  // Whole answers before those that were cut off, and these before those that have nothing.
  const auto worth = [](const Choice& choice) {
    const StreamBatch& pending = choice.pending;
    const bool whole = pending.finish == FinishReason::Stop || pending.finish == FinishReason::Length;
    const int32_t count = pending.output_token_count;
    return std::tuple(whole, count > 0, count > 0 ? choice.logprob_sum / count : 0.0);
  };
  // Of the prompt; choices that share what another one of them computed did not find it stored.
  const int32_t cached = std::ranges::min(
      choices_ | std::views::transform([](const Choice& choice) { return choice.pending.cached_token_count; }));
  std::ranges::stable_sort(choices_, std::ranges::greater{}, worth);
  choices_.resize(static_cast<size_t>(n_));
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].pending.index = static_cast<int32_t>(i);
    choices_[i].pending.cached_token_count = cached;
  }
  choices_[0].pending.prompt_logprobs = std::move(prompt);
}

bool OutputStream::has_news() const {
  if (unfinished_ > 0 && choices_.size() > static_cast<size_t>(n_)) return false;
  return std::ranges::any_of(choices_, &Choice::ready);
}

void OutputStream::tell(bool had_news) {
  if (!had_news && notify_ != nullptr && has_news()) notify_(notify_context_);
}

// In turns, so that no choice starves another.
OutputStream::Choice* OutputStream::next_ready() {
  if (!has_news()) return nullptr;
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[(next_choice_ + i) % choices_.size()];
    if (!choice.ready()) continue;
    next_choice_ = (next_choice_ + i + 1) % choices_.size();
    return &choice;
  }
  return nullptr;
}

void OutputStream::set_notify(Notify notify, void* context) {
  const std::scoped_lock lock(mutex_);
  notify_ = notify;
  notify_context_ = context;
  tell(false);
}

OutputStream::Next OutputStream::next(std::optional<std::chrono::milliseconds> timeout, StreamBatch& batch) {
  std::unique_lock lock(mutex_);
  if (std::ranges::all_of(choices_, &Choice::told_end)) return Next::Ended;
  Choice* choice = nullptr;
  const auto arrived = [&] { return (choice = next_ready()) != nullptr; };
  if (!timeout) {
    arrived_.wait(lock, arrived);
  } else if (!arrived_.wait_for(lock, *timeout, arrived)) {
    return Next::TimedOut;
  }
  // The caller's old vectors become the new pending ones, so that a steady stream does not allocate.
  StreamBatch& pending = choice->pending;
  const auto hand_over = [](auto& to, auto& from) {
    std::swap(to, from);
    from.clear();
  };
  hand_over(batch.tokens, pending.tokens);
  hand_over(batch.logprobs, pending.logprobs);
  hand_over(batch.top_logprobs, pending.top_logprobs);
  hand_over(batch.prompt_logprobs, pending.prompt_logprobs);
  hand_over(batch.embedding, pending.embedding);
  batch.index = pending.index;
  batch.finish = pending.finish;
  batch.stop_token = pending.stop_token;
  batch.error = pending.error;
  batch.error_code = pending.error_code;
  batch.prompt_token_count = pending.prompt_token_count;
  batch.cached_token_count = pending.cached_token_count;
  batch.output_token_count = pending.output_token_count;
  batch.progress = pending.progress;
  choice->told_end = batch.finish != FinishReason::None;
  return Next::Ready;
}

}  // namespace inflight
