// SPDX-License-Identifier: Apache-2.0
// Goal: a policy behaves the same built in, from a file, and as the host's own code; a bad one is named and replaced
// without a request being lost or an output changed.
// Method: SchedulerWorld (every output compared with the request alone) on one seeded workload; faulty plugins from
// tests/plugins make one mistake each.
// Covers: plugin_host/plugin_module.cpp, plugin_host/plugin_registry.cpp, plugin_host/plugin_notes.cpp
// Covers: plugin_host/plugin_folders.cpp
// Covers: plugin_host/policy_instance.cpp, plugin_host/request_columns.cpp, plugin_host/policies.cpp
// Covers: plugin_host/sched_adapter.cpp, plugin_host/evict_adapter.cpp
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "inflight/plugin.hpp"
#include "plugin_host/plugin_registry.h"
#include "support/loaded_policies.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

WorldOptions pressed_world() {
  WorldOptions options;
  options.config = {.max_num_seqs = 6, .max_num_batched_tokens = 40, .max_model_len = 100, .max_requests = 1000};
  options.blocks = {.block_count = 40, .block_token_count = 4};
  return options;
}

std::unique_ptr<SchedAdapter> make_sched(const std::string& text, const PolicyOptions& options = {}) {
  return make_schedule_policy(text, setup_of(pressed_world()), options);
}
std::unique_ptr<EvictAdapter> make_evict(const std::string& text) {
  return make_eviction_policy(text, setup_of(pressed_world()), {});
}

// Runs one workload with little memory, so that all ops are called; gives every plan as text.
std::vector<std::string> decisions(SchedulePolicy* policy, EvictAdapter* evict = nullptr) {
  const WorldOptions options = pressed_world();
  SchedulerWorld world(options, policy, evict);
  if (evict != nullptr) evict->attach(world.blocks(), world.scheduler().latency_model());
  Rng rng(21);
  std::vector<std::string> plans;
  for (int i = 0; i < 400; ++i) {
    if (rng.chance(0.3)) {
      std::vector<TokenId> prompt;
      const int32_t count = rng.between(1, 50), shared = rng.between(0, count);
      for (int32_t k = 0; k < count; ++k) prompt.push_back(k < shared ? k % 60 : rng.between(0, 63));
      world.add({.prompt = prompt, .max_tokens = rng.between(1, 30)});
    }
    world.step();
    plans.push_back(world.last_plan_text());
    if (i % 20 == 0) world.scheduler().check_invariants();
  }
  world.run();
  EXPECT_GT(world.scheduler().stats().preemptions, 5);
  EXPECT_GT(world.blocks().evicted_total(), 50);
  for (const auto& [id, record] : world.records()) EXPECT_NE(record.finish, FinishReason::None);
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
  return plans;
}

TEST(BuiltinPolicies, FcfsDecidesAsTheHostDoesAlone) {
  const auto alone = decisions(nullptr);
  const auto builtin = make_sched("fcfs");
  EXPECT_EQ(decisions(builtin.get()), alone);
  EXPECT_EQ(builtin->instance().strike_count(), 0);
  const auto file = make_sched(shipped_plugin("fcfs"));
  EXPECT_EQ(decisions(file.get()), alone);
  EXPECT_EQ(builtin->ranking(), SchedulePolicy::Ranking::Stable);
}

TEST(BuiltinPolicies, LruEvictsAsTheHostDoesAlone) {
  const auto alone = decisions(nullptr);
  const auto builtin = make_evict("lru");
  EXPECT_EQ(decisions(nullptr, builtin.get()), alone);
  EXPECT_EQ(builtin->instance().strike_count(), 0);
  const auto file = make_evict(shipped_plugin("lru"));
  EXPECT_EQ(decisions(nullptr, file.get()), alone);
}

