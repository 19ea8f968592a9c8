// SPDX-License-Identifier: Apache-2.0
// Goal: comparisons cover every combination in order whatever the number of threads; knees, limits and diagnoses are
// found where they were put.
// Covers: sim/comparison.cpp, sim/tuning.cpp, sim/diagnosis.cpp
#include "sim/comparison.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/diagnosis.h"
#include "sim/tuning.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST(Comparison, DimensionsAreListsOrRanges) {
  EXPECT_EQ(parse_dimension("policy=fcfs|lpm").values, (std::vector<std::string>{"fcfs", "lpm"}));
  EXPECT_EQ(parse_dimension("rate=1:4:4").values, (std::vector<std::string>{"1", "2", "3", "4"}));
  EXPECT_EQ(parse_dimension("policy=vtc:weight_output=3|fcfs").values,
            (std::vector<std::string>{"vtc:weight_output=3", "fcfs"}));
  EXPECT_EQ(parse_dimension("max_num_seqs=1:2:5").values, (std::vector<std::string>{"1", "2"}));  // each once
  EXPECT_EQ(parse_dimension("rate=3:3:4").values, (std::vector<std::string>{"3"}));
  EXPECT_EQ(parse_dimension("workload.requests=10:15:4").values, (std::vector<std::string>{"10", "12", "13", "15"}));
  EXPECT_EQ(parse_dimension("rate=1:2:3").values, (std::vector<std::string>{"1", "1.5", "2"}));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "'rate' names no values, allowed: KEY=VALUE|VALUE",
                        [] { static_cast<void>(parse_dimension("rate")); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "the COUNT of 'rate=1:8:2.7' is 2.7, allowed: 2 to 1000",
                        [] { static_cast<void>(parse_dimension("rate=1:8:2.7")); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "'requests=8|16|8' lists '8' twice, allowed: once",
                        [] { static_cast<void>(parse_dimension("requests=8|16|8")); });
}

// The runs would bear both values in their names, and only the last one would count.
TEST(Comparison, AKeyIsComparedOnce) {
  const OrderedJson base = {{"workload", "bimodal,requests=20"}, {"device", "unit"}};
  for (const auto& [first, second, message] :
       {std::tuple{"max_num_seqs=1|2", "max-num-seqs=3|4", "'max-num-seqs' is compared twice, allowed: once"},
        {"policy=fcfs|lpm", "schedule_policy=sjf", "'schedule_policy' is compared twice"},
        {"prompt=1|2", "prompt=3", "'prompt' is compared twice"},
        {"workload.prompt=1|2", "prompt=3", "'prompt' is compared twice"}}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, message, [&] {
      static_cast<void>(compare(base, {parse_dimension(first), parse_dimension(second)}, SteadyClock(), {}));
    });
  }
}

TEST(Comparison, EveryCombinationInOrder) {
  const std::vector<Dimension> dimensions = {parse_dimension("batching=static|continuous"),
                                             parse_dimension("requests=8|16")};
  const OrderedJson base = {{"workload", "bimodal,seed=3"}, {"max_num_seqs", 4}, {"device", "unit"}};
  std::vector<uint64_t> hashes;
  for (const int threads : {1, 3}) {
    const auto runs = compare(base, dimensions, SteadyClock(), {.threads = threads, .progress = {}});
    ASSERT_EQ(runs.size(), 4U);
    EXPECT_EQ(runs[1].name, "batching static, requests 16");
    EXPECT_EQ(runs[2].result.batching, "continuous");
    EXPECT_EQ(runs[3].result.scheduler.requests_finished, 16);
    std::vector<uint64_t> now;
    for (const ComparedRun& run : runs) now.push_back(run.result.decision_hash);
    if (!hashes.empty()) {
      EXPECT_EQ(now, hashes);
    }
    hashes = now;
  }
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "batching is 'lazy'", [&] {
    static_cast<void>(compare(base, {parse_dimension("batching=static|lazy")}, SteadyClock(), {}));
  });
}

