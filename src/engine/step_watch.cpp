// SPDX-License-Identifier: Apache-2.0
#include "engine/step_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace inflight {
namespace {

double milliseconds(TimeNs time) { return static_cast<double>(time) * 1e-6; }

char letter_of(const KvBlocks& blocks, BlockId block) {
  const int32_t references = blocks.pool().references(block);
  if (references > 1) return 's';
  if (references == 1) return 'u';
  return blocks.tree().contains(block) ? 'c' : '.';
}

}  // namespace

std::string LatestValues::json() const {
  if (next_ == 0) return "null";
  std::vector<TimeNs> sorted(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(std::min(next_, kCount)));
  std::ranges::sort(sorted);
  const auto percentile = [&sorted](size_t percent) {  // the nearest rank
    return milliseconds(sorted[(sorted.size() * percent + 99) / 100 - 1]);
  };
  return fmt::format(R"({{"count":{},"p50_ms":{:.3f},"p95_ms":{:.3f},"p99_ms":{:.3f}}})", next_, percentile(50),
                     percentile(95), percentile(99));
}

void StepWatch::submit(const BatchPlan& plan) {
  const TimeNs begin = clock_.now();  // a draft model computes within submit()
  inner_.submit(plan);
  Step& step = in_flight_[(first_ + in_flight_count_++) % kStepsInFlightMax];
  step.number = plan.step;
  step.begin = begin;
  step.sequence_count = static_cast<int32_t>(plan.entries.size());
  step.token_count = plan.scheduled_token_count;
  step.swapped_blocks = static_cast<int32_t>(plan.swap_out.size() + plan.swap_in.size());
  step.finished = 0;
  step.shares.clear();
  step.preempted.clear();
  for (const BatchEntry& entry : plan.entries) {
    const auto row = static_cast<size_t>(entry.row);
    if (row >= rows_.size()) rows_.resize(row + 1);
    const uint64_t sequence = to_integer(entry.sequence);
    const bool stays = rows_[row].sequence == sequence && rows_[row].context == entry.computed_token_count;
    rows_[row] = {.sequence = sequence, .context = entry.context_token_count()};
    if (step.shares.size() == kSequencesMax) continue;
    step.shares.push_back({.sequence = sequence,
                           .tokens = entry.scheduled_token_count,
                           .context = entry.context_token_count(),
                           .reused = stays ? 0 : entry.computed_token_count,
                           .decode = entry.phase == Phase::Decode});
  }
}

const StepResult& StepWatch::wait() {
  const StepResult& result = inner_.wait();
  Step& step = in_flight_[first_];
  first_ = (first_ + 1) % kStepsInFlightMax;
  --in_flight_count_;
  step.end = clock_.now();
  step.begin = std::max(step.begin, last_end_);  // with overlap it was submitted while the one before still ran
  last_end_ = step.end;
  step.swap = result.swap_duration;
  if (done_count_ == done_.size()) done_.emplace_back();
  std::swap(done_[done_count_++], step);
  return result;
}

void StepWatch::on_preempted(SequenceId sequence, int32_t lost_tokens, int32_t swapped_blocks) {
  preempted_.push_back(
      {.sequence = to_integer(sequence), .lost_tokens = lost_tokens, .swapped_blocks = swapped_blocks});
}

void StepWatch::publish(int32_t waiting, int32_t running, const KvBlocks& blocks) {
  // Whoever made room made it for the plan that was submitted last.
  Step* const newest = in_flight_count_ > 0 ? &in_flight_[(first_ + in_flight_count_ - 1) % kStepsInFlightMax]
                       : done_count_ > 0    ? &done_[done_count_ - 1]
                                            : nullptr;
  if (newest != nullptr) {
    newest->preempted.insert(newest->preempted.end(), preempted_.begin(), preempted_.end());
    preempted_.clear();
  }
  if (done_count_ > 0) {
    done_[done_count_ - 1].finished = std::exchange(finished_, 0);
    for (size_t i = 0; i < done_count_; ++i) {
      done_[i].waiting = waiting;
      done_[i].running = running;
      done_[i].blocks_referenced = blocks.pool().referenced_count();
      done_[i].blocks_stored = blocks.pool().stored_count();
    }
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < done_count_; ++i) {
      std::swap(steps_[kept_++ % kSteps], done_[i]);  // the oldest one's memory serves again
    }
    done_count_ = 0;
    for (const TimeNs value : first_tokens_) time_to_first_token_.add(value);
    for (const TimeNs value : gaps_) inter_token_.add(value);
    first_tokens_.clear();
    gaps_.clear();
  }
  const bool wanted = map_wanted_.exchange(false, std::memory_order_acq_rel);
  if (wanted && blocks.pool().block_count() <= kMapBlocksMax) make_map(blocks);
}