TEST(Registry, FindsByShortNameIdAndPathAndSaysWhatThereIs) {
  PluginRegistry registry;
  EXPECT_EQ(registry.find(parse_policy_spec("org.inflight.fcfs"), INFLIGHT_KIND_SCHED).origin, "built in");
  EXPECT_EQ(registry.kind_of(parse_policy_spec("lru")), INFLIGHT_KIND_EVICT);
  try {
    static_cast<void>(registry.find(parse_policy_spec("nosuch"), INFLIGHT_KIND_SCHED));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotFound);
    EXPECT_NE(std::string(error.what()).find("'nosuch'; built in: dfs-weight dlpm edf fcfs"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(static_cast<void>(registry.find(parse_policy_spec("lru"), INFLIGHT_KIND_SCHED)), Error);
}

TEST(Registry, SearchesTheFoldersOfTheEnvironment) {
  ::setenv("INFLIGHT_PLUGIN_PATH", (std::string("/nowhere:") + TEST_PLUGIN_DIR).c_str(), 1);
  PluginRegistry registry;
  EXPECT_EQ(registry.find(parse_policy_spec("faulty"), INFLIGHT_KIND_SCHED).origin, test_plugin("faulty"));
  std::vector<std::string> problems;
  const auto found = registry.list(problems);
  ::unsetenv("INFLIGHT_PLUGIN_PATH");
  EXPECT_GE(found.size(), 5U);
  EXPECT_EQ(problems.size(), 1U);  // only one has no notes; the others are listed without being run
  EXPECT_NE(problems[0].find("no_symbol"), std::string::npos);
}

struct LoadFault {
  const char* file;
  const char* says;
};
class UnloadablePlugin : public testing::TestWithParam<LoadFault> {};

TEST_P(UnloadablePlugin, IsRefusedWithTheReason) {
  try {
    static_cast<void>(PluginModule::load(test_plugin(GetParam().file)));
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Plugin);
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().file), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, UnloadablePlugin,
    testing::Values(LoadFault{"no_symbol", "does not export inflight_plugin_query_v1"},
                    LoadFault{"minor", "needs plugin ABI 1.99 or later, this is 1.0"},
                    LoadFault{"short_policy",
                              "the descriptor of policy 1 is shorter (16 bytes) than ABI 1.0 asks for (120 bytes)"},
                    LoadFault{"kind", "is of kind 77"}, LoadFault{"id", "has the id 'Not An Id!'"},
                    LoadFault{"no_ops", "has no table of ops"}, LoadFault{"no_create", "lacks the ops create"},
                    LoadFault{"short_module", "is shorter (4 bytes) than ABI 1.0 asks for (24 bytes)"},
                    LoadFault{"note", "its note promises test.something-else"}, LoadFault{"empty", "offers no policy"},
                    LoadFault{"null", "has nothing for inflight"},
                    LoadFault{"count", "says it offers 1073741824 policies, allowed: 64"},
                    LoadFault{"pointer", "inflight_plugin_query_v1 failed: SIGSEGV"},
                    LoadFault{"query", "inflight_plugin_query_v1 failed: SIGSEGV"},
                    LoadFault{"text", "inflight_plugin_query_v1 failed: SIGSEGV"},
                    LoadFault{"param_count", "says it has 1000000 parameters, allowed: 256"},
                    LoadFault{"param_key", "has the parameter 'Bad Key' of type 9"},
                    LoadFault{"state", "claims INFLIGHT_CAP_STATE but lacks"}),
    [](const auto& test) { return test.param.file; });

TEST(PluginFile, MustBeAPluginThatOthersCannotWrite) {
  namespace fs = std::filesystem;
  EXPECT_THROW(static_cast<void>(PluginModule::load("/nowhere/x.ifp.so")), Error);
  const fs::path folder = fs::path(testing::TempDir()) / "inflight_trust";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "text.ifp.so") << "no ELF";
  EXPECT_THROW(static_cast<void>(PluginModule::load(folder / "text.ifp.so")), Error);
  fs::copy_file(shipped_plugin("fcfs"), folder / "plain.so");
  EXPECT_THROW(static_cast<void>(PluginModule::load(folder / "plain.so")), Error);
  fs::copy_file(shipped_plugin("fcfs"), folder / "good.ifp.so");
  EXPECT_NO_THROW(static_cast<void>(PluginModule::load(folder / "good.ifp.so")));
  ::chmod((folder / "good.ifp.so").c_str(), 0666);
  try {
    static_cast<void>(PluginModule::load(folder / "good.ifp.so"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("can be written by others"), std::string::npos);
  }
  ::chmod((folder / "good.ifp.so").c_str(), 0644);
  ::chmod(folder.c_str(), 0777);
  EXPECT_THROW(static_cast<void>(PluginModule::load(folder / "good.ifp.so")), Error);
  fs::remove_all(folder);
}

// Descriptors in memory, with one mistake.
std::string refusal_of(const inflight_policy_t* policy) {
  static const inflight_policy_t* policies[1];
  static const inflight_module_t module = {.struct_size = sizeof(inflight_module_t), .count = 1, .policies = policies};
  policies[0] = policy;
  try {
    static_cast<void>(PluginModule::from_query([](const inflight_query_t*) { return &module; }, "x"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Descriptor, ThatIsMissingOrTooShortIsNamedWithBothSizes) {
  inflight_sched_ops_t ops{.struct_size = 8};
  const inflight_policy_t policy{
      .struct_size = sizeof(inflight_policy_t), .kind = INFLIGHT_KIND_SCHED, .id = "test.short", .sched = &ops};
  EXPECT_EQ(refusal_of(nullptr), "x: the descriptor of policy 1 is missing, ABI 1.0 asks for 120 bytes");
  EXPECT_NE(refusal_of(&policy).find("policy test.short's table of ops is shorter (8 bytes) than ABI 1.0 asks for ("),
            std::string::npos)
      << refusal_of(&policy);
}

// Wherever it is cut: mapping what is not there would end the process with SIGBUS.
TEST(PluginFile, ThatEndsEarlyIsRefused) {
  const TempFolder folder;
  const std::string whole = read_file(shipped_plugin("fcfs"));
  for (size_t bytes = 0; bytes < whole.size(); bytes += 997) {
    const std::string path = folder.write("cut.ifp.so", whole.substr(0, bytes));
    try {
      static_cast<void>(PluginModule::load(path));
      ADD_FAILURE() << bytes << " of " << whole.size() << " bytes were loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Plugin);
      EXPECT_TRUE(std::string(error.what()).starts_with(path + ": is no plugin: it ends early")) << error.what();
    }
  }
  EXPECT_THROW(static_cast<void>(PluginModule::load(folder.write("cut.ifp.so", whole.substr(0, whole.size() - 1)))),
               Error);
  EXPECT_NO_THROW(static_cast<void>(PluginModule::load(folder.write("cut.ifp.so", whole))));
}

TEST(PluginFile, IsNotLookedForInTheCurrentFolder) {
  PluginRegistry registry;
  try {
    static_cast<void>(registry.load("cwd.ifp.so"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Plugin);
    EXPECT_NE(std::string(error.what()).find("./cwd.ifp.so"), std::string::npos) << error.what();
  }
}

struct Fault {
  const char* name;
  const char* says;  // nullptr: no strike, the host cuts the wish to what is possible
};
class FaultyPolicy : public testing::TestWithParam<Fault> {
 protected:
  FaultyPolicy() {
    set_log_sink([this](LogLevel, std::string_view line) { log_ += std::string(line) + "\n"; }, LogLevel::Debug);
  }
  ~FaultyPolicy() override { set_log_sink({}, LogLevel::Debug); }
  std::string log_;
};

// Whatever the mistake: every request ends with the output it has alone; the log names policy, op and mistake.
TEST_P(FaultyPolicy, CostsOnlyItsOwnDecisions) {
  const auto policy = make_sched(test_plugin("faulty") + ":fault=" + GetParam().name + ",from=20");
  decisions(policy.get());
  if (GetParam().says == nullptr) {
    EXPECT_EQ(policy->instance().strike_count(), 0) << log_;
    EXPECT_TRUE(policy->instance().active());
    return;
  }
  EXPECT_GE(policy->instance().strike_count(), 1);
  EXPECT_NE(log_.find(GetParam().says), std::string::npos) << log_;
  EXPECT_NE(log_.find("test.faulty"), std::string::npos);
  if (policy->instance().strike_count() >= PolicyInstance::kStrikesMax) {
    EXPECT_FALSE(policy->instance().active());
    EXPECT_NE(log_.find("was taken out"), std::string::npos);
    EXPECT_EQ(policy->ranking(), SchedulePolicy::Ranking::Arrival);
    const bool says_no = std::string(GetParam().name) == "error";
    EXPECT_EQ(policy->instance().metrics().at("exit_reason"), says_no ? INFLIGHT_EXIT_ERROR : INFLIGHT_EXIT_BAD_OUTPUT);
  }
}
INSTANTIATE_TEST_SUITE_P(All, FaultyPolicy,
                         testing::Values(Fault{"none", nullptr}, Fault{"pass", nullptr}, Fault{"huge_plan", nullptr},
                                         Fault{"huge_share", nullptr}, Fault{"zero_share", nullptr},
                                         Fault{"bad_slot", nullptr},
                                         Fault{"index_out_of_range", "order(): gave the index"},
                                         Fault{"duplicate", "twice"}, Fault{"too_many", "there was room for"},
                                         Fault{"error", "order(): no idea"},
                                         Fault{"unknown_status", "unknown status 12345"},
                                         Fault{"unknown_decision", "admit(): gave the unknown decision 99"},
                                         Fault{"bad_victim", "pick_victims(): gave the index"}),
                         [](const auto& test) { return test.param.name; });

TEST(FaultyPolicyAlone, MayAskToLeave) {
  const auto policy = make_sched(test_plugin("faulty") + ":fault=quit,from=20");
  decisions(policy.get());
  EXPECT_FALSE(policy->instance().active());
  EXPECT_NE(policy->instance().exit_message().find("had enough"), std::string::npos);
  EXPECT_EQ(policy->instance().metrics().at("exit_reason"), INFLIGHT_EXIT_SELF);
}

TEST(FaultyPolicyAlone, SaysWhyItWasNotCreated) {
  try {
    make_sched(test_plugin("faulty") + ":fault=create");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("will not be created"), std::string::npos);
  }
}

// What is logged from a policy's creation to its end.
std::string log_of(const std::string& spec) {
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += line; }, LogLevel::Debug);
  make_sched(spec).reset();
  set_log_sink({}, LogLevel::Debug);
  return log;
}

TEST(FaultyPolicyAlone, LeakedMemoryIsReported) {
  const std::string log = log_of(test_plugin("faulty") + ":fault=leak");
  EXPECT_NE(log.find("left 1 allocations behind"), std::string::npos) << log;
}

TEST(FaultyPolicyAlone, FreeingWhatItHadNotAllocatedIsReported) {
  const std::string log = log_of(test_plugin("sneaky") + ":fault=free_own");
  EXPECT_NE(log.find("freed 3 allocations that it had not made"), std::string::npos) << log;
}

// A clock on which every op takes as long.
class SlowClock final : public Clock {
 public:
  explicit SlowClock(TimeNs op = 30'000'000) : op_(op) {}
  TimeNs now() const override { return now_ += op_; }

 private:
  TimeNs op_;
  mutable TimeNs now_ = 0;
};

TEST(FaultyPolicyAlone, TakingTooLongIsAStrike) {
  const SlowClock clock;
  const TempFolder folder;
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; }, LogLevel::Debug);
  const auto policy = make_sched("fcfs", {.clock = &clock, .report_folder = folder.path()});
  decisions(policy.get());
  set_log_sink({}, LogLevel::Debug);
  EXPECT_NE(log.find("took 30 ms, allowed: 20 ms; its answer counts (strike 1 of 8)"), std::string::npos) << log;
  EXPECT_NE(log.find("took 30 ms, allowed: 20 ms; its answer counts (strike 7 of 8)"), std::string::npos) << log;
  EXPECT_NE(log.find("took 30 ms, allowed: 20 ms; the built-in decided instead (strike 8 of 8)"), std::string::npos);
  EXPECT_FALSE(policy->instance().active());
  EXPECT_NE(policy->instance().exit_message().find("took 30 ms, allowed: 20 ms"), std::string::npos)
      << policy->instance().exit_message();
  // Every step that it was asked in was slow, but the last one is not over.
  std::ifstream stream(policy->instance().report_path());
  const auto report = nlohmann::json::parse(stream);
  std::set<int64_t> asked_in;
  for (const auto& call : report["recent_calls"]) asked_in.insert(call["step"].get<int64_t>());
  EXPECT_GT(asked_in.size(), 1U);
  EXPECT_EQ(report["fault"]["slow_steps"], asked_in.size() - 1);
}

