// SPDX-License-Identifier: Apache-2.0
// Goal: a recording says the same as whoever made it counted himself. Method: simulated runs are recorded and read
// again; decisions, latencies, totals and the length of each step must be those of the simulation's own result.
#include "sim/recorded_run.h"

#include <gtest/gtest.h>

#include "sim/simulation.h"
#include "sim/workload_spec.h"

namespace inflight {
namespace {

struct RecordedSim {
  SimResult result;
  std::vector<TraceRecord> records;
};

RecordedSim record_simulation(const std::string& workload, const SimOptions& options) {
  std::vector<std::byte> bytes;
  TraceEncoder encoder(
      [&](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, true);
  RecordedSim recorded;
  const Workload requests = make_workload(workload);
  encoder.begin(to_json(resolved_setup(options, requests)));
  recorded.result = run_simulation(options, requests, SteadyClock(), {.trace = &encoder, .progress = {}});
  recorded.records = decode_trace(bytes);
  return recorded;
}

SimOptions tight_options(bool overlap) {
  SimOptions options{.setup = {}, .device = find_device_profile("pocl-135m"), .overlap = overlap};
  options.setup.config.max_num_seqs = 8;
  options.setup.config.max_num_batched_tokens = 128;
  options.setup.blocks.block_count = 40;  // tight: some are preempted
  return options;
}

void expect_same(const LatencySummary& a, const LatencySummary& b) {
  for (const auto member : {&LatencySummary::mean, &LatencySummary::p50, &LatencySummary::p95, &LatencySummary::max}) {
    EXPECT_DOUBLE_EQ(a.*member, b.*member);
  }
}

TEST(RecordedRun, SaysWhatTheSimulationCounted) {
  int64_t preemptions = 0;
  for (const bool overlap : {false, true}) {
    for (const char* const workload :
         {"bimodal,requests=60,output=mix:0.8:10-50:100-200", "poisson,requests=60,rate=3,prompt=10-300,output=1-90",
          "multiturn,requests=40,rate=2,prompt=20,prefix=64,turns=4,output=30",
          "uniform,requests=40,output=10-100,acceptance=0.8"}) {
      SimOptions options = tight_options(overlap);
      options.device.local_window = 50;
      options.device.local_share = overlap ? 0.8 : 0.0;
      options.setup.config.num_speculative_tokens = make_workload(workload).acceptance ? 3 : 0;
      const auto [result, records] = record_simulation(workload, options);
      const RecordedRun run = read_recorded_run(records, 0);
      EXPECT_EQ(run.decision_hash, result.decision_hash);
      EXPECT_EQ(static_cast<int64_t>(run.steps.size()), result.scheduler.steps);
      EXPECT_EQ(run.output_tokens, result.scheduler.output_tokens);
      EXPECT_EQ(run.prompt_tokens, result.scheduler.prompt_tokens);
      EXPECT_EQ(run.cached_tokens, result.scheduler.cached_tokens);
      EXPECT_EQ(run.preemptions, result.scheduler.preemptions);
      EXPECT_EQ(run.guesses.drafts, result.scheduler.drafts);
      EXPECT_EQ(run.guesses.draft_tokens, result.scheduler.draft_tokens);
      EXPECT_EQ(run.guesses.accepted_tokens, result.scheduler.accepted_tokens);
      EXPECT_EQ(run.used_slots, result.scheduler.used_slot_steps);
      int64_t pairs = 0;
      for (const RecordedStep& step : run.steps)
        pairs += step.work.decode_context + step.work.draft_pairs + step.work.prefill_pairs;
      EXPECT_EQ(pairs, result.scheduler.attended_tokens);
      EXPECT_EQ(run.finished, std::ssize(result.requests));
      EXPECT_EQ(run.end, result.makespan);
      expect_same(run.ttft, result.ttft);
      expect_same(run.itl, result.itl);
      expect_same(run.e2e, result.e2e);
      preemptions += run.preemptions;
    }
  }
  EXPECT_GT(preemptions, 0);
}

// Who arrives at an idle engine waits for it to wake; who arrives while it is busy does not wait for that.
TEST(RecordedRun, SaysHowLongAnIdleEngineTookToWake) {
  SimOptions options = tight_options(true);
  const char* const workload = "poisson,requests=50,rate=4,prompt=10-300,output=1-90";
  const auto [awake, ignored] = record_simulation(workload, options);
  options.device.pickup_us = 700.0;
  const auto [result, records] = record_simulation(workload, options);
  const RecordedRun run = read_recorded_run(records, 0);
  EXPECT_GT(run.pickups.size(), 2U);
  EXPECT_LT(run.pickups.size(), 50U);
  for (const TimeNs pickup : run.pickups) EXPECT_EQ(pickup, 700'000);
  EXPECT_GT(result.ttft.mean, awake.ttft.mean);
  expect_same(run.ttft, result.ttft);
}

TEST(RecordedRun, StepsLastAsLongAsTheDeviceSays) {
  SimOptions options = tight_options(false);
  options.device.host_us = options.device.host_sequence_us = 0.0;
  options.device.wake_us = 300.0;
  options.device.warm_us = 200.0;
  options.device.idle_us = 1000.0;
  const DeviceModel model(options.device);
  const auto [result, records] = record_simulation("poisson,requests=50,rate=4,prompt=10-300,output=1-90", options);
  const RecordedRun run = read_recorded_run(records, 0);
  int64_t prompts = 0, rests = 0;
  for (const RecordedStep& step : run.steps) {
    EXPECT_EQ(step.duration, model.device_time(step.work)) << step.number;
    prompts += step.work.prefill_pairs > 0;
    rests += step.work.wake > 0.0;
    EXPECT_EQ(step.work.wake > 0.0, step.after_idle);
  }
  EXPECT_GT(prompts, 10);
  EXPECT_GT(rests, 2);
}

// A recording does not say which tokens were guesses: they stand behind all that was known.
TEST(RecordedRun, KnowsGuessesFromPrompts) {
  SimOptions options = tight_options(false);
  options.device.host_us = options.device.host_sequence_us = 0.0;
  options.setup.config.num_speculative_tokens = 3;
  const DeviceModel model(options.device);
  const auto [result, records] =
      record_simulation("closed,requests=30,prompt=10-300,output=1-90,acceptance=0.7", options);
  EXPECT_GT(result.scheduler.preemptions, 0);
  int64_t guesses = 0;
  for (const RecordedStep& step : read_recorded_run(records, 0).steps) {
    EXPECT_EQ(step.duration, model.device_time(step.work)) << step.number;
    guesses += step.work.draft_tokens;
  }
  EXPECT_EQ(guesses, result.scheduler.draft_tokens);
}

// With overlap a step runs for nobody after each stop: who comes later finds an engine that has rested since its end.
TEST(RecordedRun, ARestBeginsWhenTheStepForNobodyHasEnded) {
  SimOptions options = tight_options(true);
  options.device = find_device_profile("unit,wake_us=100,idle_us=50");
  options.setup.config.max_model_len = 64;
  const auto [result, records] =
      record_simulation("poisson,requests=20,rate=20,prompt=8,output=3,max_tokens=9", options);
  const RecordedRun run = read_recorded_run(records, 0);
  const DeviceModel model(options.device);
  for (const RecordedStep& step : run.steps) {
    if (step.ended == 0) continue;  // the last one, for nobody
    EXPECT_EQ(step.duration, model.device_time(step.work)) << step.number;
  }
  EXPECT_EQ(run.finished, 20);
}

// Only a policy ends a request by an error before its first step.
TEST(RecordedRun, TellsWhoWasRejectedFromWhoFailed) {
  std::vector<std::byte> bytes;
  TraceEncoder encoder(
      [&](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, true);
  Request request;
  request.prompt = {1, 2, 3};
  for (uint64_t id = 1; id <= 3; ++id) encoder.on_add(static_cast<SequenceId>(id), request, request.prompt, 0);
  BatchPlan plan;
  plan.step = 1;
  for (const uint64_t id : {1, 2}) {
    BatchEntry& entry = plan.entries.emplace_back();
    entry.sequence = static_cast<SequenceId>(id);
    entry.scheduled_token_count = 3;
  }
  encoder.on_plan({.plan = plan, .refusals = {}, .preemptions = {}}, 5);
  encoder.on_finish(static_cast<SequenceId>(3), FinishReason::Error, 5);
  encoder.on_finish(static_cast<SequenceId>(1), FinishReason::Error, 10);
  encoder.on_finish(static_cast<SequenceId>(2), FinishReason::Length, 10);
  const RecordedRun run = read_recorded_run(decode_trace(bytes), 0);
  EXPECT_EQ(run.finished, 1);
  EXPECT_EQ(run.rejected, 1);
  EXPECT_EQ(run.failed, 1);
  EXPECT_DOUBLE_EQ(run.e2e.max, 10e-6);
}

// What was before, even an open engine's warming up, is not in it; who came while it was held arrived at the begin.
TEST(RecordedRun, BeginsWhereItIsTold) {
  std::vector<std::byte> bytes;
  TraceEncoder encoder(
      [&](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, true);
  Request request;
  request.prompt = {1, 2, 3};
  BatchPlan plan;
  const auto serve = [&](uint64_t id, TimeNs arrival, TimeNs planned, TimeNs ended) {
    request.arrival = arrival;
    encoder.on_add(static_cast<SequenceId>(id), request, request.prompt, arrival);
    plan.clear();
    plan.step = id;
    plan.entries.emplace_back();
    plan.entries[0].sequence = static_cast<SequenceId>(id);
    plan.entries[0].scheduled_token_count = 3;
    encoder.on_plan({.plan = plan, .refusals = {}, .preemptions = {}}, planned);
    encoder.on_commit({.step = id, .sampled = {{.sequence = static_cast<SequenceId>(id), .token = 5}}}, ended);
    encoder.on_finish(static_cast<SequenceId>(id), FinishReason::Length, ended);
  };
  serve(1, 10, 11, 20);
  serve(2, 25, 31, 40);
  const RecordedRun run = read_recorded_run(decode_trace(bytes), 30);
  ASSERT_EQ(run.steps.size(), 1U);
  EXPECT_EQ(run.finished, 1);
  EXPECT_EQ(run.steps[0].duration, 9);
  EXPECT_EQ(run.steps[0].work.tokens, 3);
  EXPECT_DOUBLE_EQ(run.ttft.max, 10e-6);
  EXPECT_EQ(run.begin, 30);
  EXPECT_EQ(run.end, 40);
}

TEST(LatencySummary, DashesStandWhereNothingWasTimed) {
  EXPECT_EQ(table_row("TTFT", LatencySummary::of(std::vector<TimeNs>{})).find_first_of("0123456789"),
            std::string::npos);
  EXPECT_NE(table_row("TTFT", LatencySummary::of({2'500'000})).find("2.500"), std::string::npos);
}

}  // namespace
}  // namespace inflight
