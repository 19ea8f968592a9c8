// SPDX-License-Identifier: Apache-2.0
// What a recording says about time and work: each step with what was in it and how long it took, each request with its
// latencies. The times are those of plan() and commit(), by the clock of whoever recorded: the engine's or a simulated
// one. `inflight calibrate` fits the device model to the steps, `inflight bench workload` takes its figures from here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/trace_format.h"
#include "sim/device_model.h"
#include "sim/sim_result.h"

namespace inflight {

// Which sequence is given how many tokens, read from plans and commits. Only the newest token's logits are sampled.
class RecordedOutputs {
 public:
  void add(SequenceId sequence, int32_t prompt_tokens) { known_tokens_[to_integer(sequence)] = prompt_tokens; }
  // Of an entry of the next plan, tokens that are guesses: those behind the newest token.
  [[nodiscard]] int32_t draft_tokens(const TracePlan::Entry& entry) const;
  void on_plan(const TracePlan& plan);
  // What a step gives a sequence.
  struct Given {
    std::optional<TokenId> sampled;      // none in a recording without inputs
    std::span<const TokenId> following;  // behind it
    int32_t draft_tokens = 0, accepted_tokens = 0;
    [[nodiscard]] int32_t token_count() const { return 1 + static_cast<int32_t>(following.size()); }
  };
  // Calls visit(sequence, given) for each sequence that the step gives tokens and that has not ended before.
  template <typename Visit>
  void on_commit(const TraceCommit& commit, Visit&& visit) {
    while (!submitted_.empty() && submitted_.front().step < commit.step) submitted_.pop_front();  // plans of nothing
    if (submitted_.empty() || submitted_.front().step != commit.step) return;
    const std::vector<Row>& sampled = submitted_.front().sampled;
    for (size_t row = 0; row < sampled.size(); ++row) {
      const auto [sequence, drafts] = sampled[row];
      const auto known = known_tokens_.find(to_integer(sequence));
      if (known == known_tokens_.end()) continue;
      Given given{.draft_tokens = drafts};
      if (row < commit.tokens.size()) given.sampled = commit.tokens[row];
      const auto following = std::ranges::find(commit.following, row, &TraceCommit::Following::row);
      if (following != commit.following.end()) {
        given.following = following->tokens;
        given.accepted_tokens = static_cast<int32_t>(following->further_count);
      }
      known->second += given.token_count() - 1;
      visit(sequence, given);
    }
    submitted_.pop_front();
  }
  void on_finish(SequenceId sequence) { known_tokens_.erase(to_integer(sequence)); }

 private:
  std::unordered_map<uint64_t, int32_t> known_tokens_;  // of live sequences, the unread ones included
  struct Row {
    SequenceId sequence{};
    int32_t draft_tokens = 0;
  };
  struct Submitted {
    uint64_t step = 0;
    std::vector<Row> sampled;
  };
  std::deque<Submitted> submitted_;
};

struct RecordedStep {
  uint64_t number = 0;
  TimeNs planned = 0;
  TimeNs ended = 0;
  TimeNs duration = 0;      // since the step before had ended; since it was planned where nobody was left then
  bool after_idle = false;  // nobody was left when the step before had ended
  DeviceWork work;
};

struct RecordedRun {
  std::vector<RecordedStep> steps;
  TimeNs begin = 0, end = 0;
  int64_t finished = 0;  // requests that ended otherwise than by an error
  int64_t rejected = 0;  // by an error before their first step: a policy's
  int64_t failed = 0;    // by an error later
  int64_t output_tokens = 0, preemptions = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of requests that came to a step
  int64_t used_slots = 0;                        // sequences of all steps
  GuessCounts guesses;
  LatencySummary ttft, itl, e2e;
  std::vector<TimeNs> pickups;  // of requests that found the engine idle: from their arrival until it took them
  uint64_t decision_hash = 0;   // as SimResult's; sequences count from the first of the run

  [[nodiscard]] double makespan_s() const { return static_cast<double>(end - begin) * 1e-9; }
  // 0 where no step was made.
  [[nodiscard]] double output_tokens_per_second() const {
    return end > begin ? static_cast<double>(output_tokens) / makespan_s() : 0.0;
  }
};

// The part of a recording from `begin` on; a request that was there before arrived at `begin`.
// REQUIRES: nothing was running at `begin`.
[[nodiscard]] RecordedRun read_recorded_run(std::span<const TraceRecord> records, TimeNs begin);

}  // namespace inflight
