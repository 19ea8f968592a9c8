// SPDX-License-Identifier: Apache-2.0
// What a simulated run came to.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/request.h"
#include "sched/scheduler.h"
#include "sim/kv_growth.h"
#include "sim/latency_histogram.h"
#include "sim/service_fairness.h"
#include "sim/workload.h"

namespace inflight {

// One request from arrival to end; times since the begin.
struct RequestRecord {
  int32_t request = 0;  // index in the workload
  int32_t replica = 0;
  TimeNs arrival = 0;
  TimeNs first_scheduled = kNotYet;
  TimeNs first_token = kNotYet;
  TimeNs end = 0;
  int32_t cached_tokens = 0;
  int32_t output_tokens = 0;
  int32_t preemptions = 0;
  int32_t draft_tokens = 0;     // guesses that were verified
  int32_t accepted_tokens = 0;  // of these, right ones
  FinishReason reason = FinishReason::None;
};

// mean and quantiles, in milliseconds.
struct LatencySummary {
  double mean = 0.0, p50 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
  [[nodiscard]] static LatencySummary of(std::vector<TimeNs> durations);
  [[nodiscard]] static LatencySummary of(const LatencyHistogram& durations);
};
// {"mean": .., "p50": .., "p95": .., "p99": .., "max": ..}
void to_json(nlohmann::ordered_json& json, const LatencySummary& summary);
// One row of a table for people: name, mean, p50, p95, p99; dashes where nothing was timed.
[[nodiscard]] std::string table_row(const char* name, const LatencySummary& summary);

// What speculative decoding came to: SchedulerStats' counters.
struct GuessCounts {
  int64_t drafts = 0;
  int64_t draft_tokens = 0;
  int64_t accepted_tokens = 0;
  [[nodiscard]] double acceptance_rate() const;         // share of the guesses that were right
  [[nodiscard]] double mean_acceptance_length() const;  // tokens that a step with guesses of a sequence gives it
};
// One line for people; empty where nothing was guessed.
[[nodiscard]] std::string describe_guesses(const GuessCounts& guesses);
// Adds "spec_decode_num_drafts" and so on, the names of the engine's metrics.
void add_guesses(nlohmann::ordered_json& json, const GuessCounts& guesses);

struct SimResult {
  std::string workload, device, schedule_policy, eviction_policy, batching;
  int32_t max_num_seqs = 0;
  int32_t kv_blocks = 0;  // of each replica
  int32_t replicas = 1;
  SchedulerStats scheduler;             // summed over the replicas
  std::vector<RequestRecord> requests;  // by end
  int64_t rejected = 0;                 // never admitted: failed or refused
  int64_t cut_off = 0;                  // of a recording, see Workload::cut_off_request_count
  int64_t left_out = 0;                 // of the trace: without tokens, see Workload::left_out_request_count
  int64_t unfinished = 0;               // arrived but not ended when the time limit ended the run; not in `requests`
  TimeNs makespan = 0;
  LatencySummary ttft, itl, tpot, e2e, queue;
  int64_t deadlines_met = 0;                       // requests within all their deadlines (all that have none)
  ServiceFairness fairness, fairness_computed;     // of whole prompts, of what was computed of them
  double kv_usage_mean = 0.0, kv_usage_max = 0.0;  // share of the blocks referenced: over the makespan, of all replicas
  KvGrowth kv_growth;                              // of the replica with the highest peak
  double device_busy_share = 0.0;                  // of the makespan of all replicas
  double prefill_time_share = 0.0;                 // of the device's busy time, steps that carried prompt tokens
  int64_t evicted_blocks = 0;
  int64_t policy_strikes = 0;
  int64_t skipped_steps = 0;  // of scheduler.steps, decode steps that were not planned one by one
  uint64_t decision_hash = 0;
  StaticBatching static_batching;
  double wall_s = 0.0;
  std::map<std::string, double> policy_metrics;  // what the policies reported, of the first replica
  // A policy that failed and so decided nothing from this step of its replica on.
  struct TakenOut {
    int32_t replica = 0;
    uint64_t step = 0;
    std::string message;
  };
  std::vector<TakenOut> policies_taken_out;
  // A line for people about each of these, without its end.
  [[nodiscard]] std::vector<std::string> describe_taken_out() const;

  [[nodiscard]] double makespan_s() const { return static_cast<double>(makespan) * 1e-9; }
  [[nodiscard]] double useful_slot_share() const;
  [[nodiscard]] double output_tokens_per_second() const;
  [[nodiscard]] double prefix_hit_rate() const;
  [[nodiscard]] double recompute_tax() const;
  [[nodiscard]] GuessCounts guesses() const;
  [[nodiscard]] double goodput() const;  // requests a second within their deadlines
  // Of all that arrived: whoever was rejected or cut off by the time limit has missed them.
  [[nodiscard]] double deadlines_met_share() const;
};

// The keys of `inflight sim --json`.
[[nodiscard]] std::string to_json(const SimResult& result);
// One line a request: times in milliseconds.
[[nodiscard]] std::string to_csv(const SimResult& result, const Workload& workload);

}  // namespace inflight
