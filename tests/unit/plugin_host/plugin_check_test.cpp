// SPDX-License-Identifier: Apache-2.0
// Covers: plugin_host/plugin_check.cpp, plugin_host/check_file.cpp, plugin_host/check_policies.cpp
// Covers: plugin_host/check_drivers.cpp, plugin_host/check_sched_driver.cpp, plugin_host/check_evict_driver.cpp
// Covers: plugin_host/check_state.cpp, plugin_host/check_liveness.cpp
// Goal: the conformance check finds each kind of mistake, says which policy, op and call, and finds none in the shipped
// policies.
// Method: tests/plugins make one mistake each, chosen by a parameter.
#include "plugin_host/plugin_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

std::vector<CheckResult> check(const CheckOptions& options) {
  return check_plugin(options, [](const CheckResult&) {});
}

struct CheckedFault {
  const char* file;
  const char* fault;  // value of the parameter; "" = it has none
  const char* group;
  const char* says;
};
std::string name_of(const testing::TestParamInfo<CheckedFault>& test) {
  std::string name = std::string(test.param.file) + "_" + test.param.fault + "_" + test.param.group;
  std::ranges::replace(name, '-', '_');
  return name;
}

class FoundByCheck : public testing::TestWithParam<CheckedFault> {};

TEST_P(FoundByCheck, NamesThePlaceAndTheMistake) {
  const auto& [file, fault, group, says] = GetParam();
  CheckOptions options{.path = test_plugin(file), .calls = 400, .limit_seconds = 1, .only = {group}};
  if (*fault != '\0') options.parameters = {{"fault", fault}};
  std::string messages;
  int failed = 0;
  for (const CheckResult& result : check(options)) {
    failed += result.status == CheckStatus::Failed ? 1 : 0;
    messages += result.message + "\n";
  }
  EXPECT_GE(failed, 1);
  EXPECT_NE(messages.find(says), std::string::npos) << messages;
  if (*fault == '\0') return;
  options.parameters = {{"fault", "none"}};  // the same file without the mistake
  options.limit_seconds = 60;
  for (const CheckResult& result : check(options)) {
    EXPECT_NE(result.status, CheckStatus::Failed) << result.name << ": " << result.message;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, FoundByCheck,
    testing::Values(
        CheckedFault{"hostile", "segv", "ops", "test.hostile: score(), call"},
        CheckedFault{"hostile", "abort", "ops", "SIGABRT"},
        CheckedFault{"hostile", "divide", "ops", "crashed with SIGFPE"},
        CheckedFault{"hostile", "overflow", "ops", "crashed with"},
        CheckedFault{"hostile", "throw", "ops", "score(), call 21 with seed 1: let an exception: not my day out"},
        CheckedFault{"hostile", "loop", "ops", "did not return within 1 s"},
        CheckedFault{"hostile", "exit_process", "ops", "test.hostile: score(), call 21: ended the process"},
        CheckedFault{"hostile", "exit_process", "liveness", "ended the process"},
        CheckedFault{"hostile", "quick_exit", "ops", "score(), call 21: ended the process"},
        CheckedFault{"hostile", "_exit", "ops", "score(), call 21: ended the process"},
        CheckedFault{"hostile", "sleep", "liveness", "did not return within 1 s"},
        CheckedFault{"hostile", "throw", "liveness", "let an exception: not my day out"},
        CheckedFault{"faulty", "index_out_of_range", "ops", "order(), call"},
        CheckedFault{"faulty", "duplicate", "ops", "twice"},
        CheckedFault{"faulty", "too_many", "ops", "there was room for"},
        CheckedFault{"faulty", "error", "ops", "returned -5 no idea"},
        CheckedFault{"faulty", "unknown_status", "ops", "unknown status 12345"},
        CheckedFault{"faulty", "unknown_decision", "ops", "admit(), call"},
        CheckedFault{"faulty", "bad_victim", "ops", "allowed: below"},
        CheckedFault{"faulty", "quit", "ops", "asked to be taken out"},
        CheckedFault{"faulty", "zero_plan", "liveness", "let nothing run"},
        CheckedFault{"faulty_evict", "unwritten", "ops", "test.faulty-rank: rank(), call"},
        CheckedFault{"sneaky", "write", "ops", "score(), call"},
        CheckedFault{"sneaky", "keep", "ops", "crashed with SIGSEGV"},
        CheckedFault{"sneaky", "behind", "ops", "wrote behind the end"},
        CheckedFault{"sneaky", "free_own", "create", "create() and destroy() freed 3 allocations that it had not made"},
        CheckedFault{"sneaky", "free_own", "ops", "freed 3 allocations that it had not made"},
        CheckedFault{"sneaky", "metric", "ops", "gave a metric the name 'caf\\xE9', allowed: [a-zA-Z_:][a-zA-Z0-9_:]*"},
        CheckedFault{"sneaky", "late_metric", "ops", "with seed 1: gave a metric the name ''"},
        CheckedFault{"sneaky", "set_param", "ops", "set_param(), call"},
        CheckedFault{"sneaky", "address", "determinism", "moved by 8"},
        CheckedFault{"sneaky", "garbage", "determinism", "filled with"},
        CheckedFault{"sneaky", "shared", "determinism", "share state"},
        CheckedFault{"sneaky", "save_drifts", "state", "gives other bytes"},
        CheckedFault{"sneaky", "save_hasty", "state", "one by one"},
        CheckedFault{"sneaky", "load_anything", "state", "load() accepts"},
        CheckedFault{"sneaky", "load_any_version", "state", "a version that it does not know"},
        CheckedFault{"no_symbol", "", "file", "does not export"},
        CheckedFault{"no_set_param", "", "query",
                     "test.unloadable: says that level can change, but has no set_param()"},
        CheckedFault{"minor", "", "query", "needs plugin ABI 1.99"}, CheckedFault{"pointer", "", "query", "SIGSEGV"}),
    name_of);

TEST(PluginCheck, FindsNothingInShippedPolicies) {
  for (const char* name : {"fcfs", "lru", "vtc", "s3fifo", "lpm"}) {
    for (const CheckResult& result : check({.path = shipped_plugin(name), .calls = 300})) {
      EXPECT_NE(result.status, CheckStatus::Failed) << name << ": " << result.name << ": " << result.message;
    }
  }
}

TEST(PluginCheck, KnowsItsGroupsAndFiles) {
  EXPECT_THROW(check({.path = "/nowhere/x.ifp.so"}), Error);
  EXPECT_THROW(check({.path = test_plugin("faulty"), .only = {"colour"}}), Error);
  const auto results = check({.path = test_plugin("faulty"), .only = {"file"}});
  EXPECT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1].status, CheckStatus::Skipped);
}

