// SPDX-License-Identifier: Apache-2.0
// The one registry of metrics: every name, unit and meaning is in metrics.cpp, docs/METRICS.md says how to read them.
// Names are vLLM's behind a prefix of choice ("inflight_", or "vllm:" for dashboards that exist).
// THREAD: observe functions: the engine thread. text(): any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/request.h"
#include "engine/engine_stats.h"
#include "sched/sequence.h"

namespace inflight {

// One writer, any readers; a reader may see an observation in a bucket and not yet in the sum.
class Histogram {
 public:
  // bounds: increasing upper bounds, inclusive.   LIFETIME: static.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(std::make_unique<std::atomic<int64_t>[]>(bounds.size() + 1)) {}
  void observe(double value);
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  // By bucket, the last one is what exceeds all bounds.
  [[nodiscard]] std::vector<int64_t> counts() const;
  [[nodiscard]] double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::unique_ptr<std::atomic<int64_t>[]> counts_;
  std::atomic<double> sum_{0.0};
};

// What of an engine never changes.
struct MetricsInfo {
  std::string model_name;  // label of every sample; empty = none
  int32_t block_size = 0;
  uint64_t block_bytes = 0;
  std::string kv_cache_dtype;
};

class EngineMetrics {
 public:
  explicit EngineMetrics(const MetricsInfo& info) : info_(info) {}

  void on_first_token(const Sequence& sequence);
  void on_next_token(TimeNs gap) { inter_token_.observe(seconds(gap)); }
  // The end of one sequence, for whatever reason.
  void on_finish(const Sequence& sequence, FinishReason reason, TimeNs now);
  // on_finish() counts its own.
  void count_ended(FinishReason reason, int64_t sequences);
  // Its max_tokens count as far as the context has room.
  void on_request(const Request& request, int32_t max_model_len);
  // A step with its tokens and the host time that planning and committing took.
  void on_step(int64_t scheduled_tokens, TimeNs scheduling);

  // A step that copied KV blocks to or from host memory, and how long that took.
  void on_swap(TimeNs duration) { swap_time_.observe(seconds(duration)); }

  [[nodiscard]] std::string text(const EngineStats& stats, TimeNs now, std::string_view prefix) const;

 private:
  static double seconds(TimeNs time) { return static_cast<double>(time) * 1e-9; }

  MetricsInfo info_;
  static std::span<const double> latency_bounds();
  static std::span<const double> count_bounds();
  Histogram time_to_first_token_{latency_bounds()};
  Histogram inter_token_{latency_bounds()};
  Histogram time_per_output_token_{latency_bounds()};
  Histogram e2e_latency_{latency_bounds()};
  Histogram queue_time_{latency_bounds()};
  Histogram prefill_time_{latency_bounds()};
  Histogram decode_time_{latency_bounds()};
  Histogram inference_time_{latency_bounds()};
  Histogram schedule_time_{latency_bounds()};
  Histogram swap_time_{latency_bounds()};
  Histogram iteration_tokens_{count_bounds()};
  Histogram prompt_tokens_{count_bounds()};
  Histogram generation_tokens_{count_bounds()};
  Histogram max_tokens_{count_bounds()};
  Histogram choices_{count_bounds()};
  Histogram preemptions_{count_bounds()};
  std::atomic<int64_t> finished_[5]{};  // by FinishReason
};

}  // namespace inflight