TEST(FaultyPolicyAlone, TakingLongerThanAGuardedOpMayTakesItOutAtOnce) {
  const SlowClock clock(3'000'000'000);
  const auto policy = make_sched("fcfs", {.clock = &clock, .mode = PluginMode::Guarded, .report_folder = ""});
  decisions(policy.get());
  EXPECT_EQ(policy->instance().exit_reason(), INFLIGHT_EXIT_STUCK);
  EXPECT_EQ(policy->instance().strike_count(), 1);
  EXPECT_NE(policy->instance().exit_message().find("did not return within 2000 ms"), std::string::npos)
      << policy->instance().exit_message();
}

// Policies that admit nobody. They differ in the ops that they have.
struct Refuser {
  static constexpr Policy kPolicy = sched_policy("test.refuser", "skips everybody");
  explicit Refuser(const SchedSetup&) {}
  inflight_plugin_status_t admit(const inflight_step_t&, const inflight_candidate_t&, inflight_admission_t& admission) {
    admission.decision = INFLIGHT_ADMIT_SKIP;
    return INFLIGHT_PLUGIN_OK;
  }
};
struct RefuserThatPlans : Refuser {
  using Refuser::Refuser;
  inflight_plugin_status_t plan(const inflight_step_t&, inflight_plan_t&) { return INFLIGHT_PLUGIN_OK; }
};
struct NoAdmitPlanner {
  static constexpr Policy kPolicy = sched_policy("test.planner", "lets nobody start");
  explicit NoAdmitPlanner(const SchedSetup&) {}
  inflight_plugin_status_t plan(const inflight_step_t&, inflight_plan_t& plan) {
    plan.flags |= INFLIGHT_PLAN_NO_ADMIT;
    return INFLIGHT_PLUGIN_OK;
  }
};

std::string fault_of(const inflight_policy_t& policy) {
  SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 100}, {.report_folder = ""});
  SchedulerWorld world(pressed_world(), &adapter);
  for (uint64_t i = 1; i <= 6; ++i) {
    world.add({.prompt = random_prompt(10, i), .max_tokens = 1});
    world.run();
  }
  EXPECT_EQ(adapter.instance().exit_reason(), INFLIGHT_EXIT_NO_PROGRESS);
  return adapter.instance().exit_message();
}

