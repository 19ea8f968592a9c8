// SPDX-License-Identifier: Apache-2.0
// Goal: the growth of KV use is split into concurrency and length as arithmetic says, on runs of which one factor alone
// changes, and on mixed ones against block tables that a trace has collected by itself.
#include "sim/kv_growth.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sim/diagnosis.h"
#include "sim/sim_spec.h"
#include "support/simulated.h"

namespace inflight {
namespace {

TEST(KvGrowth, PartsSumUpToTheGrowth) {
  // 4 x 100 to 6 x 150: at the midpoints 2 sequences of 125 tokens, and 50 tokens for each of 5.
  const KvGrowthParts parts = split_kv_growth({0, 4, 400}, {1, 6, 900});
  EXPECT_DOUBLE_EQ(parts.by_concurrency, 250.0);
  EXPECT_DOUBLE_EQ(parts.by_length, 250.0);
  for (int n0 = 1; n0 < 6; ++n0) {
    for (int n1 = 1; n1 < 6; ++n1) {
      const KvUse from{0, n0, 7 * n0 * n0}, to{1, n1, 11 * n1 + 5};
      const KvGrowthParts split = split_kv_growth(from, to);
      EXPECT_NEAR(split.by_concurrency + split.by_length, static_cast<double>(to.tokens - from.tokens), 1e-9);
    }
  }
}

TEST(KvGrowth, LongRunsAreThinnedAndTheirPeakKept) {
  KvGrowth growth;
  for (int i = 1; i <= 100'000; ++i) growth.note({i, 1, i == 77'777 ? 1000 : 10});
  EXPECT_LT(growth.samples().size(), KvGrowth::kSamplesMax);
  EXPECT_GE(growth.samples().size(), KvGrowth::kSamplesMax / 2);
  EXPECT_EQ(growth.peak().time, 77'777);
  const auto& samples = growth.samples();
  for (size_t i = 2; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].time - samples[i - 1].time, samples[1].time - samples[0].time);
  }
}

nlohmann::json growth_of(nlohmann::json spec) {
  spec["device"] = "unit";
  spec["overlap"] = "off";
  spec["prefix_caching"] = "off";
  return test::simulated(spec)["kv_growth"];
}

// checklist 146: four sequences from one step on, so that only their length changes.
TEST(KvGrowth, SequencesThatStayTogetherGrowByLength) {
  const auto growth = growth_of({{"workload", "closed,requests=4,prompt=16,output=100"}, {"max_num_seqs", 4}});
  EXPECT_EQ(growth["first"]["sequences"], 4);
  EXPECT_EQ(growth["first"]["tokens_per_sequence"], 16.0);
  EXPECT_EQ(growth["peak"]["tokens_per_sequence"], 128.0);  // 115 are computed: 8 blocks of 16
  EXPECT_EQ(growth["by_concurrency_tokens"], 0.0);
  EXPECT_EQ(growth["by_length_tokens"], 4 * (128.0 - 16.0));
}

// checklist 146: a step admits one prompt, and no sequence ever outgrows its one block.
TEST(KvGrowth, SequencesThatComeOneByOneGrowByConcurrency) {
  const auto growth = growth_of({{"workload", "closed,requests=6,prompt=16,output=48"},
                                 {"block_size", 64},
                                 {"max_num_batched_tokens", 16},
                                 {"max_num_seqs", 6}});
  EXPECT_EQ(growth["first"]["sequences"], 1);
  EXPECT_EQ(growth["peak"]["sequences"], 6);
  EXPECT_EQ(growth["by_concurrency_tokens"], 5 * 64.0);
  EXPECT_EQ(growth["by_length_tokens"], 0.0);
}

// Who runs and which blocks they hold, from the plans alone.
class TablesOfPlans final : public SchedulerTrace {
 public:
  std::vector<KvUse> uses;