void StepWatch::make_map(const KvBlocks& blocks) {
  std::string text = "\"";
  const int32_t count = blocks.pool().block_count();
  for (int32_t begin = 0, end = 0; begin < count; begin = end) {
    const char letter = letter_of(blocks, BlockId{begin});
    for (end = begin + 1; end < count && letter_of(blocks, BlockId{end}) == letter;) ++end;
    fmt::format_to(std::back_inserter(text), "{}{}", end - begin, letter);
  }
  text += '"';
  const std::scoped_lock lock(mutex_);
  map_ = std::move(text);
}

void StepWatch::append(std::string& text, const Step& step) const {
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 R"({{"step":{},"begin_s":{:.6f},"duration_ms":{:.3f},"waiting":{},"running":{},"kv_blocks_used":{},)"
                 R"("kv_blocks_cached":{},"kv_blocks_swapped":{},"swap_ms":{:.3f},"finished":{},"sequence_count":{},)"
                 R"("token_count":{},"sequences":[)",
                 step.number, seconds(step.begin), milliseconds(step.end - step.begin), step.waiting, step.running,
                 step.blocks_referenced, step.blocks_stored, step.swapped_blocks, milliseconds(step.swap),
                 step.finished, step.sequence_count, step.token_count);
  for (const Share& share : step.shares) {
    fmt::format_to(out, "{}[{},{},{},{},{}]", text.back() == '[' ? "" : ",", share.sequence, share.decode ? 1 : 0,
                   share.tokens, share.context, share.reused);
  }
  text += R"(],"preempted":[)";
  for (const Preempted& victim : step.preempted) {
    fmt::format_to(out, "{}[{},{},{}]", text.back() == '[' ? "" : ",", victim.sequence, victim.lost_tokens,
                   victim.swapped_blocks);
  }
  text += "]}";
}

std::string StepWatch::json(uint64_t since, const EngineStats& stats, int32_t block_size) const {
  const SchedulerStats& totals = stats.scheduler;
  std::unique_lock lock(mutex_);
  const uint64_t oldest = kept_ - std::min<uint64_t>(kept_, kSteps);
  const uint64_t last_step = kept_ == 0 ? 0 : steps_[(kept_ - 1) % kSteps].number;
  std::string text = fmt::format(
      R"({{"now_s":{:.6f},"last_step":{},"oldest_step":{},"waiting":{},"running":{},"max_num_seqs":{},)"
      R"("max_num_batched_tokens":{},"requests":{{"submitted":{},"finished":{},"aborted":{},"failed":{}}},)"
      R"("tokens":{{"prompt":{},"cached":{},"output":{},"computed":{},"recomputed":{}}},"preemptions":{},)",
      seconds(clock_.now()), last_step, kept_ == 0 ? 0 : steps_[oldest % kSteps].number, stats.waiting, stats.running,
      stats.max_num_seqs, stats.max_num_batched_tokens, totals.requests_added, totals.requests_finished,
      totals.requests_aborted, totals.requests_failed, totals.prompt_tokens, totals.cached_tokens, totals.output_tokens,
      totals.scheduled_tokens, totals.recomputed_tokens, totals.preemptions);
  fmt::format_to(std::back_inserter(text),
                 R"("kv":{{"blocks":{},"block_size":{},"free":{},"cached":{},"used":{},"map":{}}},"ttft":{},"itl":{},)",
                 stats.blocks_total, block_size, stats.blocks_free, stats.blocks_stored, stats.blocks_referenced, map_,
                 time_to_first_token_.json(), inter_token_.json());
  text += R"("steps":[)";
  const uint64_t end = kept_;
  Step step;  // a copy, made into text without the lock: the engine's thread waits for no reader
  for (uint64_t i = oldest; i < end; ++i) {
    const bool overwritten = i + kSteps < kept_;
    if (overwritten || steps_[i % kSteps].number <= since) continue;
    step = steps_[i % kSteps];
    lock.unlock();
    if (text.back() != '[') text += ',';
    append(text, step);
    lock.lock();
  }
  text += "]}";
  return text;
}

}  // namespace inflight
