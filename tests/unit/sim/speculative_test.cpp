// SPDX-License-Identifier: Apache-2.0
// Goal: simulated speculative decoding (checklist 124) gives the tokens a step that theory says, whatever else runs.
// Method: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", equation 1: a
// verification of k guesses, each right with probability a, gives (1 - a^(k+1)) / (1 - a) tokens in the mean.
// Verifications are counted as the scheduler plans and commits them; the bound is 4.5 standard errors of the equation's
// own distribution.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sched/setup_json.h"
#include "sim/replay.h"
#include "sim/sim_spec.h"
#include "sim/workload_spec.h"
#include "support/simulated.h"

namespace inflight {
namespace {

using Json = nlohmann::json;

// Verifications by the number of their guesses.
class Verifications final : public SchedulerTrace {
 public:
  struct Count {
    int64_t times = 0, tokens = 0;
  };
  void on_add(SequenceId, const Request&, std::span<const TokenId>, TimeNs) override {}
  void on_cancel(SequenceId, bool, FinishReason, TimeNs) override {}
  void on_plan(const PlanTrace& trace, TimeNs) override {  // one at a time: nothing is planned ahead
    drafts_.clear();
    for (const BatchEntry& entry : trace.plan.entries) {
      if (entry.samples) drafts_.push_back(entry.draft_token_count);
    }
  }
  void on_commit(const StepResult& result, TimeNs) override {
    ASSERT_EQ(result.sampled.size(), drafts_.size());
    for (size_t i = 0; i < drafts_.size(); ++i) {
      Count& count = counts[drafts_[i]];
      ++count.times;
      count.tokens += 1 + static_cast<int64_t>(result.sampled[i].further.size());
    }
  }
  void on_finish(SequenceId, FinishReason, TimeNs) override {}

  std::map<int32_t, Count> counts;

