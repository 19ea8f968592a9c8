// SPDX-License-Identifier: Apache-2.0
// A window into the batch: the latest steps with who was in them, the state of every KV block and the latest latencies.
// An executor around another one: it sees each plan go by and each result come back, and copies a few numbers of it
// into a ring of fixed size. Nobody has to look: a step costs well under a microsecond. THREAD: json() and
// ask_for_map(): any; all else the engine thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/kv_blocks.h"
#include "core/executor.h"
#include "engine/engine_stats.h"

namespace inflight {

// The last values of a kind; percentiles of them.
class LatestValues {
 public:
  static constexpr size_t kCount = 2048;
  void add(TimeNs value) { values_[next_++ % kCount] = value; }
  // {"count": all since the start, "p50_ms": .., "p95_ms": .., "p99_ms": ..} of the last kCount; null when there are
  // none.
  [[nodiscard]] std::string json() const;

 private:
  std::array<TimeNs, kCount> values_{};
  size_t next_ = 0;
};

class StepWatch final : public Executor {
 public:
  static constexpr size_t kSteps = 512;            // kept
  static constexpr size_t kSequencesMax = 512;     // of a step; of more the number is told
  static constexpr int32_t kMapBlocksMax = 65536;  // with more blocks there is no map

  // LIFETIME: both are borrowed.
  StepWatch(Executor& inner, const Clock& clock) : inner_(inner), clock_(clock), origin_(clock.now()) {}

  void submit(const BatchPlan& plan) override;
  [[nodiscard]] const StepResult& wait() override;

  // Since the last publish(): who was preempted, how many ended, latencies.
  void on_preempted(SequenceId sequence, int32_t lost_tokens, int32_t swapped_blocks);
  void on_finished() { ++finished_; }
  void on_first_token(TimeNs since_arrival) { first_tokens_.push_back(since_arrival); }
  void on_next_token(TimeNs gap) { gaps_.push_back(gap); }

  // The steps that have come back since the last call can be seen from now on, with the figures as they are now.
  void publish(int32_t waiting, int32_t running, const KvBlocks& blocks);

  // The next publish() makes a map of the KV blocks for json().   COST (of that): O(blocks).
  void ask_for_map() { map_wanted_.store(true, std::memory_order_release); }
  [[nodiscard]] bool map_wanted() const { return map_wanted_.load(std::memory_order_acquire); }

  // The steps after number `since` that are kept, as inflight_engine_steps_json() describes.
  [[nodiscard]] std::string json(uint64_t since, const EngineStats& stats, int32_t block_size) const;

 private:
  struct Share {
    uint64_t sequence = 0;
    int32_t tokens = 0;   // computed in the step
    int32_t context = 0;  // known to attention at its end
    int32_t reused = 0;   // it joins the batch with so many tokens computed before
    bool decode = false;
  };
  struct Preempted {
    uint64_t sequence = 0;
    int32_t lost_tokens = 0;
    int32_t swapped_blocks = 0;
  };
  struct Step {
    uint64_t number = 0;
    TimeNs begin = 0;
    TimeNs end = 0;
    int32_t sequence_count = 0;
    int32_t token_count = 0;
    std::vector<Share> shares;
    std::vector<Preempted> preempted;
    int32_t swapped_blocks = 0;  // to and from host memory
    TimeNs swap = 0;             // what that took on the device
    int32_t finished = 0;
    int32_t waiting = 0, running = 0, blocks_referenced = 0, blocks_stored = 0;
  };
  // Who was last seen in a row, and how many of its tokens were computed then.
  struct Row {
    uint64_t sequence = UINT64_MAX;
    int32_t context = 0;
  };

  void make_map(const KvBlocks& blocks);
  void append(std::string& text, const Step& step) const;
  [[nodiscard]] double seconds(TimeNs time) const { return static_cast<double>(time - origin_) * 1e-9; }

  Executor& inner_;
  const Clock& clock_;
  const TimeNs origin_;
  std::vector<Row> rows_;
  std::array<Step, kStepsInFlightMax> in_flight_;
  size_t first_ = 0, in_flight_count_ = 0;
  TimeNs last_end_ = 0;
  std::vector<Step> done_;  // came back, not published; the first done_count_ are in use
  size_t done_count_ = 0;
  std::vector<Preempted> preempted_;
  int32_t finished_ = 0;
  std::vector<TimeNs> first_tokens_, gaps_;
  std::atomic<bool> map_wanted_ = false;

  mutable std::mutex mutex_;  // guards everything below
  std::array<Step, kSteps> steps_;
  uint64_t kept_ = 0;  // steps ever kept; the last one is in steps_[(kept_ - 1) % kSteps]
  LatestValues time_to_first_token_, inter_token_;
  std::string map_ = "null";  // JSON
};

}  // namespace inflight
