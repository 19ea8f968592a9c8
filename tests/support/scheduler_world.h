// SPDX-License-Identifier: Apache-2.0
// A scheduler with the oracle below it and nothing else: requests go in, steps run, every output is compared with the
// one that the request gives alone. The stage of all scheduler tests and of the random simulation.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sched/scheduler.h"
#include "sched/step_loop.h"
#include "support/manual_clock.h"
#include "support/oracle_executor.h"

namespace inflight::test {

struct WorldOptions {
  SchedulerConfig config{.max_num_seqs = 8,
                         .max_num_batched_tokens = 64,
                         .long_prefill_token_threshold = 0,
                         .max_model_len = 256,
                         .max_requests = 4096};
  KvBlocks::Options blocks{.block_count = 64, .block_token_count = 4};
  bool overlap = false;
  int32_t vocabulary_size = 64;
};

struct RequestOptions {
  std::vector<TokenId> prompt;
  int32_t max_tokens = 8;
  std::vector<TokenId> end_tokens;
  uint64_t salt = 0;
  uint32_t adapter = 0;
  int32_t priority = 0;
  uint32_t tenant = 0;
  TimeNs ttft_deadline = 0;  // absolute; 0 = none
  TimeNs e2e_deadline = 0;   // likewise
  TimeNs itl_target = 0;     // 0 = none
  int32_t predicted_output_tokens = 0;
  int32_t n = 1;
  uint64_t seed = 0;
  bool host_draws = false;
  bool filtered = false;
  bool prompt_logprobs = false;
};

// Tokens of a vocabulary of 64, from a seed.
[[nodiscard]] std::vector<TokenId> random_prompt(int32_t count, uint64_t seed = 1);

class SchedulerWorld {
 public:
  explicit SchedulerWorld(const WorldOptions& options, SchedulePolicy* policy = nullptr,
                          EvictPolicy* evict_policy = nullptr);

  // Adds a request; returns its id.
  uint64_t add(const RequestOptions& options);
  void cancel(uint64_t request);

  // Plans, runs and commits as the engine does (with overlap: plans a step ahead). False: nothing was left to do.
  bool step();
  // Until idle; fails after `steps_max` steps.  Returns the steps taken.
  int64_t run(int64_t steps_max = 100000);

  // What became of a request.
  struct Record {
    RequestOptions options;
    SequenceTruth truth;
    std::vector<TokenId> output;
    FinishReason finish = FinishReason::None;
    int64_t first_token_step = 0;
    TimeNs first_token_time = 0;
    int64_t finish_step = 0;
    bool cancelled = false;
    int32_t preemptions = 0;
    int32_t choice = 0;
    int32_t told_prompt_tokens = 0;  // whose logprobs came
  };
  [[nodiscard]] const Record& record(uint64_t request, int32_t choice = 0) const {
    return records_.at(key_of(request, choice));
  }
  // By key: that of a request's first choice is its id.
  [[nodiscard]] const std::map<uint64_t, Record>& records() const { return records_; }
  // What the last step() submitted (numbers only: its spans are stale); nothing when it only committed.
  [[nodiscard]] const BatchPlan& last_plan() const { return executor_.last_plan(); }
  // The same as "request:computed+scheduled ...", a further choice k as "request.k", for readable expectations.
  [[nodiscard]] std::string last_plan_text() const;
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] KvBlocks& blocks() { return blocks_; }
  [[nodiscard]] const OracleExecutor& executor() const { return executor_; }
  [[nodiscard]] ManualClock& clock() { return clock_; }
  [[nodiscard]] int64_t now_step() const { return scheduler_.stats().steps; }

 private:
  static uint64_t key_of(uint64_t request, int32_t choice) { return request + (static_cast<uint64_t>(choice) << 32); }
  [[nodiscard]] Record& record_of_slot(int32_t slot);
  void take_output();

  WorldOptions options_;
  SchedulePolicy fcfs_;
  EvictPolicy lru_;
  KvBlocks blocks_;
  Scheduler scheduler_;
  ManualClock clock_;
  OracleExecutor executor_;
  StepLoop loop_;
  std::map<uint64_t, Record> records_;
  std::map<SequenceId, uint64_t> key_of_sequence_;
  uint64_t next_request_ = 1;
};

// What the request gives alone: its tokens and why it ends.
struct Expected {
  std::vector<TokenId> output;
  FinishReason finish = FinishReason::None;
};
[[nodiscard]] Expected expected_output(const RequestOptions& options, const WorldOptions& world, int32_t choice = 0);

}  // namespace inflight::test
