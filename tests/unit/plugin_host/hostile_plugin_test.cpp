// SPDX-License-Identifier: Apache-2.0
// Covers: plugin_host/plugin_guard.cpp, plugin_host/policy_report.cpp
// Goal: a policy that crashes, throws or does not return is taken out in the middle of a run; every request ends with
// the output it has alone, the decisions after it are those of the built-in policy, and the report names the fault.
// Method: tests/plugins/hostile.cpp misbehaves in score(); the guard itself with plain functions.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "inflight/plugin.hpp"
#include "plugin_host/plugin_guard.h"
#include "sim/sim_spec.h"
#include "support/loaded_policies.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsArrive = false;  // ThreadSanitizer holds them back until the next library call
#else
constexpr bool kSignalsArrive = true;
#endif
constexpr int kStuckMs = 30;
int* volatile nowhere = nullptr;
[[gnu::no_sanitize("undefined")]] void crash() { *nowhere = 1; }

std::string hostile(const std::string& fault) {
  return std::string(TEST_PLUGIN_DIR) + "/hostile.ifp.so:fault=" + fault;
}

WorldOptions small_world() {
  WorldOptions options;
  options.config = {.max_num_seqs = 4, .max_num_batched_tokens = 32, .max_model_len = 100, .max_requests = 1000};
  options.blocks = {.block_count = 60, .block_token_count = 4};
  return options;
}

std::vector<std::string> plans_with(SchedulePolicy* policy) {
  SchedulerWorld world(small_world(), policy);
  Rng rng(4);
  std::vector<std::string> plans;
  for (int i = 0; i < 120; ++i) {
    std::vector<TokenId> prompt(static_cast<size_t>(rng.between(1, 40)), 5);
    for (size_t k = prompt.size() / 2; k < prompt.size(); ++k) prompt[k] = rng.between(0, 63);
    if (rng.chance(0.5)) world.add({.prompt = prompt, .max_tokens = rng.between(1, 20)});
    world.step();
    plans.push_back(world.last_plan_text());
  }
  world.run();
  for (const auto& [id, record] : world.records()) EXPECT_EQ(record.finish, FinishReason::Length) << id;
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
  return plans;
}

struct HostileFault {
  const char* name;
  const char* reason;
  const char* says;
};
class HostilePolicy : public testing::TestWithParam<HostileFault> {
 protected:
  TempFolder folder_;
};

TEST_P(HostilePolicy, IsTakenOutAndReported) {
  const auto& [name, reason, says] = GetParam();
  if (std::string(reason) == "stuck" && !kSignalsArrive) GTEST_SKIP();
  // The others have the time that they need: to fill a stack takes a while.
  const int32_t stuck_after_ms = std::string(reason) == "stuck" ? kStuckMs : 60'000;
  const auto policy = make_schedule_policy(hostile(name), setup_of(small_world()),
                                           {.stuck_after_ms = stuck_after_ms, .report_folder = folder_.path()});
  EXPECT_TRUE(policy->instance().guarded());
  EXPECT_EQ(plans_with(policy.get()), plans_with(nullptr));  // it orders as the built-in does, then is the built-in
  EXPECT_FALSE(policy->instance().active());
  EXPECT_NE(policy->instance().exit_message().find(says), std::string::npos) << policy->instance().exit_message();

  std::ifstream stream(policy->instance().report_path());
  ASSERT_TRUE(stream.good());
  const auto report = nlohmann::json::parse(stream);
  EXPECT_EQ(report["policy"]["id"], "test.hostile");
  EXPECT_EQ(report["policy"]["version"], "6.6");
  EXPECT_EQ(report["policy"]["spec"], hostile(name));
  EXPECT_EQ(report["policy"]["sha256"].get<std::string>().size(), 64U);
  EXPECT_EQ(report["fault"]["reason"], reason);
  EXPECT_EQ(report["fault"]["op"], "score");
  EXPECT_NE(report["fault"]["message"].get<std::string>().find(says), std::string::npos);
  EXPECT_GE(report["step"].get<int>(), 20);
  EXPECT_EQ(report["inputs"]["step"]["step"], report["step"]);
  EXPECT_GE(report["inputs"]["step"]["waiting"]["id"].size(), 1U);
  EXPECT_EQ(report["inputs"]["answer"]["key0"].size(), report["inputs"]["step"]["waiting"]["count"]);
  EXPECT_EQ(report["recent_calls"].back()["op"], "score");
  EXPECT_EQ(report["host"]["name"], "inflight");
}
INSTANTIATE_TEST_SUITE_P(All, HostilePolicy,
                         testing::Values(HostileFault{"segv", "crash", "crashed with SIGSEGV"},
                                         HostileFault{"abort", "crash", "crashed with SIGABRT"},
                                         HostileFault{"divide", "crash", "crashed with SIGFPE"},
                                         HostileFault{"illegal", "crash", "crashed with SIGILL"},
                                         HostileFault{"overflow", "crash", "crashed with SIG"},
                                         HostileFault{"bad_text", "crash", "crashed with SIGSEGV"},
                                         HostileFault{"throw", "abi", "let an exception: not my day out"},
                                         HostileFault{"throw_int", "abi", "let an exception of unknown type out"},
                                         HostileFault{"loop", "stuck", "did not return within 30 ms"},
                                         HostileFault{"loop_malloc", "stuck", "did not return"},
                                         HostileFault{"loop_log", "stuck", "did not return"},
                                         HostileFault{"sleep", "stuck", "did not return"},
                                         HostileFault{"nap", "stuck", "did not return within 30 ms"},
                                         HostileFault{"pipe", "stuck", "did not return"},
                                         HostileFault{"lock", "stuck", "did not return"}),
                         [](const auto& test) { return test.param.name; });