TEST(PluginCheck, ChecksTheMemberAlone) {
  CheckOptions options{.path = test_plugin("faulty_evict"),
                       .member = "faulty-pick",
                       .parameters = {{"fault", "unwritten"}},  // which is faulty-rank's mistake
                       .calls = 100,
                       .only = {"ops"}};
  for (const char* member : {"faulty-pick", "test.faulty-pick"}) {
    options.member = member;
    const auto results = check(options);
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[0].status, CheckStatus::Passed);
    EXPECT_EQ(results[0].message, "100 steps, seed 1");
  }
  for (const char* member : {"faulty-rank", ""}) {
    options.member = member;
    EXPECT_EQ(check(options)[0].status, CheckStatus::Failed) << member;
  }
  options.member = "nosuch";
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, options.path + " holds no policy 'nosuch', but: faulty-rank, faulty-pick",
                        [&] { check(options); });
  options.path = test_plugin("pointer");  // which policies there are is not to be learned
  EXPECT_EQ(check(options)[0].status, CheckStatus::Failed);
}

// What runs while a file is loaded is not guarded, but it runs in the check's own process.
TEST(PluginCheck, SurvivesWhatHappensWhileTheFileIsLoaded) {
  for (const auto& [fault, says] : {std::pair{"segv", "crashed with SIGSEGV"}, {"loop", "did not return within 1 s"}}) {
    ::setenv("INFLIGHT_TEST_CONSTRUCTOR", fault, 1);
    const auto results = check({.path = test_plugin("hostile"), .limit_seconds = 1, .only = {"query"}});
    ::unsetenv("INFLIGHT_TEST_CONSTRUCTOR");
    ASSERT_EQ(results.size(), 2U);
    for (const CheckResult& result : results) {
      EXPECT_EQ(result.status, CheckStatus::Failed);
      EXPECT_EQ(result.message, says);
    }
  }
}

TEST(PluginCheck, FindsLeaks) {
  bool found = false;
  for (const CheckResult& result :
       check({.path = test_plugin("sneaky"), .parameters = {{"fault", "leak"}}, .only = {"create"}})) {
    found |= result.message.find("bytes behind") != std::string::npos;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace inflight::test
