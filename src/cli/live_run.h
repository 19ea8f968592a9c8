// SPDX-License-Identifier: Apache-2.0
// The simulator's workloads on a live engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/engine_flags.h"
#include "sim/sim_result.h"
#include "sim/workload.h"

namespace inflight::cli {

// An engine that runs step by step, without overlap: nothing runs between two steps. Its clock is the time spent in
// them; what the program does in between, reading streams and making prompts, is not the engine's.
class LiveEngine {
 public:
  // Sets host_driven and overlap.   ERRORS: as inflight_engine_create().
  explicit LiveEngine(EngineFlags& flags);

  // Ends after exactly `output_tokens`; the prompt is random.
  [[nodiscard]] Stream submit(int32_t prompt_tokens, int32_t output_tokens);
  // A request of a workload, its contents brought into the model's vocabulary.
  [[nodiscard]] Stream submit(const Workload& workload, const SimRequest& request);
  // The time it took, in seconds; 0 when there was nothing to do.
  double timed_step();
  void skip_to(TimeNs time) { now_ = std::max(now_, time); }

  [[nodiscard]] TimeNs now() const { return now_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] int32_t max_model_len() const { return max_model_len_; }
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  Engine engine_;
  SteadyClock clock_;
  TimeNs now_ = 0;
  Rng rng_{7};
  std::string model_, device_;
  int32_t vocabulary_size_ = 0;
  int32_t max_model_len_ = 0;
};

// All that has come on a stream, without waiting.   ERRORS: EngineFailed.
struct Arrived {
  int32_t tokens = 0;
  bool ended = false;
};
[[nodiscard]] Arrived poll(Stream& stream);

struct LiveResult {
  double makespan_s = 0.0;
  int64_t steps = 0;
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  double prefix_hit_rate = 0.0;    // of the prompt tokens
  double useful_slot_share = 0.0;  // of steps * max_num_seqs, sequences that were computed
  LatencySummary ttft, itl, e2e;
};

// Serves the workload; requests arrive when the engine's clock says so, one with `after` when that one has ended.
// ERRORS: InvalidArgument, a request that the engine refuses; EngineFailed.
[[nodiscard]] LiveResult run_live(LiveEngine& engine, const Workload& workload);

}  // namespace inflight::cli
