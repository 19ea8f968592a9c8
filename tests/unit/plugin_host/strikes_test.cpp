// SPDX-License-Identifier: Apache-2.0
// Goal: what counts as a strike, and how many take a policy out.
// Method: calls of an instance one by one.
// Covers: plugin_host/policy_instance.cpp
#include <gtest/gtest.h>
#include <unistd.h>

#include "plugin_host/plugin_guard.h"
#include "support/loaded_policies.h"

namespace inflight::test {
namespace {

std::unique_ptr<SchedAdapter> make_policy(const Clock* clock) {
  return make_schedule_policy("fcfs", setup_of({}), {.clock = clock, .real_time = true, .report_folder = ""});
}

// Strikes after the first and after the second call of an op that does this.
template <typename Op>
std::vector<int64_t> strikes_of(const Clock& clock, Op&& op) {
  const auto policy = make_policy(&clock);
  std::vector<int64_t> strikes;
  for (int i = 0; i < 2; ++i) {
    policy->instance().call("score", 0, [&] {
      op();
      return INFLIGHT_PLUGIN_OK;
    });
    strikes.push_back(policy->instance().strike_count());
  }
  return strikes;
}

// By which every op takes 30 ms.
class PausingClock final : public Clock {
 public:
  TimeNs now() const override { return now_ += 30'000'000; }

 private:
  mutable TimeNs now_ = 0;
};

// An op whose time somebody else had is spared; one that computes or sleeps is not, but for the first.
TEST(Strikes, TimeThatTheSystemTookIsNotThePolicys) {
  const SteadyClock real;
  const auto compute = [] {
    const int64_t begin = thread_use().computed_ns;
    while (thread_use().computed_ns - begin < 25'000'000) {
    }
  };
  EXPECT_EQ(strikes_of(PausingClock(), [] {}), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(strikes_of(real, [] { ::usleep(25'000); }), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(strikes_of(real, compute), (std::vector<int64_t>{0, 1}));
}

// Whatever the number of the step in which they begin.
TEST(Strikes, EightWithinAThousandStepsTakeItOut) {
  const auto policy = make_policy(nullptr);
  PolicyInstance& instance = policy->instance();
  for (const uint64_t step : {1, 2, 3, 994, 995, 996, 997, 1001}) {  // the first is too old by the last
    instance.at_step(step);
    instance.strike("score", "test");
  }
  EXPECT_TRUE(instance.active());
  instance.at_step(1002);  // so is the second; 3 is not
  instance.strike("score", "test");
  EXPECT_TRUE(instance.active());
  instance.strike("score", "test");
  EXPECT_FALSE(instance.active());
  EXPECT_EQ(instance.strike_count(), 10);
}

}  // namespace
}  // namespace inflight::test