// The seed draws other requests; a key that the workload has already is replaced.
TEST(Comparison, SweepsTheWorkloadsSeed) {
  const OrderedJson base = {{"workload", "bimodal,requests=20,seed=3,output=10-90"}, {"device", "unit"}};
  const auto hashes = [&](const char* dimension) {
    std::vector<uint64_t> found;
    for (const ComparedRun& run : compare(base, {parse_dimension(dimension)}, SteadyClock(), {})) {
      found.push_back(run.result.decision_hash);
    }
    return found;
  };
  const auto same = read_sim_spec(base);
  const uint64_t third = run_simulation(same.options, load_workload(same), SteadyClock()).decision_hash;
  const auto swept = hashes("seed=1:5:5");
  EXPECT_EQ(std::set<uint64_t>(swept.begin(), swept.end()).size(), 5U);
  EXPECT_EQ(swept[2], third);
  EXPECT_EQ(hashes("workload.seed=1:5:5"), swept);
  const auto runs =
      compare(base, {parse_dimension("workload.seed=7|8"), parse_dimension("seed=5|6")}, SteadyClock(), {});
  EXPECT_EQ(runs[0].spec.workload, "bimodal,requests=20,output=10-90,seed=7");
  EXPECT_EQ(runs[0].spec.options.setup.seed, 5U);
  const auto lengths =
      compare({{"workload", "lengths=5,9"}, {"device", "unit"}}, {parse_dimension("prompt=16|32")}, SteadyClock(), {});
  EXPECT_EQ(lengths[1].spec.workload, "lengths=5,9,prompt=32");
}

// Whichever is named first.
TEST(Comparison, AWorkloadComesBeforeWhatChangesInIt) {
  const std::vector<Dimension> both = {parse_dimension("requests=3|5"),
                                       parse_dimension("workload=closed,requests=9|closed,output=7")};
  for (const ComparedRun& run : compare({{"device", "unit"}}, both, SteadyClock(), {})) {
    EXPECT_EQ(std::to_string(run.result.scheduler.requests_finished), run.values[0]) << run.name;
  }
}

// checklist 111
TEST(Comparison, TheKneeIsWhereLatencyDoubles) {
  EXPECT_EQ(knee_of({1, 2, 3, 4}, {10, 11, 15, 35}), (Knee{3, 4}));
  EXPECT_EQ(knee_of({1, 2, 4}, {10, 20, 21}), (Knee{2, 4}));  // twice is not more than twice
  EXPECT_EQ(knee_of({1, 2}, {10, 12}), std::nullopt);
}

// checklist 141
TEST(Tuning, FindsTheSlotsThatAGoalAllows) {
  // A step takes 1 ms a sequence: ITL p95 <= 8 ms allows 8 slots, whatever else.
  const TuneResult result = tune_limits({{"workload", "closed,requests=100,prompt=8,output=60"},
                                         {"max_num_seqs", 2},
                                         {"device", "unit,overhead_us=100,sequence_us=1000"},
                                         {"overlap", "off"}},
                                        {.itl_p95_ms = 8.5}, SteadyClock(), {});
  EXPECT_TRUE(result.meets);
  EXPECT_EQ(result.max_num_seqs, 8);
  EXPECT_FALSE(
      tune_limits({{"workload", "closed,requests=10"}, {"device", "unit"}}, {.itl_p95_ms = 0.5}, SteadyClock(), {})
          .meets);
}

// An engine that takes no more than 40 requests has no use for more slots.
TEST(Tuning, KeepsWithinTheRequestsThatAreTaken) {
  const TuneResult result = tune_limits({{"workload", "closed,requests=100,prompt=8,output=20"},
                                         {"max_num_seqs", 2},
                                         {"max_requests", 40},
                                         {"device", "unit"},
                                         {"overlap", "off"}},
                                        {}, SteadyClock(), {});
  EXPECT_GE(result.max_num_seqs, 30);
  EXPECT_LE(result.max_num_seqs, 40);
}

std::vector<std::string> problems_of(const char* spec_json) {
  const SimSpec spec = parse_sim_spec(spec_json);
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
  std::vector<std::string> problems;
  for (const Finding& finding : diagnose(result, spec.options)) problems.push_back(finding.problem);
  return problems;
}