TEST(SchedAdapter, BlamesTheOpThatLetNothingRun) {
  EXPECT_EQ(fault_of(*plugin_detail::describe<Refuser>()),
            "policy test.refuser was taken out in admit(): let nothing run, though something could have");
  EXPECT_NE(fault_of(*plugin_detail::describe<RefuserThatPlans>()).find("in admit()"), std::string::npos);
  EXPECT_NE(fault_of(*plugin_detail::describe<NoAdmitPlanner>()).find("in plan()"), std::string::npos);
}

// Request 1 is refused for longer than anybody may wait, while others come and go.
struct Grudge {
  static constexpr Policy kPolicy = sched_policy("test.grudge", "never admits request 1");
  explicit Grudge(const SchedSetup&) {}
  inflight_plugin_status_t admit(const inflight_step_t& step, const inflight_candidate_t& candidate,
                                 inflight_admission_t& admission) {
    if (step.waiting->id[candidate.index] == 1) admission.decision = INFLIGHT_ADMIT_SKIP;
    return INFLIGHT_PLUGIN_OK;
  }
};

TEST(SchedAdapter, BlamesTheOpThatLetsSomebodyStarve) {
  const inflight_policy_t& policy = *plugin_detail::describe<Grudge>();
  SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 100}, {.report_folder = ""});
  SchedulerWorld world(pressed_world(), &adapter);
  for (uint64_t i = 1; i <= 2; ++i) world.add({.prompt = random_prompt(4, i), .max_tokens = 90});
  world.step();
  world.clock().advance(limits::kStarvationNs + 1);
  world.run();
  EXPECT_EQ(adapter.instance().exit_reason(), INFLIGHT_EXIT_STARVATION);
  EXPECT_NE(adapter.instance().exit_message().find("in admit(): kept the first request"), std::string::npos)
      << adapter.instance().exit_message();
}

