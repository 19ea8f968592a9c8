// SPDX-License-Identifier: Apache-2.0
// Goal: a run whose policies are replaced while requests wait and run replays step for step: the new policy decides
// from the same step on, and knows what it knew in the engine. Method: an engine in virtual time with more requests
// than rows and blocks; policies that keep counts and such that do not, built in (on trial for a step) and from files.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

template <typename Content>
int64_t count_of(const std::vector<TraceRecord>& records) {
  return std::ranges::count_if(records,
                               [](const TraceRecord& r) { return std::holds_alternative<Content>(r.content); });
}

class PolicySwap : public testing::Test {
 protected:
  // 300 steps under load, with new policies at the 20th and the 150th.
  std::vector<TraceRecord> record(const std::string& first, const std::string& second) {
    EngineOptions options = EngineWorld::host_driven(engine_options(40));
    options.service.record_path = folder_.file("run.trace");
    EngineWorld world(options);
    Rng rng(1);
    std::vector<OutputStream*> streams;
    for (int i = 0; i < 300; ++i) {
      if (rng.chance(0.3)) {
        SubmitOptions request;
        const int32_t group = rng.between(0, 5);
        for (int32_t k = rng.between(1, 60); k > 0; --k) request.prompt.push_back((group + k * group) % 64);
        request.sampling.max_tokens = rng.between(1, 40);
        request.tenant = static_cast<uint32_t>(rng.below(3));
        request.priority = rng.between(0, 3);
        streams.push_back(world.engine->submit(request));
      }
      if (i == 20) world.engine->set_policy(first);
      if (i == 150) world.engine->set_policy(second);
      world.engine->step();
    }
    EXPECT_GT(world.engine->stats().scheduler.preemptions, 0);
    world.run();
    for (OutputStream* stream : streams) read_answer(stream);
    world.engine.reset();
    auto records = read_recording(options.service.record_path);
    EXPECT_EQ(count_of<TracePolicy>(records), 2) << first << " " << second;  // both took over
    return records;
  }

 private:
  TempFolder folder_;
};

TEST_F(PolicySwap, ReplaysFromTheStepAtWhichItTookPlace) {
  const std::pair<std::string, std::string> swaps[] = {{"sjf", "fcfs"},
                                                       {"vtc", "vtc:weight_output=3"},
                                                       {"dlpm", "hrrn"},
                                                       {"random", "slack"},
                                                       {"sieve", "s3fifo"},
                                                       {"gdsf", "lof"},
                                                       {shipped_plugin("sjf"), shipped_plugin("vtc")},
                                                       {shipped_plugin("s3fifo"), shipped_plugin("lpm")}};
  for (const auto& [first, second] : swaps) {
    const ReplayResult result = replay_trace(record(first, second), {});
    EXPECT_FALSE(result.difference) << first << " " << second << " step " << result.difference->step << "\nrecorded "
                                    << result.difference->recorded << "\nreplayed " << result.difference->replayed;
    EXPECT_GT(result.plans, 300);
  }
}

// Recordings from before trials were recorded: the policy takes over where the recording says so.
TEST_F(PolicySwap, ReplaysWithoutTheBeginOfTheTrial) {
  for (const std::string& policy : {std::string("sjf"), shipped_plugin("sjf")}) {
    auto records = record(policy, "lru");
    EXPECT_EQ(
        std::erase_if(records, [](const TraceRecord& r) { return std::holds_alternative<TraceTrial>(r.content); }), 2U);
    EXPECT_FALSE(replay_trace(records, {}).difference);
  }
}

TEST_F(PolicySwap, APolicyGivenInThePlaceOfTheRecordedOneStays) {
  const auto records = record("sjf", "sieve");
  EXPECT_TRUE(replay_trace(records, {.schedule_policy = "fcfs"}).difference);
  EXPECT_TRUE(replay_trace(records, {.eviction_policy = "lru"}).difference);
}

}  // namespace
}  // namespace inflight::test
