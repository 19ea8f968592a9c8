// SPDX-License-Identifier: Apache-2.0
// Goal: service is counted while all tenants wait, and only then; the figures are those worked out by hand.
#include "sim/service_fairness.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "sim/sim_result.h"
#include "sim/sim_spec.h"

namespace inflight {
namespace {

constexpr TimeNs kNsOfASecond = 1'000'000'000;

// A request's times in seconds.
struct Times {
  uint32_t tenant;
  TimeNs arrival, started, first_token, end;
  bool rejected = false;  // at the end
};

ServiceFairness fairness_of(std::initializer_list<Times> all, int32_t prompt_tokens, int32_t output_tokens,
                            PromptService prompts = PromptService::Whole) {
  Workload workload;
  std::vector<RequestRecord> records;
  for (const Times& times : all) {
    const ContentSegment prompt[] = {{1, 0, prompt_tokens}};
    records.push_back({.request = static_cast<int32_t>(workload.requests.size()),
                       .arrival = times.arrival * kNsOfASecond,
                       .first_scheduled = times.rejected ? kNotYet : times.started * kNsOfASecond,
                       .first_token = times.rejected ? kNotYet : times.first_token * kNsOfASecond,
                       .end = times.end * kNsOfASecond,
                       .cached_tokens = prompt_tokens / 2,
                       .output_tokens = output_tokens,
                       .reason = times.rejected ? FinishReason::Error : FinishReason::Length});
    workload.add({.output_tokens = output_tokens, .tenant = times.tenant}, prompt);
  }
  return service_fairness(records, workload, prompts);
}

// Two tenants, two requests each, all there at 0; a prompt of 10 and 5 outputs (2 + 4 evenly at 2 a second): one after
// the other, 0 0 1 1. Tenant 1 waits until 6, tenant 0 until 3. So both wait for 3 s, and by then (its second request
// starts at 3, which was decided while both waited) tenant 0 has got 10 + 10 and 10 more, tenant 1 nothing.
TEST(ServiceFairness, OneAfterTheOther) {
  const ServiceFairness unfair =
      fairness_of({{0, 0, 0, 1, 3}, {0, 0, 3, 4, 6}, {1, 0, 6, 7, 9}, {1, 0, 9, 10, 12}}, 10, 5);
  EXPECT_DOUBLE_EQ(unfair.backlogged_s, 3.0);
  EXPECT_DOUBLE_EQ(unfair.gap_max_tokens, 20.0);  // the first one started before both were seen to wait
  EXPECT_DOUBLE_EQ(unfair.index, 0.5);
}

// Tenant 1 is turned away at 6: until 3 both wait, and tenant 0 gets all.
TEST(ServiceFairness, WhoIsTurnedAwayHasWaited) {
  const ServiceFairness unfair = fairness_of({{0, 0, 0, 1, 3}, {0, 0, 3, 4, 6}, {1, 0, 0, 0, 6, true}}, 10, 5);
  EXPECT_DOUBLE_EQ(unfair.backlogged_s, 3.0);
  EXPECT_DOUBLE_EQ(unfair.index, 0.5);
}

// By turns, 0 1 0 1: both wait until 6, when tenant 0's second request starts. At 3 tenant 0 has got 10 outputs' worth
// and tenant 1 its prompt, at 6 tenant 1 its outputs and tenant 0 its second prompt.
TEST(ServiceFairness, ByTurns) {
  const ServiceFairness fair =
      fairness_of({{0, 0, 0, 1, 3}, {1, 0, 3, 4, 6}, {0, 0, 6, 7, 9}, {1, 0, 9, 10, 12}}, 10, 5);
  EXPECT_DOUBLE_EQ(fair.backlogged_s, 6.0);
  EXPECT_DOUBLE_EQ(fair.gap_max_tokens, 10.0);
  EXPECT_DOUBLE_EQ(fair.index, 1.0);
}

// The same with half of each prompt stored: before its prompt tenant 1 has got nothing and tenant 0 its outputs, at the
// end tenant 1 has 5 + 10 and tenant 0 10 + 5.
TEST(ServiceFairness, OfWhatWasComputed) {
  const ServiceFairness fair = fairness_of({{0, 0, 0, 1, 3}, {1, 0, 3, 4, 6}, {0, 0, 6, 7, 9}, {1, 0, 9, 10, 12}}, 10,
                                           5, PromptService::Computed);
  EXPECT_DOUBLE_EQ(fair.gap_max_tokens, 10.0);
  EXPECT_DOUBLE_EQ(fair.index, 1.0);
  const ServiceFairness unfair = fairness_of({{0, 0, 0, 1, 3}, {0, 0, 3, 4, 6}, {1, 0, 6, 7, 9}, {1, 0, 9, 10, 12}}, 10,
                                             5, PromptService::Computed);
  EXPECT_DOUBLE_EQ(unfair.gap_max_tokens, 15.0);
}

// Whoever asks for little is not treated unfairly by getting little.
TEST(ServiceFairness, NobodyCompetes) {
  const ServiceFairness alone = fairness_of({{0, 0, 0, 1, 3}, {0, 0, 3, 4, 6}, {1, 5, 6, 7, 8}}, 10, 5);
  EXPECT_EQ(alone.backlogged_s, 0.0);
  EXPECT_EQ(alone.gap_max_tokens, 0.0);
  EXPECT_EQ(alone.index, 1.0);
  EXPECT_EQ(fairness_of({{0, 0, 0, 1, 3}, {0, 0, 3, 4, 6}}, 10, 5).index, 1.0);
}

// Four fifths of 2,000 equal requests are tenant 0's, all there from the begin: first come, first served gives it four
// times the service of the other, (4 + 1)^2 / (2 * (16 + 1)) = 0.735; VTC the same to both.
TEST(ServiceFairness, TellsVtcFromFcfs) {
  const auto run = [](const char* policy) {
    const SimSpec spec = parse_sim_spec(fmt::format(
        R"({{"workload": "tenants,requests=2000,tenants=2,tenant_skew=2,arrivals=all,prompt=256,output=128",
             "schedule_policy": "{}"}})",
        policy));
    return run_simulation(spec.options, load_workload(spec), SteadyClock()).fairness;
  };
  const ServiceFairness fcfs = run("fcfs"), vtc = run("vtc");
  EXPECT_NEAR(fcfs.index, 25.0 / 34.0, 0.03);
  EXPECT_GE(vtc.index, 0.99);
  // Theorem 4.4: 2 max(w_p * L_input, w_q * M), 64 sequences of 256 + 128 tokens.
  EXPECT_LE(vtc.gap_max_tokens, 2.0 * 2.0 * 64 * 384);
  EXPECT_GT(fcfs.gap_max_tokens, 2.0 * 2.0 * 64 * 384);
}

}  // namespace
}  // namespace inflight