struct WrongPlanner {
  static constexpr Policy kPolicy =
      sched_policy("test.wrong-planner", "lets nobody start and reserves 7 times the output");
  explicit WrongPlanner(const SchedSetup&) {}
  inflight_plugin_status_t plan(const inflight_step_t&, inflight_plan_t& plan) {
    plan.flags |= INFLIGHT_PLAN_NO_ADMIT;
    plan.reserve_ratio = 7.0;
    return INFLIGHT_PLUGIN_OK;
  }
};

// Of a plan with a mistake nothing counts, as the log says.
TEST(SchedAdapter, AWrongPlanIsTheBuiltInsAltogether) {
  const inflight_policy_t& policy = *plugin_detail::describe<WrongPlanner>();
  SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 100}, {.report_folder = ""});
  SchedulerWorld world(pressed_world(), &adapter);
  world.add({.prompt = random_prompt(10, 1), .max_tokens = 5});
  world.run();
  EXPECT_EQ(adapter.instance().strike_count(), 6);  // one a step, none for keeping the request out
}

// What a policy with nothing but admit() is shown; it lets request 2 wait until step 6.
struct Shown {
  uint64_t step, id;
  int64_t now;
  uint32_t free_blocks, tokens_left, sequences_left;
};
std::vector<Shown> shown;

