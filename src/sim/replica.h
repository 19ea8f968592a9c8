// SPDX-License-Identifier: Apache-2.0
// One simulated engine: the scheduler, cache and policies that the live engine runs, on a virtual clock over a
// simulated device. Time passes only by steps and by idle_until().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cache/kv_blocks.h"
#include "plugin_host/policies.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"
#include "sim/decision_hash.h"
#include "sim/device_model.h"
#include "sim/kv_growth.h"
#include "sim/latency_histogram.h"
#include "sim/sim_result.h"
#include "sim/simulated_executor.h"
#include "sim/workload.h"

namespace inflight {

// What of its requests a replica serves.
enum class Stage : uint8_t {
  Whole,
  Prefill,  // the prompt and the first token
  Decode,   // the tokens after the first; K and V of the prompt are brought along and cost nothing
};

class Replica {
 public:
  struct Options {
    SchedulerSetup setup;
    bool overlap = true;
    bool skip_decodes = true;  // steps in which nothing is decided are not planned one by one
    Stage stage = Stage::Whole;
    int32_t index = 0;
  };
  // on_end: called for every request that has ended.   LIFETIME: `model` and `workload` are borrowed.
  // ERRORS: InvalidArgument, NotFound, Plugin (options and policies).
  Replica(const Options& options, const DeviceModel& model, const Workload& workload,
          std::function<void(const RequestRecord&)> on_end);

  // The request is there from `arrival` on (<= now() unless idle, which it then ends). sent: when its client asked,
  // which is before that where another replica computed its prompt; deadlines count from there.
  // REQUIRES: has_room(), sent <= arrival.
  void add(int32_t request, TimeNs arrival, TimeNs sent);
  // max_requests are not reached.
  [[nodiscard]] bool has_room() const { return request_count_ < options_.setup.config.max_requests; }

  // Runs one round of the step loop, or many that decide nothing and begin before `until`. False: nobody ended, and
  // nothing is to be done before wake_time().
  bool step(TimeNs until);
  [[nodiscard]] std::optional<TimeNs> wake_time() const { return scheduler_.wake_time(); }
  // Nothing happens until then.  REQUIRES: time >= now().
  void idle_until(TimeNs time) { clock_.advance(time - clock_.now()); }

  [[nodiscard]] TimeNs now() const { return clock_.now(); }
  [[nodiscard]] bool idle() const { return request_count_ == 0; }
  [[nodiscard]] int32_t index() const { return options_.index; }
  // Tokens that its requests have yet to be given, and prompts that are not computed whole: what routing by load
  // compares.
  [[nodiscard]] int64_t outstanding_tokens() const { return outstanding_tokens_; }
  // Stored tokens that the request's prompt would find now.
  [[nodiscard]] int32_t stored_prefix_tokens(const SimRequest& request) const;

  // Who is told of every step.   LIFETIME: borrowed.
  void set_trace(SchedulerTrace* trace) { scheduler_.set_trace(trace); }

  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] const LatencyHistogram& itl() const { return itl_; }
  [[nodiscard]] uint64_t decision_hash() const { return executor_.decision_hash().value(); }
  // How long its device computed before `until`.   REQUIRES: until >= now().
  [[nodiscard]] SimulatedExecutor::BusyTime busy_time(TimeNs until) const { return executor_.busy_time(until); }
  // Adds this replica's part of the totals; its KV use is a share of the whole run's time.   REQUIRES: makespan >=
  // now().
  void add_to(SimResult& result, TimeNs makespan) const;

 private:
  struct Progress {
    int32_t request = 0;
    TimeNs arrival = 0;
    int64_t outstanding_tokens = 0;
    TimeNs last_token = kNotYet;
  };
  void note_tokens(Progress& progress, int64_t count);  // that it is given
  class Carrier;
  bool carry_on(TimeNs until);
  bool collect();  // true: somebody ended
  void note_usage();
  [[nodiscard]] int64_t prompt_work(const SimRequest& request) const;
  void append_prompt(const SimRequest& request, std::vector<TokenId>& tokens) const;

  Options options_;
  const DeviceModel& model_;
  const Workload& workload_;
  std::function<void(const RequestRecord&)> on_end_;
  SimClock clock_;
  std::unique_ptr<EvictAdapter> eviction_;
  KvBlocks blocks_;
  std::unique_ptr<SchedAdapter> policy_;
  Scheduler scheduler_;
  SimulatedExecutor executor_;
  StepLoop loop_;
  uint64_t next_request_ = 1;
  int32_t request_count_ = 0;
  int64_t outstanding_tokens_ = 0;
  std::vector<Progress> progress_;  // by slot
  LatencyHistogram itl_;
  int64_t skipped_steps_ = 0;
  TimeNs usage_until_ = 0;  // usage_sum_ covers the time before
  double usage_sum_ = 0.0;  // referenced blocks * ns
  int32_t usage_last_ = 0, usage_max_ = 0;
  KvGrowth kv_growth_;
};

}  // namespace inflight