TEST(Diagnosis, ThreeConstructedTraces) {  // checklist 144
  using Problems = std::vector<std::string>;
  EXPECT_EQ(problems_of(R"({"workload": "poisson,rate=1,requests=100", "device": "pocl-135m"})"), Problems{});
  // Outputs that no admission test foresees, in a small KV storage.
  EXPECT_EQ(
      problems_of(R"({"workload": "closed,requests=60,prompt=32,output=400", "device": "unit", "kv_blocks": 150})"),
      Problems{"memory_pressure"});
  // Long answers wait for as long as shorter ones come.
  const auto starving = problems_of(
      R"({"workload": "poisson,rate=55,requests=2000,prompt=8,output=mix:0.98:10-20:200-300,predict=oracle", "device": "unit",
          "max_num_seqs": 1, "schedule_policy": "sjf"})");
  EXPECT_NE(std::ranges::find(starving, "starvation"), starving.end());
  EXPECT_EQ(
      problems_of(R"({"workload": "bimodal,requests=80", "device": "unit", "batching": "static", "max_num_seqs": 8})"),
      Problems{"low_utilisation"});
}

std::vector<Examined> examined(const char* spec_json) {
  const SimSpec spec = parse_sim_spec(spec_json);
  const Workload workload = load_workload(spec);
  return examine(OrderedJson::parse(spec_json), workload, run_simulation(spec.options, workload, SteadyClock()),
                 SteadyClock(), [](double) {});
}