// A run that a policy cut off is not taken for one that came to its end.
TEST(HostilePolicyAlone, EndingTheProcessIsSaidAndIsAFailure) {
  for (const char* fault : {"exit_process", "quick_exit"}) {
    const auto run = [fault] {
      set_log_sink([](LogLevel, std::string_view line) { std::cerr << line << std::endl; }, LogLevel::Error);
      const auto policy = make_schedule_policy(hostile(fault), setup_of(small_world()), {});
      std::ignore = plans_with(policy.get());
    };
    EXPECT_EXIT(run(), testing::ExitedWithCode(1), "policy test.hostile ended the process in score\\(\\)") << fault;
  }
}

TEST(HostilePolicyAlone, CrashingInCreateIsAnError) {
  try {
    static_cast<void>(make_schedule_policy(hostile("create"), setup_of(small_world()), {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("create() failed: SIGSEGV"), std::string::npos) << error.what();
  }
}

TEST(HostilePolicyAlone, CrashingAtItsEndHurtsNobody) {
  for (const char* fault : {"exit", "destroy"}) {
    std::string log;
    set_log_sink([&log](LogLevel, std::string_view line) { log += line; }, LogLevel::Warning);
    make_schedule_policy(hostile(fault), setup_of(small_world()), {}).reset();
    set_log_sink({}, LogLevel::Error);
    EXPECT_NE(log.find("its exit() or destroy() failed: "), std::string::npos) << fault << ": " << log;
  }
}

TEST(HostilePolicyAlone, ExceptionsAreCaughtInlineToo) {
  const auto policy = make_schedule_policy(hostile("throw"), setup_of(small_world()),
                                           {.mode = PluginMode::Inline, .report_folder = ""});
  EXPECT_FALSE(policy->instance().guarded());
  plans_with(policy.get());
  EXPECT_EQ(policy->instance().exit_reason(), INFLIGHT_EXIT_ABI);
  EXPECT_EQ(policy->instance().report_path(), "");
}

// Gives metrics good and bad names in each step.
struct Namer {
  static constexpr Policy kPolicy = sched_policy("test.namer", "names metrics");
  explicit Namer(const SchedSetup& setup) : host(setup.host) {}
  inflight_plugin_status_t plan(const inflight_step_t& step, inflight_plan_t&) {
    for (const char* name : {"_fine:Name_2", "caf\xe9", "caf\u00e9", "a b", "2fast", ""}) {
      host.metric(name, static_cast<double>(step.step));
    }
    host.metric(nullptr, 1.0);
    return INFLIGHT_PLUGIN_OK;
  }
  PluginHost host;
};

TEST(PolicyMetrics, WhoseNameJsonAndPrometheusDoNotTakeAreLeftOut) {
  const inflight_policy_t& policy = *plugin_detail::describe<Namer>();
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; }, LogLevel::Debug);
  SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 100}, {.report_folder = ""});
  plans_with(&adapter);
  set_log_sink({}, LogLevel::Debug);
  const auto& metrics = adapter.instance().metrics();
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_GT(metrics.at("_fine:Name_2"), 100.0);
  EXPECT_EQ(adapter.instance().strike_count(), 0);
  const std::string line = "policy test.namer: gave a metric the name 'caf\\xE9', allowed: [a-zA-Z_:][a-zA-Z0-9_:]*\n";
  EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_LE(std::ranges::count(log, '\n'), 2 * PolicyInstance::kLogLinesMax);
}

// The figures of a run are not the policy's from there on.
TEST(Simulation, SaysThatAPolicyWasTakenOut) {
  const std::string json = fmt::format(
      R"({{"workload": "closed,requests=40", "max_num_seqs": 4, "schedule_policy": "{}"}})", hostile("segv,from=3"));
  const SimSpec spec = parse_sim_spec(json);
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
  EXPECT_EQ(result.scheduler.requests_finished, 40);
  ASSERT_EQ(result.policies_taken_out.size(), 1U);
  EXPECT_EQ(result.policies_taken_out[0].step, 3U);
  EXPECT_NE(result.policies_taken_out[0].message.find("was taken out in"), std::string::npos);
  EXPECT_NE(to_json(result).find("was taken out in"), std::string::npos);
}