 private:
  std::vector<int32_t> drafts_;
};

struct Truth {
  double mean, deviation;
};
// Of the tokens of one verification.
Truth truth_of(double a, int k) {
  double mean = 0.0, squares = 0.0;
  for (int tokens = 1; tokens <= k + 1; ++tokens) {
    const double probability = std::pow(a, tokens - 1) * (tokens <= k ? 1.0 - a : 1.0);
    mean += probability * tokens;
    squares += probability * tokens * tokens;
  }
  EXPECT_NEAR(mean, (1.0 - std::pow(a, k + 1)) / (1.0 - a), 1e-9);
  return {mean, std::sqrt(std::max(squares - mean * mean, 0.0))};
}

Json guessing(int k, bool adaptive) { return {{"num_speculative_tokens", k}, {"adaptive", adaptive}}; }

TEST(SimulatedSpeculation, AVerificationGivesTheTokensOfTheEquation) {
  int compared = 0;
  for (const double a : {0.1, 0.5, 0.8, 0.95}) {
    for (const int k : {1, 2, 4, 8}) {
      for (const bool adaptive : {false, true}) {
        const SimSpec spec = parse_sim_spec(Json{
            {"workload", fmt::format("closed,requests=40,prompt=20,output=400,acceptance={},seed={}", a, k)},
            {"device", "unit"},
            {"speculative_config",
             guessing(k, adaptive)}}.dump());
        Verifications verifications;
        const SimResult result =
            run_simulation(spec.options, load_workload(spec), SteadyClock(), {.trace = &verifications, .progress = {}});
        EXPECT_EQ(result.scheduler.output_tokens, 40 * 400);
        int64_t tokens = 0;
        for (const auto& [guesses, count] : verifications.counts) {
          tokens += count.tokens;
          ASSERT_LE(guesses, k);
          if (guesses == 0 || count.times < 200) continue;
          const auto [mean, deviation] = truth_of(a, guesses);
          const auto times = static_cast<double>(count.times);
          EXPECT_NEAR(static_cast<double>(count.tokens) / times, mean, 4.5 * deviation / std::sqrt(times))
              << "a " << a << " k " << guesses << " of " << k;
          ++compared;
        }
        EXPECT_EQ(tokens, 40 * 400);
        if (adaptive) continue;  // the whole run's figure, but for the ends of the requests
        EXPECT_NEAR(result.guesses().mean_acceptance_length(), truth_of(a, k).mean, 0.02 * truth_of(a, k).mean);
      }
    }
  }
  EXPECT_GT(compared, 50);
}

// One more than were right the last time: a Markov chain over the number of guesses, whose long-run mean is found by
// walking it.
TEST(SimulatedSpeculation, AdaptiveGuessesAreTheirMarkovChain) {
  for (const double a : {0.3, 0.7, 0.9}) {
    constexpr int kMost = 6;
    std::vector<double> share(kMost + 1, 0.0);  // by number of guesses
    share[kMost] = 1.0;
    double expected = 0.0;
    for (int round = 0; round < 500; ++round) {
      std::vector<double> next(kMost + 1, 0.0);
      expected = 0.0;
      for (int k = 1; k <= kMost; ++k) {
        expected += share[static_cast<size_t>(k)] * truth_of(a, k).mean;
        for (int right = 0; right <= k; ++right) {
          const double probability = std::pow(a, right) * (right < k ? 1.0 - a : 1.0);
          next[static_cast<size_t>(std::min(right + 1, kMost))] += share[static_cast<size_t>(k)] * probability;
        }
      }
      share = next;
    }
    const Json result = test::simulated({{"workload", fmt::format("closed,requests=20,output=3000,acceptance={}", a)},
                                         {"device", "unit"},
                                         {"speculative_config", guessing(kMost, true)}});
    EXPECT_NEAR(result["spec_decode_mean_acceptance_length"].get<double>(), expected, 0.02 * expected) << a;
  }
}

TEST(SimulatedSpeculation, AllWrongCostsAndAllRightGivesOneMoreThanGuessed) {
  const auto steps_of = [](const char* acceptance, int k) {
    return test::simulated({{"workload", fmt::format("closed,requests=1,prompt=4,output=121{}", acceptance)},
                            {"device", "pocl-135m"},
                            {"overlap", "off"},
                            {"speculative_config", guessing(k, false)}});
  };
  const Json plain = test::simulated(
      {{"workload", "closed,requests=1,prompt=4,output=121"}, {"device", "pocl-135m"}, {"overlap", "off"}});
  const Json unguessed = steps_of("", 4);
  EXPECT_EQ(unguessed["spec_decode_num_drafts"], 0);
  EXPECT_EQ(unguessed["makespan_s"], plain["makespan_s"]);
  EXPECT_EQ(unguessed["decision_hash"], plain["decision_hash"]);
  for (const int k : {1, 2, 3, 5}) {
    const Json wrong = steps_of(",acceptance=0", k), right = steps_of(",acceptance=1", k);
    EXPECT_EQ(wrong["steps"], 121);
    EXPECT_EQ(wrong["spec_decode_num_accepted_tokens"], 0);
    EXPECT_EQ(wrong["spec_decode_mean_acceptance_length"], 1.0);
    EXPECT_GT(wrong["makespan_s"], plain["makespan_s"]);
    EXPECT_EQ(right["steps"], 1 + 120 / (k + 1));
    EXPECT_EQ(right["spec_decode_mean_acceptance_length"], k + 1.0);
    EXPECT_EQ(right["spec_decode_acceptance_rate"], 1.0);
    EXPECT_EQ(right["output_tokens"], 121);
  }
}

// Which guesses are right is a matter of the request and the position.
TEST(SimulatedSpeculation, WhatElseRunsChangesNoRequest) {
  const auto guesses_of = [](const Json& limits, const char* seed) {
    Json spec = {
        {"workload", fmt::format("uniform,requests=60,output=5-90,max_tokens=1-200,acceptance=0.6,seed={}", seed)},
        {"max_num_batched_tokens", 65536},  // room for every guess
        {"speculative_config", guessing(4, true)}};
    spec.update(limits);
    const SimSpec parsed = parse_sim_spec(spec.dump());
    const SimResult result = run_simulation(parsed.options, load_workload(parsed), SteadyClock());
    EXPECT_EQ(result.scheduler.preemptions, 0);
    std::map<int32_t, std::pair<int32_t, int32_t>> guesses;
    int64_t drafted = 0, accepted = 0;
    for (const RequestRecord& record : result.requests) {
      guesses[record.request] = {record.draft_tokens, record.accepted_tokens};
      drafted += record.draft_tokens;
      accepted += record.accepted_tokens;
    }
    EXPECT_LE(drafted, result.scheduler.draft_tokens);  // but those behind an end
    EXPECT_EQ(accepted, result.scheduler.accepted_tokens);
    return guesses;
  };
  const auto alone = guesses_of({{"max_num_seqs", 1}}, "1");
  EXPECT_EQ(alone, guesses_of({{"max_num_seqs", 32}}, "1"));
  EXPECT_EQ(alone, guesses_of({{"max_num_seqs", 7}, {"replicas", 2}, {"device", "gpu-8b"}}, "1"));
  EXPECT_EQ(alone, guesses_of({{"max_num_seqs", 5}, {"schedule_policy", "sjf"}, {"batching", "static"}}, "1"));
  EXPECT_NE(alone, guesses_of({{"max_num_seqs", 1}}, "2"));
}

TEST(SimulatedSpeculation, SeparatePoolsGuessInTheSecond) {
  const Json result = test::simulated({{"workload", "poisson,requests=60,rate=5,output=40,acceptance=1"},
                                       {"replicas", 2},
                                       {"prefill_replicas", 1},
                                       {"speculative_config", guessing(2, false)}});
  EXPECT_EQ(result["output_tokens"], 60 * 40);
  EXPECT_EQ(result["spec_decode_num_drafts"], 60 * 13);  // the second token is the prompt's last; 38 follow
  EXPECT_EQ(result["spec_decode_mean_acceptance_length"].get<double>(), 1.0 + 60 * 25.0 / (60 * 13));
}

TEST(SimulatedSpeculation, ARecordingReplays) {
  const SimSpec spec = parse_sim_spec(Json{
      {"workload", "uniform,requests=60,output=5-90,acceptance=0.6"},
      {"max_num_seqs", 12},
      {"kv_blocks", 60},
      {"schedule_conservativeness", 0},
      {"speculative_config",
       guessing(4, true)}}.dump());
  const Workload workload = load_workload(spec);
  std::vector<std::byte> bytes;
  TraceEncoder encoder(
      [&](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, true);
  encoder.begin(to_json(resolved_setup(spec.options, workload)));
  const SimResult result = run_simulation(spec.options, workload, SteadyClock(), {.trace = &encoder, .progress = {}});
  EXPECT_GT(result.scheduler.preemptions, 0);
  EXPECT_GT(result.scheduler.accepted_tokens, 500);
  const ReplayResult replayed = replay_trace(decode_trace(bytes), {});
  EXPECT_FALSE(replayed.difference.has_value());
  EXPECT_EQ(replayed.requests, 60);
}

}  // namespace
}  // namespace inflight