TEST(Diagnosis, TriesWhatItAdvises) {
  const auto idle =
      examined(R"({"workload": "bimodal,requests=80", "device": "unit", "batching": "static", "max_num_seqs": 8})");
  ASSERT_EQ(idle.size(), 1U);
  ASSERT_EQ(idle[0].trials.size(), 1U);
  EXPECT_EQ(idle[0].trials[0].setting, (SimSetting{{"batching", "continuous"}}));
  EXPECT_TRUE(idle[0].trials[0].mends);
  // What the simulator says of the same run started by itself.
  const SimSpec spec = parse_sim_spec(
      R"({"workload": "bimodal,requests=80", "device": "unit", "batching": "continuous", "max_num_seqs": 8})");
  EXPECT_EQ(idle[0].trials[0].result.decision_hash,
            run_simulation(spec.options, load_workload(spec), SteadyClock()).decision_hash);

  // A device that computes all the time: more slots bring no tokens, so it is no want of slots.
  const char* const busy = R"({"workload": "poisson,requests=500,rate=5,output=10-500", "device": "pocl-135m"})";
  EXPECT_EQ(problems_of(busy), (std::vector<std::string>{"low_utilisation", "overload"}));
  const auto overloaded = examined(busy);
  ASSERT_EQ(overloaded.size(), 1U);
  EXPECT_EQ(overloaded[0].finding.problem, "overload");
  ASSERT_EQ(overloaded[0].trials.size(), 2U);
  EXPECT_EQ(overloaded[0].trials[0].setting, (SimSetting{{"replicas", "2"}}));
  EXPECT_TRUE(overloaded[0].trials[0].mends);
  EXPECT_FALSE(overloaded[0].trials[1].mends);
  EXPECT_GT(overloaded[0].trials[1].result.rejected, 0);

  // Two pools are doubled together: of more decoders alone the prompts would have nothing.
  const auto pools = examined(
      R"({"workload": "poisson,rate=5,requests=200", "device": "pocl-135m", "replicas": 2, "prefill_replicas": 1})");
  const auto outrun = std::ranges::find(pools, "overload", [](const Examined& one) { return one.finding.problem; });
  ASSERT_NE(outrun, pools.end());
  EXPECT_EQ(outrun->trials[0].setting, (SimSetting{{"replicas", "4"}, {"prefill_replicas", "2"}}));
  EXPECT_TRUE(outrun->trials[0].mends);

  // Slots that stand empty because requests with other adapters may not enter.
  const auto adapted =
      examined(R"({"workload": "closed,requests=120,prompt=16,output=200,adapters=6", "max_loras": 1})");
  ASSERT_EQ(adapted.size(), 1U);
  EXPECT_EQ(adapted[0].finding.problem, "low_utilisation");
  ASSERT_EQ(adapted[0].trials.size(), 1U);
  EXPECT_EQ(adapted[0].trials[0].setting, (SimSetting{{"max_loras", "0"}}));
  EXPECT_TRUE(adapted[0].trials[0].mends);

  // A storage that is as large as the longest request needs, more than the profile says, is doubled from there.
  const auto full = examined(
      R"({"workload": "closed,requests=20,prompt=150000,output=10", "device": "pocl-135m", "max_num_batched_tokens": 4096})");
  ASSERT_EQ(full.size(), 1U);
  EXPECT_EQ(full[0].finding.problem, "memory_pressure");
  ASSERT_EQ(full[0].trials.size(), 3U);
  EXPECT_EQ(full[0].trials[1].setting, (SimSetting{{"kv_blocks", std::to_string(2 * ((150'010 + 15) / 16))}}));

  // No more than 64 replicas are simulated.
  const auto most = examined(
      R"({"workload": "poisson,requests=1000,rate=1000,prompt=400,output=20", "device": "pocl-135m", "replicas": 64})");
  const auto found = std::ranges::find(most, "overload", [](const Examined& one) { return one.finding.problem; });
  ASSERT_NE(found, most.end());
  ASSERT_EQ(found->trials.size(), 1U);
  EXPECT_EQ(found->trials[0].setting[0].first, "max_num_queued_reqs");
}

// Who is preempted for somebody more important lacks no memory.
TEST(Diagnosis, PreemptionsByPriorityAreNoMemoryPressure) {
  const char* const spec_json =
      R"({"workload": "lognormal,requests=300,rate=40,priorities=4", "device": "gpu-8b", "max_num_seqs": 16,
          "schedule_policy": "priority", "priority_preemption_threshold": 0})";
  const SimSpec spec = parse_sim_spec(spec_json);
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock());
  EXPECT_GT(result.scheduler.preemptions, 15);
  EXPECT_EQ(result.scheduler.preemptions_for_others, result.scheduler.preemptions);
  EXPECT_EQ(std::ranges::count(problems_of(spec_json), "memory_pressure"), 0);
}

// checklist 88: workloads made to want one thing more than any other.
TEST(Diagnosis, NamesTheBindingLimit) {
  const auto limit_of = [](const char* json) {
    const SimSpec spec = parse_sim_spec(json);
    return binding_limit(run_simulation(spec.options, load_workload(spec), SteadyClock()));
  };
  EXPECT_EQ(limit_of(R"({"workload": "closed,requests=60,prompt=32,output=400", "device": "unit", "kv_blocks": 150})"),
            "kv");
  EXPECT_EQ(limit_of(R"({"workload": "closed,requests=60,prompt=32,output=400", "device": "unit", "max_num_seqs": 4})"),
            "slots");
  EXPECT_EQ(limit_of(R"({"workload": "closed,requests=200,prompt=512,output=2", "device": "unit",
                         "max_num_batched_tokens": 128, "kv_blocks": 20000})"),
            "budget");
  EXPECT_EQ(limit_of(R"({"workload": "closed,requests=120,prompt=16,output=200,adapters=6", "max_loras": 1})"),
            "adapters");
  EXPECT_EQ(limit_of(R"({"workload": "poisson,rate=0.01,requests=20", "device": "pocl-135m"})"), "arrivals");
  EXPECT_EQ(limit_of(R"({"workload": "closed,requests=8,prompt=16,output=400", "device": "pocl-135m"})"), "compute");
  // One large request keeps the blocks for a while, in which many small ones are looked at in each step; then for far
  // longer there is one slot that two share.
  std::string trace = R"({"timestamp": 0, "input_length": 600, "output_length": 300, "hash_ids": [0, 1]})";
  for (int i = 1; i <= 470; ++i) {
    const auto [time, prompt, output] = i <= 70 ? std::tuple(0, 512, 2) : std::tuple(1000, 16, 20);
    trace += fmt::format(R"({}{{"timestamp": {}, "input_length": {}, "output_length": {}, "hash_ids": [{}]}})", '\n',
                         time, prompt, output, i + 1);
  }
  const test::TempFolder folder;
  const std::string path = folder.write("oom.jsonl", trace);
  EXPECT_EQ(
      limit_of(fmt::format(R"({{"trace": "{}", "device": "unit", "kv_blocks": 64, "max_num_seqs": 2}})", path).c_str()),
      "slots");
  // No policy that ships says no: three quarters of the slots empty, somebody refused in every step.
  SimResult refusing;
  refusing.scheduler.steps = 100;
  refusing.scheduler.slot_steps = refusing.scheduler.backlog_slot_steps = 800;
  refusing.scheduler.backlog_used_slot_steps = 200;
  refusing.scheduler.admission_steps[static_cast<size_t>(AdmissionResult::Policy)] = 100;
  EXPECT_EQ(binding_limit(refusing), "policy");
}

}  // namespace
}  // namespace inflight