  void on_add(SequenceId, const Request&, std::span<const TokenId>, TimeNs) override {}
  void on_cancel(SequenceId, bool, FinishReason, TimeNs) override {}
  void on_plan(const PlanTrace& trace, TimeNs now) override {
    for (const Preemption& preemption : trace.preemptions) tables_.erase(preemption.sequence);
    for (const BatchEntry& entry : trace.plan.entries) {
      tables_[entry.sequence] = {entry.block_table.begin(), entry.block_table.end()};
    }
    if (!tables_.empty()) uses.push_back({now, static_cast<int32_t>(tables_.size()), 16 * distinct_blocks()});
  }
  void on_commit(const StepResult&, TimeNs) override {}
  void on_finish(SequenceId sequence, FinishReason, TimeNs) override { tables_.erase(sequence); }

 private:
  [[nodiscard]] int64_t distinct_blocks() const {
    std::set<BlockId> blocks;
    for (const auto& [sequence, table] : tables_) blocks.insert(table.begin(), table.end());
    return static_cast<int64_t>(blocks.size());
  }
  std::map<SequenceId, std::vector<BlockId>> tables_;
};

// checklist 146: prefixes shared, lengths drawn, arrivals by time, with and without preemptions.
TEST(KvGrowth, IsWhatTheBlockTablesSay) {
  for (const char* json :
       {R"({"workload": "poisson,rate=40,requests=200,prompt=20-200,output=10-300,seed=3", "device": "unit"})",
        R"({"workload": "prefix,rate=60,requests=200,prefix=96,prefix_groups=4,output=5-90,seed=5", "device": "unit"})",
        R"({"workload": "closed,requests=60,prompt=32,output=300", "device": "unit", "kv_blocks": 150})"}) {
    const SimSpec spec = parse_sim_spec(json);
    TablesOfPlans tables;
    const SimResult result =
        run_simulation(spec.options, load_workload(spec), SteadyClock(), {.trace = &tables, .progress = {}});
    ASSERT_FALSE(tables.uses.empty());
    const KvUse* peak = &tables.uses.front();
    for (const KvUse& use : tables.uses) {
      if (use.tokens > peak->tokens) peak = &use;
    }
    const KvUse& first = tables.uses.front();
    EXPECT_EQ(result.kv_growth.peak().tokens, peak->tokens) << json;
    EXPECT_EQ(result.kv_growth.peak().sequences, peak->sequences) << json;
    EXPECT_EQ(result.kv_growth.peak().time, peak->time) << json;
    EXPECT_EQ(result.kv_growth.first().tokens, first.tokens) << json;
    // Half the growth of a rectangle's two ways round: first more sequences then longer ones, and the other way.
    const double a = first.tokens_per_sequence(), b = peak->tokens_per_sequence();
    const double n = first.sequences, m = peak->sequences;
    const KvGrowthParts parts = result.kv_growth.to_peak();
    EXPECT_NEAR(parts.by_concurrency, ((m - n) * a + (m - n) * b) / 2, 1e-6) << json;
    EXPECT_NEAR(parts.by_length, ((b - a) * n + (b - a) * m) / 2, 1e-6) << json;
  }
}

// checklist 146: the doctor's knob follows from it.
TEST(KvGrowth, TheDoctorNamesTheKnobOfTheFactor) {
  const auto knob_of = [](const char* json) {
    const SimSpec spec = parse_sim_spec(json);
    for (const Finding& finding :
         diagnose(run_simulation(spec.options, load_workload(spec), SteadyClock()), spec.options)) {
      if (finding.problem == "memory_pressure") return finding.knob;
    }
    return std::string();
  };
  // Twelve enter at once and outgrow the storage; with more slots their number fills it before they are long.
  EXPECT_TRUE(knob_of(R"({"workload": "closed,requests=60,prompt=32,output=400", "device": "unit", "kv_blocks": 150,
                          "max_num_seqs": 12, "schedule_conservativeness": 0})")
                  .starts_with("--schedule-conservativeness 1 or a lower --max-model-len"));
  EXPECT_TRUE(knob_of(R"({"workload": "closed,requests=60,prompt=32,output=400", "device": "unit", "kv_blocks": 150,
                          "schedule_conservativeness": 0})")
                  .starts_with("a lower --max-num-seqs"));
}

}  // namespace
}  // namespace inflight