struct Watcher {
  static constexpr Policy kPolicy = sched_policy("test.watcher", "looks");
  explicit Watcher(const SchedSetup&) {}
  inflight_plugin_status_t admit(const inflight_step_t& step, const inflight_candidate_t& candidate,
                                 inflight_admission_t& admission) {
    const uint64_t id = step.waiting->id[candidate.index];
    shown.push_back({step.step, id, step.now_ns, step.free_blocks, step.tokens_left, step.sequences_left});
    if (id == 2 && step.step < 6) admission.decision = INFLIGHT_ADMIT_SKIP;
    return INFLIGHT_PLUGIN_OK;
  }
};

TEST(SchedAdapter, ShowsAdmitTheStepAsItIs) {
  const inflight_policy_t& policy = *plugin_detail::describe<Watcher>();
  SchedAdapter adapter(policy, PluginConfig(policy, {}), {.max_requests = 100}, {});
  const WorldOptions options = pressed_world();
  SchedulerWorld world(options, &adapter);
  shown.clear();
  for (uint64_t i = 1; i <= 3; ++i) world.add({.prompt = random_prompt(10, i), .max_tokens = 30});
  for (uint64_t step = 1; step <= 5; ++step) {
    const TimeNs now = world.clock().now();
    world.step();
    const Shown& last = shown.back();
    EXPECT_EQ(last.step, step);
    EXPECT_EQ(last.now, now);
    if (step == 1) continue;
    EXPECT_EQ(last.id, 2U);
    EXPECT_EQ(last.free_blocks, static_cast<uint32_t>(world.blocks().pool().free_count()));  // nobody was admitted
    EXPECT_EQ(last.tokens_left, 40U - 2U);
    EXPECT_EQ(last.sequences_left, 6U - 2U);
  }
  // In the first step request 1 was admitted before request 2 and, after that was left waiting, request 3.
  ASSERT_EQ(shown.size(), 3U + 4U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shown[i].id, i + 1);
    EXPECT_EQ(shown[i].tokens_left, i == 0 ? 40U : 30U);
    EXPECT_EQ(shown[i].sequences_left, i == 0 ? 6U : 5U);
  }
  world.run();
  EXPECT_EQ(adapter.instance().strike_count(), 0);
}

