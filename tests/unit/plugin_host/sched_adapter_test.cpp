// SPDX-License-Identifier: Apache-2.0
// Goal: what a policy asks costs what its header says, and what it is asked for in vain is told with the reason.
// Method: policies made here, in a SchedulerWorld; more of the adapter is tested in plugin_host_test.cpp.
#include "plugin_host/sched_adapter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "inflight/plugin.hpp"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

// Of this thread alone: what others do on the machine takes no part in it.
int64_t computed_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Asks what is stored of everybody who waits.
struct MatchesAll {
  static constexpr Policy kPolicy = sched_policy("test.matches-all", "asks for everybody's prefix");
  explicit MatchesAll(const SchedSetup& setup) : host(setup.host) {}
  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    std::vector<uint32_t> tokens(waiting.count);
    const int64_t begin = computed_ns();
    const bool answered = host.match_prefix(waiting.slot, waiting.count, tokens.data());
    shortest = std::min(shortest, computed_ns() - begin);
    for (uint32_t i = 0; i < waiting.count; ++i) key0[i] = -int64_t{tokens[i]};
    return answered ? INFLIGHT_PLUGIN_OK : INFLIGHT_PLUGIN_E_INTERNAL;
  }
  PluginHost host;
  static inline int64_t shortest = 0;
};

// Eight times as many who wait take about eight times as long, not 64 times.
TEST(SchedAdapter, MatchingPrefixesOfAllWhoWaitTakesTimeInProportion) {
  const auto shortest = [](TokenId count) {
    WorldOptions options;
    options.config = {.max_num_seqs = 6, .max_num_batched_tokens = 40, .max_model_len = 100, .max_requests = 10'000};
    options.blocks = {.block_count = 40, .block_token_count = 4};
    const inflight_policy_t& policy = *plugin_detail::describe<MatchesAll>();
    SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 10'000}, {});
    SchedulerWorld world(options, &adapter);
    for (TokenId i = 0; i < count; ++i) world.add({.prompt = {1, 2, 3, i % 60}, .max_tokens = 50});
    MatchesAll::shortest = std::numeric_limits<int64_t>::max();
    for (int i = 0; i < 8; ++i) world.step();
    EXPECT_EQ(adapter.instance().strike_count(), 0);
    return static_cast<double>(MatchesAll::shortest);
  };
  const double one = shortest(1000), eight = shortest(8000);
  EXPECT_LT(eight / one, 24) << one << " ns, " << eight << " ns";
}

constexpr inflight_param_t kLevel[] = {
    {"level", INFLIGHT_TYPE_INT64, INFLIGHT_PARAM_RUNTIME, "1", nullptr, nullptr, "does nothing"}};
struct Leveled {
  static constexpr Policy kPolicy = sched_policy("test.leveled", "has a parameter").takes(kLevel);
  explicit Leveled(const SchedSetup&) {}
};

TEST(SchedAdapter, SaysWhyAParameterWasNotSet) {
  const inflight_policy_t& described = *plugin_detail::describe<Leveled>();
  inflight_sched_ops_t ops = *described.sched;
  inflight_policy_t policy = described;
  policy.sched = &ops;
  const auto refusal = [&] {
    SchedAdapter adapter(policy, PluginConfig(policy, {}), {}, {.report_folder = ""});
    try {
      adapter.set_parameters({{"level", "2"}}, 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "policy test.leveled says that level can change, but has no set_param()");
  ops.set_param = [](void*, const inflight_key_value_t*) {
    return inflight_plugin_status_t{INFLIGHT_PLUGIN_E_ARGUMENT};
  };
  EXPECT_EQ(refusal(), "policy test.leveled refuses level=2");
  ops.set_param = [](void*, const inflight_key_value_t*) -> inflight_plugin_status_t { throw 1; };
  EXPECT_TRUE(refusal().starts_with("level=2 was not set: policy test.leveled was taken out in set_param(): "))
      << refusal();
}

}  // namespace
}  // namespace inflight::test