constexpr size_t kFrameBytes = size_t{64} << 10;
volatile int end_of_descent = -1;
[[gnu::noinline]] int descend(int depth) {  // frames of which only the end is touched
  volatile char frame[kFrameBytes];
  frame[0] = static_cast<char>(depth);
  return depth == end_of_descent ? 0 : descend(depth + 1) + frame[0];
}

// A thread whose stack has no guard page at all, with memory of somebody else right below it.
TEST(Guard, EndsARecursionWithLargeFramesBeforeItLeavesTheStack) {
  constexpr size_t kStack = size_t{8} << 20, kBelow = size_t{1} << 20;
  void* const mapped = ::mmap(nullptr, kBelow + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const below = static_cast<unsigned char*>(mapped);
  std::fill_n(below, kBelow, static_cast<unsigned char>(0xA5));
  for (int round = 0; round < 3; ++round) {
    pthread_attr_t attributes;
    ASSERT_EQ(::pthread_attr_init(&attributes), 0);
    ASSERT_EQ(::pthread_attr_setstack(&attributes, below + kBelow, kStack), 0);
    GuardResult result;
    pthread_t thread{};
    const auto body = [](void* to) -> void* {
      *static_cast<GuardResult*>(to) = run_guarded({}, [] { static_cast<void>(descend(0)); });
      return nullptr;
    };
    ASSERT_EQ(::pthread_create(&thread, &attributes, body, &result), 0);
    ASSERT_EQ(::pthread_join(thread, nullptr), 0);
    ::pthread_attr_destroy(&attributes);
    EXPECT_EQ(result.outcome, GuardOutcome::Crashed);
    EXPECT_EQ(std::count(below, below + kBelow, static_cast<unsigned char>(0xA5)), static_cast<std::ptrdiff_t>(kBelow));
    std::fill_n(below + kBelow, kStack, static_cast<unsigned char>(0));  // open again: any thread may have it
  }
  ::munmap(mapped, kBelow + kStack);
}

TEST(Guard, GivesBackTheStackAfterACrashAndWorksAgain) {
  for (int i = 0; i < 3; ++i) {
    const GuardResult crashed = run_guarded({}, [] { crash(); });
    EXPECT_EQ(crashed.outcome, GuardOutcome::Crashed);
    EXPECT_EQ(crashed.what, "SIGSEGV");
    int ran = 0;
    EXPECT_EQ(run_guarded({}, [&] { ran = 5; }).outcome, GuardOutcome::Returned);
    EXPECT_EQ(ran, 5);
  }
}

// Such a call begins again after each signal, so it looks as if it were about to begin.
TEST(Guard, CutsACallThatWaitsInTheKernelBeforeTheLastTry) {
  if (!kSignalsArrive) GTEST_SKIP();
  const CallWatchUser watched;
  const GuardLimits limits{.code = {}, .stuck_after_ms = kStuckMs};
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  char byte = 0;
  const GuardResult reading = run_guarded(limits, [&] { static_cast<void>(::read(ends[0], &byte, 1)); });
  EXPECT_EQ(reading.outcome, GuardOutcome::Stuck);
  EXPECT_LT(reading.cut_tries, kCutTriesLast);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const GuardResult locking = run_guarded(limits, [&] {
    ::pthread_mutex_lock(&mutex);
    ::pthread_mutex_lock(&mutex);
  });
  EXPECT_EQ(locking.outcome, GuardOutcome::Stuck);
  EXPECT_LT(locking.cut_tries, kCutTriesLast);
  ::close(ends[0]);
  ::close(ends[1]);
}

// The watchdog's signal ends a sleep: that the call then returns does not make it less late.
TEST(Guard, ACallThatTheSignalEndsIsStuckToo) {
  if (!kSignalsArrive) GTEST_SKIP();
  const CallWatchUser watched;
  unsigned left = 0;
  const GuardResult result = run_guarded({.code = {}, .stuck_after_ms = kStuckMs}, [&] { left = ::sleep(30); });
  EXPECT_EQ(result.outcome, GuardOutcome::Stuck);
  EXPECT_EQ(result.what, "it did not return in time");
  EXPECT_GT(left, 0U);
  EXPECT_EQ(run_guarded({}, [] {}).outcome, GuardOutcome::Returned);
}

TEST(Guard, CrashesOutsideOfItAreWhatTheyWere) {
  EXPECT_EQ(run_guarded({}, [] {}).outcome, GuardOutcome::Returned);  // the handlers are there
  EXPECT_DEATH(crash(), "");
  EXPECT_DEATH(::raise(SIGABRT), "");
}

}  // namespace
}  // namespace inflight::test