// What a C++ policy calls reaches the table's function with the table's context and the same arguments.
TEST(PluginHost, OffersTheWholeTable) {
  struct Calls {
    std::vector<uint32_t> slots;
    uint64_t bytes = 0, alignment = 0;
    void* freed = nullptr;
    int32_t code = 0;
    std::string why;
    int memory = 0;
  } calls;
  inflight_host_t table{};
  table.context = &calls;
  table.match_prefix = [](void* context, const uint32_t* slots, uint32_t count, uint32_t* tokens) {
    if (count == 0) return INFLIGHT_PLUGIN_E_UNSUPPORTED;
    static_cast<Calls*>(context)->slots.assign(slots, slots + count);
    for (uint32_t i = 0; i < count; ++i) tokens[i] = 10 * slots[i];
    return INFLIGHT_PLUGIN_OK;
  };
  table.alloc = [](void* context, uint64_t bytes, uint64_t alignment) -> void* {
    auto& it = *static_cast<Calls*>(context);
    it.bytes = bytes;
    it.alignment = alignment;
    return &it.memory;
  };
  table.free = [](void* context, void* memory) { static_cast<Calls*>(context)->freed = memory; };
  table.request_exit = [](void* context, int32_t code, const char* why) {
    auto& it = *static_cast<Calls*>(context);
    it.code = code;
    it.why = why;
  };
  const PluginHost host(&table);
  const uint32_t slots[] = {7, 3};
  uint32_t tokens[2] = {};
  EXPECT_TRUE(host.match_prefix(slots, 2, tokens));
  EXPECT_EQ(calls.slots, (std::vector<uint32_t>{7, 3}));
  EXPECT_EQ(tokens[0], 70U);
  EXPECT_EQ(tokens[1], 30U);
  EXPECT_FALSE(host.match_prefix(slots, 0, tokens));
  EXPECT_EQ(host.alloc(64, 16), &calls.memory);
  EXPECT_EQ(calls.bytes, 64U);
  EXPECT_EQ(calls.alignment, 16U);
  host.free(&calls.memory);
  EXPECT_EQ(calls.freed, &calls.memory);
  host.request_exit(3, "stale");
  EXPECT_EQ(calls.code, 3);
  EXPECT_EQ(calls.why, "stale");
}

// The largest unit goes first; has no opinion of unit 2.
struct Undecided {
  static constexpr Policy kPolicy = evict_policy("test.undecided", "passes");
  explicit Undecided(const EvictSetup&) {}
  inflight_plugin_status_t rank(const inflight_units_t& units, int64_t* key0, int64_t*) {
    if (units.unit[0] == 2) return INFLIGHT_PASS;
    key0[0] = 1'000'000'000 - int64_t{units.unit[0]};
    return INFLIGHT_PLUGIN_OK;
  }
};

TEST(EvictAdapter, AUnitWithoutAKeyGoesBesideTheOneBeforeIt) {
  const inflight_policy_t& policy = *plugin_detail::describe<Undecided>();
  EvictAdapter adapter(policy, PluginConfig(policy, {}), {.block_count = 4, .block_token_count = 1}, {});
  KvBlocks blocks({.block_count = 4, .block_token_count = 1}, adapter);
  const LatencyModel latency;
  adapter.attach(blocks, latency);
  std::vector<BlockId> all;
  ASSERT_TRUE(blocks.try_extend(all, 4));
  for (const BlockId block : all) {
    const std::vector<TokenId> tokens = {static_cast<TokenId>(to_integer(block))};
    std::vector<BlockId> table = {block};
    ASSERT_TRUE(blocks.try_publish(
        table, {.index = 0, .content = {child_key(root_key(0), tokens), 0, kNoBlock, tokens}, .owner = {}}));
    blocks.release(table);
  }
  std::vector<BlockId> order;
  ASSERT_TRUE(blocks.try_extend(order, 4));
  EXPECT_EQ(order, (std::vector{BlockId{3}, BlockId{1}, BlockId{2}, BlockId{0}}));
  EXPECT_EQ(adapter.instance().strike_count(), 0);
}

class FaultyStrategy : public testing::TestWithParam<const char*> {};

TEST_P(FaultyStrategy, CostsOnlyItsOwnDecisions) {
  const std::string name = GetParam();
  const auto strategy = make_evict(test_plugin("faulty_evict") + "#" + name);
  decisions(nullptr, strategy.get());
  const bool harmless = name.ends_with("=none") || name.ends_with("=always_zero");
  EXPECT_EQ(strategy->instance().strike_count() == 0, harmless);
  EXPECT_EQ(strategy->instance().active(), harmless);
}
INSTANTIATE_TEST_SUITE_P(All, FaultyStrategy,
                         testing::Values("faulty-rank:fault=none", "faulty-rank:fault=unwritten",
                                         "faulty-rank:fault=error", "faulty-pick:fault=none",
                                         "faulty-pick:fault=bad_unit", "faulty-pick:fault=too_many",
                                         "faulty-pick:fault=always_zero"));

}  // namespace
}  // namespace inflight::test
