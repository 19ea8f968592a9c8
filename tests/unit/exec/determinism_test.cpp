// SPDX-License-Identifier: Apache-2.0
// The first contract: tokens and logits of a request are bitwise the same whatever else runs, however its prompt is
// cut, wherever its blocks lie, after a preemption by recomputing or swapping, and with two steps in flight.
// Covers: exec/cl_executor.cpp, exec/step_upload.cpp, exec/kv_storage.cpp, exec/adapter_slots.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/math.h"
#include "base/rng.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"
#include "support/executor_runner.h"
#include "support/stage_bench.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kBlockCount = 400;
constexpr int32_t kHostBlocks = 200;
constexpr int32_t kSequences = 6;
constexpr int32_t kOutputs = 12;
constexpr int32_t kDrafts = 5;

struct Outcome {
  std::vector<TokenId> tokens;  // sampled
  std::vector<float> logprobs;
  std::vector<std::pair<TokenId, float>> top;  // logprobs of the likeliest tokens, of one position after the other
  std::vector<std::vector<float>> logits;      // behind each; empty where the run could not keep them
};

void add_to(Outcome& outcome, const SampledToken& sampled) {
  outcome.tokens.push_back(sampled.token);
  outcome.logprobs.push_back(sampled.logprob);
  for (const TokenLogprob& further : sampled.further) {
    outcome.tokens.push_back(further.token);
    outcome.logprobs.push_back(further.logprob);
  }
  for (const auto& told : {sampled.top_logprobs, sampled.further_top_logprobs}) {
    for (const TokenLogprob& one : told) outcome.top.emplace_back(one.token, one.logprob);
  }
}

struct Schedule {
  int32_t chunk = 512;     // tokens of one sequence in a step at most
  bool together = true;    // else one sequence after the other
  bool scattered = false;  // blocks in random order
  bool recompute = false;  // each sequence is dropped and computed again after its 5th token
  bool swap = false;       // each sequence's blocks go to the host and come back elsewhere after its 5th token
  bool filtered = true;    // two sequences: the host must know their tokens before
};

class World {
 public:
  World(ClExecutor& executor, const Schedule& schedule, int32_t adapters)
      : executor_(executor), schedule_(schedule), adapters_(adapters) {
    for (int32_t i = 0; i < kBlockCount; ++i) free_.push_back(BlockId{i});
    if (schedule.scattered) {
      Rng rng(77);
      for (size_t i = free_.size() - 1; i > 0; --i) std::swap(free_[i], free_[rng.below(i + 1)]);
    }
  }

  std::map<int32_t, Outcome> run() {
    std::vector<int32_t> order;
    for (int32_t i = 0; i < kSequences; ++i) order.push_back(i);
    if (schedule_.together) {
      run_group(order);
    } else {
      for (const int32_t i : order) run_group({i});
    }
    return outcomes_;
  }

  static test::RunnerSequence make(int32_t index, int32_t adapters, bool filtered) {
    constexpr int32_t kPromptTokens[kSequences] = {1, 17, 40, 300, 530, 257};
    test::RunnerSequence sequence;
    sequence.id = SequenceId{static_cast<uint64_t>(index) + 1};
    sequence.row = index;
    // Side by side, with others between them, and rows without one.
    constexpr uint32_t kAdapters[kSequences] = {1, 0, 1, 2, 2, 0};
    if (adapters > 0) sequence.adapter = kAdapters[index];
    Rng rng(static_cast<uint64_t>(index) + 1000);
    for (int32_t i = 0; i < kPromptTokens[index]; ++i) sequence.tokens.push_back(rng.between(0, 299));
    if (index % 2 == 1) {
      sequence.sampling = {.temperature = 0.9F, .top_k = 40, .top_p = 0.95F, .min_p = 0.01F, .seed = 5};
    }
    sequence.prompt_token_count = kPromptTokens[index];
    if (index == 0 || index == 5) sequence.sampling.logprobs = index + 1;
    // The device changes the logits of most of them.
    if (filtered && (index == 1 || index == 4)) {
      for (int32_t i = 0; i < 10; ++i) sequence.allowed.push_back(static_cast<uint32_t>(rng.next()));
    }
    if (index == 3) {
      sequence.sampling.min_tokens = kOutputs / 2;
      for (TokenId token = 0; token < 200; ++token) sequence.sampling.stop_token_ids.push_back(token);
      sequence.sampling.logit_bias = {{210, 2.0F}, {3, 4.0F}, {290, -1.0F}, {210, 0.5F}};
    }
    if (index >= 4) {
      sequence.sampling.repetition_penalty = 1.2F;
      sequence.sampling.frequency_penalty = 0.4F;
    }
    return sequence;
  }

 private:
  void cover(test::RunnerSequence& sequence) {
    const int32_t needed = div_ceil(static_cast<int32_t>(sequence.tokens.size()), kBlockTokens);
    while (static_cast<int32_t>(sequence.blocks.size()) < needed) {
      ASSERT_FALSE(free_.empty());
      sequence.blocks.push_back(free_.back());
      free_.pop_back();
    }
  }

  void give_back(std::vector<BlockId>& blocks) {
    free_.insert(free_.begin(), blocks.begin(), blocks.end());
    blocks.clear();
  }

  void preempt(test::RunnerSequence& sequence, BatchPlan& plan) {
    if (schedule_.recompute) {
      give_back(sequence.blocks);
      sequence.computed = 0;
    }
    if (schedule_.swap) {
      std::vector<BlockId> old = sequence.blocks;
      sequence.blocks.clear();
      cover(sequence);  // other blocks: the old ones are not free yet
      for (size_t i = 0; i < old.size(); ++i) {
        const auto host = static_cast<BlockId>(next_host_++ % kHostBlocks);
        plan.swap_out.push_back({.device = old[i], .host = host});
        plan.swap_in.push_back({.device = sequence.blocks[i], .host = host});
      }
      give_back(old);
    }
  }

  void run_group(const std::vector<int32_t>& members) {
    std::vector<test::RunnerSequence> sequences;
    for (const int32_t i : members) sequences.push_back(make(i, adapters_, schedule_.filtered));
    std::map<int32_t, size_t> prompt;
    for (const auto& sequence : sequences) prompt[sequence.row] = sequence.tokens.size();
    std::vector<bool> preempted(sequences.size(), false);
    for (bool busy = true; busy;) {
      BatchPlan plan;
      plan.step = ++step_;
      busy = false;
      std::vector<test::RunnerSequence*> sampled;
      for (size_t i = 0; i < sequences.size(); ++i) {
        test::RunnerSequence& sequence = sequences[i];
        const size_t outputs = sequence.tokens.size() - prompt[sequence.row];
        if (outputs == kOutputs) {
          give_back(sequence.blocks);
          continue;
        }
        if (outputs == 5 && !preempted[i]) {
          preempted[i] = true;
          preempt(sequence, plan);
        }
        busy = true;
        cover(sequence);
        const int32_t rest = static_cast<int32_t>(sequence.tokens.size()) - sequence.computed;
        const int32_t count = std::min({rest, schedule_.chunk, 512 - plan.scheduled_token_count});
        if (count == 0) continue;
        test::add_entry(plan, sequence, count);
        if (count == rest) sampled.push_back(&sequence);
      }
      if (plan.empty()) continue;
      executor_.submit(plan);
      const StepResult& result = executor_.wait();
      ASSERT_EQ(result.swap_duration > 0, !plan.swap_out.empty());  // checklist 116
      ASSERT_LE(result.swap_duration, result.duration);
      const auto logits = executor_.logits();
      ASSERT_EQ(result.sampled.size(), sampled.size());
      for (const BatchEntry& entry : plan.entries) {
        const auto of_entry = [&](const auto& sequence) { return sequence.id == entry.sequence; };
        std::find_if(sequences.begin(), sequences.end(), of_entry)->computed += entry.scheduled_token_count;
      }
      for (size_t i = 0; i < sampled.size(); ++i) {
        ASSERT_TRUE(result.sampled[i].valid);
        if (sampled[i]->sampling.changes_logits(0) || !sampled[i]->allowed.empty()) {
          expect_host_token(*sampled[i], logits[i], result.sampled[i].token);
        }
        sampled[i]->tokens.push_back(result.sampled[i].token);
        Outcome& outcome = outcomes_[sampled[i]->row];
        add_to(outcome, result.sampled[i]);
        expect_host_top(result.sampled[i].top_logprobs, logits[i], sampled[i]->sampling.logprobs);
        outcome.logits.push_back(logits[i]);
      }
    }
  }

  static void expect_host_token(const test::RunnerSequence& sequence, std::vector<float> logits, TokenId token) {
    process_logits(
        {.sampling = sequence.sampling, .history = sequence.history, .prompt_token_count = sequence.prompt_token_count},
        logits);
    EXPECT_EQ(token, draw_token(logits, sequence.sampling, static_cast<int32_t>(sequence.tokens.size())).token);
  }

  static void expect_host_top(std::span<const TokenLogprob> told, const std::vector<float>& logits, int32_t logprobs) {
    const std::vector<TokenLogprob> expected = LogSoftmax(logits).top(std::max(logprobs, 0));
    ASSERT_EQ(told.size(), expected.size());
    for (size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].token, expected[i].token);
      EXPECT_EQ(told[i].logprob, expected[i].logprob);
    }
  }

  ClExecutor& executor_;
  Schedule schedule_;
  int32_t adapters_;
  std::vector<BlockId> free_;
  std::map<int32_t, Outcome> outcomes_;
  int32_t next_host_ = 0;
  uint64_t step_ = 0;
};

struct Case {
  const char* name;
  TensorType type;
  KvType kv;
  LaunchMode mode;
  int32_t window = 0;
  int32_t adapters = 0;                            // 0 or 2
  void (*shape)(test::SyntheticModel&) = nullptr;  // none: a Llama
};

void gemma2(test::SyntheticModel& model) { model.make_gemma(2); }
void gemma3(test::SyntheticModel& model) { model.make_gemma(3); }
void gemma4(test::SyntheticModel& model) { model.make_gemma4(); }
void large_gemma4(test::SyntheticModel& model) { model.make_large_gemma4(false); }
void mixed_gemma4(test::SyntheticModel& model) { model.make_large_gemma4(true); }
void exaone4(test::SyntheticModel& model) { model.make_exaone4(); }
void gpt_neox(test::SyntheticModel& model) { model.make_gpt_neox(true); }
void phi2(test::SyntheticModel& model) { model.make_phi2(); }
void nemotron(test::SyntheticModel& model) { model.make_nemotron(); }
void cohere2(test::SyntheticModel& model) { model.make_cohere2(); }
void hunyuan(test::SyntheticModel& model) {
  model.spec.architecture = "hunyuan-dense";
  model.query_key_norm = true;
}
void ministral3(test::SyntheticModel& model) { model.make_ministral3(); }
void experts(test::SyntheticModel& model) { model.make_mixture(8, 3, false); }
void gpt_oss(test::SyntheticModel& model) { model.make_gpt_oss(8, 3); }
void qwen35(test::SyntheticModel& model) { model.make_qwen35(false); }
void qwen35moe(test::SyntheticModel& model) { model.make_qwen35(true); }
void lfm2(test::SyntheticModel& model) { model.make_lfm2(false); }
void granite_hybrid(test::SyntheticModel& model) { model.make_granite_hybrid(false); }
void nemotron_h(test::SyntheticModel& model) { model.make_nemotron_h(false); }
void nemotron_h_moe(test::SyntheticModel& model) { model.make_nemotron_h(true); }
void falcon_h1(test::SyntheticModel& model) { model.make_falcon_h1(); }
void qwen3next(test::SyntheticModel& model) { model.make_qwen3next(true); }
void deepseek2(test::SyntheticModel& model) { model.make_deepseek2(false); }
void ranked_queries(test::SyntheticModel& model) { model.make_deepseek2(true); }
void shared_expert(test::SyntheticModel& model) {
  model.make_mixture(6, 2, true);
  model.dense_layers = 1;
}

class Determinism : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().mode == LaunchMode::Fused && !device_.info().host_code) {
      GTEST_SKIP() << device_.info().name << " has a launch a stage";
    }
    if (const char* why = test::why_not_tested(device_.info(), GetParam().mode)) GTEST_SKIP() << why;
    test::SyntheticModel synthetic;
    synthetic.matrix_type = GetParam().type;
    synthetic.spec.context_length = 1024;
    synthetic.spec.sliding_window = GetParam().window;
    if (GetParam().shape != nullptr) GetParam().shape(synthetic);
    if (GetParam().kv == KvType::Q8_0 && synthetic.spec.head_size < 32) {
      synthetic.spec.head_size = synthetic.spec.rope_dimension_count = 32;
    }
    synthetic.query_key_value_bias = !synthetic.spec.has_state();
    model_.emplace(load_model(folder_.write("model.gguf", test::build_model(synthetic).bytes())));
    adapters_.emplace(model_->spec, 40);
    for (int32_t i = 0; i < GetParam().adapters; ++i) {
      const std::string name = "adapter" + std::to_string(i);
      test::SyntheticAdapter adapter{.rank = i == 0 ? 5 : 33, .seed = static_cast<uint64_t>(i) + 1};
      if (synthetic.spec.expert_count > 0 || !synthetic.spec.gated_feed_forward)
        adapter.targets.resize(kAttentionTargetCount);
      adapters_->load(name, folder_.write(name, test::build_adapter(adapter, model_->spec).bytes()));
      leases_.push_back(adapters_->lease(name));
    }
    executor_.emplace(device_, model_->spec, model_->weights, options(GetParam().mode));
  }

  ClExecutorOptions options(LaunchMode mode) {
    return {.kv = KvLayout::of(model_->spec, kBlockTokens, GetParam().kv),
            .kv_block_count = kBlockCount,
            .host_block_count = kHostBlocks,
            .max_num_seqs = kSequences,
            .kept_states = 2,
            .max_num_batched_tokens = 512,
            .num_speculative_tokens = kDrafts,
            .launch_mode = mode,
            .keep_logits = true,
            .max_loras = GetParam().adapters,
            .adapters = &*adapters_};
  }

  // With all but the last of their prompts' tokens computed, one by one, so that all sequences then decode together;
  // those from `first_waiting` on with none.
  std::vector<test::RunnerSequence> begun(int32_t first_waiting, bool filtered) {
    std::vector<test::RunnerSequence> sequences;
    int32_t next_block = 0;
    for (int32_t i = 0; i < kSequences; ++i) {
      test::RunnerSequence& sequence = sequences.emplace_back(World::make(i, GetParam().adapters, filtered));
      const auto tokens = static_cast<int32_t>(sequence.tokens.size());
      for (int32_t b = 0; b < div_ceil(tokens + kOutputs + kDrafts, kBlockTokens); ++b) {
        sequence.blocks.push_back(BlockId{next_block++});
      }
      while (i < first_waiting && sequence.computed + 1 < tokens) {
        BatchPlan plan;
        const int32_t count = std::min(tokens - 1 - sequence.computed, 200);
        test::add_entry(plan, sequence, count);
        executor_->submit(plan);
        (void)executor_->wait();
        sequence.computed += count;
      }
    }
    return sequences;
  }

  void expect_same(const std::map<int32_t, Outcome>& found, const std::map<int32_t, Outcome>& expected) {
    for (const auto& [row, outcome] : expected) {
      ASSERT_TRUE(found.contains(row));
      EXPECT_EQ(found.at(row).tokens, outcome.tokens) << "sequence " << row;
      EXPECT_EQ(found.at(row).logprobs, outcome.logprobs) << "sequence " << row;
      EXPECT_EQ(found.at(row).top, outcome.top) << "sequence " << row;
      EXPECT_EQ(found.at(row).logits, outcome.logits) << "sequence " << row;
    }
  }

  test::TempFolder folder_;
  Device device_ = Device::open({});
  std::optional<LoadedModel> model_;
  std::optional<AdapterStore> adapters_;
  std::vector<AdapterLease> leases_;
  std::optional<ClExecutor> executor_;
};

class StateDeterminism : public Determinism {};

// checklist 11, 82, 83: prompts and decodes of any lengths in a step, blocks in any order, against each one alone.
TEST_P(Determinism, OutputsDoNotDependOnTheLoad) {
  const auto expected = World(*executor_, {.together = false}, GetParam().adapters).run();
  ASSERT_EQ(expected.size(), size_t{kSequences});
  const std::map<const char*, Schedule> schedules = {
      {"together", {}},
      {"chunks of 16", {.chunk = 16}},
      {"chunks of 64", {.chunk = 64}},
      {"odd chunks", {.chunk = 23, .together = false}},
      {"scattered blocks", {.chunk = 64, .scattered = true}},
      {"recomputed", {.recompute = true}},
      {"swapped", {.chunk = 100, .scattered = true, .swap = true}},
  };
  for (const auto& [name, schedule] : schedules) {
    SCOPED_TRACE(name);
    expect_same(World(*executor_, schedule, GetParam().adapters).run(), expected);
  }
}

// Where a step has few rows, the workers of a fused one norm, merge and quantise them each for itself; where
// work-groups do the stages, threads share each item.
TEST_P(Determinism, OtherLaunchesGiveTheSameBits) {
  const bool stages = GetParam().mode == LaunchMode::Stages;
  if (stages && !device_.info().host_code) GTEST_SKIP() << "the other way round in the cases of work-groups";
  ClExecutor other(device_, model_->spec, model_->weights, options(stages ? LaunchMode::Fused : LaunchMode::Stages));
  for (const Schedule& schedule : {Schedule{.chunk = 23, .together = false}, Schedule{}}) {
    expect_same(World(*executor_, schedule, GetParam().adapters).run(),
                World(other, schedule, GetParam().adapters).run());
  }
}

// The sampled token stays on the device; the next step is submitted before it is read.
TEST_P(Determinism, TwoStepsInFlightGiveTheSameTokens) {
  const auto expected = World(*executor_, {.together = false, .filtered = false}, GetParam().adapters).run();
  std::vector<test::RunnerSequence> sequences = begun(kSequences - 1, false);
  std::vector<Outcome> found(kSequences);
  const auto read = [&] {
    const StepResult& result = executor_->wait();
    for (const SampledToken& sampled : result.sampled) {
      add_to(found[static_cast<size_t>(sampled.sequence) - 1], sampled);
      sequences[static_cast<size_t>(sampled.sequence) - 1].tokens.push_back(sampled.token);
    }
  };
  for (int32_t output = 0; output < kOutputs; ++output) {
    BatchPlan plan;
    for (test::RunnerSequence& sequence : sequences) {
      if (output > 0) {
        test::add_entry_behind(plan, sequence);
        continue;
      }
      const auto count = static_cast<int32_t>(sequence.tokens.size()) - sequence.computed;
      if (plan.scheduled_token_count + count > 512) GTEST_FAIL();
      test::add_entry(plan, sequence, count);
    }
    executor_->submit(plan);
    if (output > 0) read();
  }
  read();
  for (int32_t i = 0; i < kSequences; ++i) {
    EXPECT_EQ(found[static_cast<size_t>(i)].tokens, expected.at(i).tokens);
    EXPECT_EQ(found[static_cast<size_t>(i)].logprobs, expected.at(i).logprobs);
    EXPECT_EQ(found[static_cast<size_t>(i)].top, expected.at(i).top);
  }
}

// States left behind the 256th and the 496th token, within one step and its tiles, are those that others go on from.
TEST_P(StateDeterminism, KeptStatesGiveTheSameBits) {
  const auto expected = World(*executor_, {.together = false}, 0).run();
  constexpr int32_t kLong = 4, kPlaces[] = {256, 496};
  test::RunnerSequence sequence = World::make(kLong, 0, true);
  for (int32_t i = 0; i < div_ceil(static_cast<int32_t>(sequence.tokens.size()), kBlockTokens); ++i) {
    sequence.blocks.push_back(BlockId{i});
  }
  StateMoves leaves{.kept = {{{kPlaces[0], 0}, {kPlaces[1], 1}}}, .kept_count = 2};
  BatchPlan plan;
  test::add_entry(plan, sequence, 512);
  plan.entries.back().states = &leaves;
  executor_->submit(plan);
  (void)executor_->wait();
  for (const int32_t place : {1, 0}) {
    SCOPED_TRACE(place);
    test::RunnerSequence other = sequence;
    other.row = place;
    other.computed = kPlaces[place];
    StateMoves begins{.from = place};
    BatchPlan next;
    test::add_entry(next, other, static_cast<int32_t>(other.tokens.size()) - other.computed);
    next.entries.back().states = &begins;
    executor_->submit(next);
    ASSERT_TRUE(executor_->wait().sampled.at(0).valid);
    EXPECT_EQ(executor_->logits().at(0), expected.at(kLong).logits.at(0));
  }
}

// checklist 124: guesses right up to any place, wrong ones behind which all goes on, beside others with more or fewer.
TEST_P(Determinism, VerifiedGuessesGiveTheSameTokens) {
  if (model_->spec.has_state()) GTEST_SKIP() << "a state cannot go back to before a wrong guess";
  const auto expected = World(*executor_, {.together = false}, GetParam().adapters).run();
  std::vector<test::RunnerSequence> sequences = begun(kSequences, true);
  std::vector<Outcome> found(kSequences);
  Rng rng(3);
  int32_t accepted = 0;
  for (bool busy = true; busy;) {
    BatchPlan plan;
    std::vector<std::vector<TokenId>> guessed(kSequences);  // the newest token, then guesses
    std::vector<int32_t> right(kSequences);
    for (size_t i = 0; i < kSequences; ++i) {
      const size_t done = found[i].tokens.size();
      if (done >= kOutputs) continue;
      test::RunnerSequence& sequence = sequences[i];
      test::add_entry(plan, sequence, 1);
      const auto most = std::min(kDrafts, kOutputs - 1 - static_cast<int32_t>(done));
      const int32_t drafts = rng.between(0, most);
      right[i] = rng.between(0, drafts);
      guessed[i].push_back(sequence.tokens.back());
      for (int32_t d = 0; d < drafts; ++d) {
        const TokenId next = expected.at(static_cast<int32_t>(i)).tokens[done + static_cast<size_t>(d)];
        guessed[i].push_back(d < right[i] ? next : (next + 1 + d) % 300);
      }
      sequence.masks = test::masks_of(sequence, drafts);
      sequence.history.allowed = sequence.masks;
      BatchEntry& entry = plan.entries.back();
      entry.tokens = guessed[i];
      entry.draft_token_count = drafts;
      entry.scheduled_token_count += drafts;
      plan.scheduled_token_count += drafts;
    }
    busy = !plan.empty();
    if (!busy) break;
    executor_->submit(plan);
    for (const SampledToken& sampled : executor_->wait().sampled) {
      const size_t i = static_cast<size_t>(sampled.sequence) - 1;
      ASSERT_EQ(sampled.further.size(), static_cast<size_t>(right[i]));
      add_to(found[i], sampled);
      accepted += right[i];
      sequences[i].computed += 1 + right[i];
      for (int32_t t = right[i]; t >= 0; --t) {
        sequences[i].tokens.push_back(found[i].tokens[found[i].tokens.size() - 1 - static_cast<size_t>(t)]);
      }
    }
  }
  EXPECT_GT(accepted, 15);
  for (int32_t i = 0; i < kSequences; ++i) {
    EXPECT_EQ(found[static_cast<size_t>(i)].tokens, expected.at(i).tokens) << "sequence " << i;
    EXPECT_EQ(found[static_cast<size_t>(i)].logprobs, expected.at(i).logprobs) << "sequence " << i;
    EXPECT_EQ(found[static_cast<size_t>(i)].top, expected.at(i).top) << "sequence " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Determinism,
    testing::Values(Case{"F32", TensorType::F32, KvType::F32, LaunchMode::Fused},
                    Case{"F16", TensorType::F16, KvType::F16, LaunchMode::Fused},
                    Case{"Q8", TensorType::Q8_0, KvType::F16, LaunchMode::Fused},
                    Case{"Q8Stages", TensorType::Q8_0, KvType::F16, LaunchMode::Stages},
                    Case{"Q8Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups},
                    Case{"Q8FusedGroups", TensorType::Q8_0, KvType::F16, LaunchMode::FusedGroups},
                    Case{"Q4FusedGroups", TensorType::Q4_0, KvType::Q8_0, LaunchMode::FusedGroups, 100},
                    Case{"F16FusedGroups", TensorType::F16, KvType::F16, LaunchMode::FusedGroups},
                    Case{"Gemma3FusedGroups", TensorType::F16, KvType::F16, LaunchMode::FusedGroups, 0, 2, gemma3},
                    Case{"WindowGroups", TensorType::F16, KvType::Q8_0, LaunchMode::Groups, 100, 2},
                    Case{"Q4", TensorType::Q4_0, KvType::F16, LaunchMode::Fused},
                    Case{"Q41", TensorType::Q4_1, KvType::F16, LaunchMode::Fused},
                    Case{"Q51", TensorType::Q5_0, KvType::F16, LaunchMode::Fused},
                    Case{"Window", TensorType::F16, KvType::F16, LaunchMode::Fused, 100},
                    Case{"Adapters", TensorType::Q8_0, KvType::F16, LaunchMode::Fused, 0, 2},
                    Case{"AdaptersStages", TensorType::Q8_0, KvType::F16, LaunchMode::Stages, 0, 2},
                    Case{"AdaptersF16", TensorType::F16, KvType::F16, LaunchMode::Fused, 0, 2},
                    Case{"Gemma2", TensorType::Q8_0, KvType::F16, LaunchMode::Fused, 0, 2, gemma2},
                    Case{"Gemma2Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, gemma2},
                    Case{"Gemma3", TensorType::F16, KvType::I16, LaunchMode::Fused, 0, 0, gemma3},
                    Case{"Gemma3Groups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 2, gemma3},
                    Case{"Gemma4", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, gemma4},
                    Case{"Gemma4Floats", TensorType::F16, KvType::F16, LaunchMode::Fused, 0, 0, gemma4},
                    Case{"Gemma4Stages", TensorType::Q8_0, KvType::F16, LaunchMode::Stages, 0, 0, gemma4},
                    Case{"Gemma4Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, gemma4},
                    Case{"Gemma4Large", TensorType::F16, KvType::I16, LaunchMode::Fused, 0, 0, large_gemma4},
                    Case{"Gemma4LargeGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, large_gemma4},
                    Case{"Gemma4Experts", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, mixed_gemma4},
                    Case{"Gemma4ExpertsStages", TensorType::F16, KvType::Q8_0, LaunchMode::Stages, 0, 0, mixed_gemma4},
                    Case{"Gemma4ExpertsGroups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 0, mixed_gemma4},
                    Case{"UnrotatedGlobalsGroups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 0, exaone4},
                    Case{"GptNeox", TensorType::Q8_0, KvType::F16, LaunchMode::Fused, 0, 2, gpt_neox},
                    Case{"GptNeoxGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 2, gpt_neox},
                    Case{"GptNeoxFusedGroups", TensorType::F16, KvType::F16, LaunchMode::FusedGroups, 0, 0, gpt_neox},
                    Case{"Phi2", TensorType::F16, KvType::I16, LaunchMode::Fused, 0, 0, phi2},
                    Case{"Phi2Groups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 0, phi2},
                    Case{"NemotronGroups", TensorType::Q4_0, KvType::F16, LaunchMode::Groups, 0, 0, nemotron},
                    Case{"Cohere2", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 2, cohere2},
                    Case{"Cohere2Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 2, cohere2},
                    Case{"Cohere2FusedGroups", TensorType::F16, KvType::F16, LaunchMode::FusedGroups, 0, 0, cohere2},
                    Case{"HunyuanGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, hunyuan},
                    Case{"TemperatureGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, ministral3},
                    Case{"Experts", TensorType::Q8_0, KvType::F16, LaunchMode::Fused, 0, 0, experts},
                    Case{"ExpertsStages", TensorType::Q4_0, KvType::F16, LaunchMode::Stages, 0, 0, experts},
                    Case{"ExpertsGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 2, experts},
                    Case{"GptOss", TensorType::MXFP4, KvType::I16, LaunchMode::Fused, 0, 0, gpt_oss},
                    Case{"GptOssGroups", TensorType::MXFP4, KvType::F16, LaunchMode::Groups, 0, 0, gpt_oss},
                    Case{"States", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, qwen35},
                    Case{"StatesStages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, qwen35},
                    Case{"StatesGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, qwen35},
                    Case{"StatesAndExperts", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, qwen35moe},
                    Case{"ShortConvolutions", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, lfm2},
                    Case{"ShortConvolutionsStages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, lfm2},
                    Case{"ShortConvolutionsGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, lfm2},
                    Case{"Mamba2", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, granite_hybrid},
                    Case{"Mamba2Stages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, granite_hybrid},
                    Case{"Mamba2Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, granite_hybrid},
                    Case{"NemotronH", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, nemotron_h_moe},
                    Case{"NemotronHStages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, nemotron_h},
                    Case{"NemotronHGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, nemotron_h_moe},
                    Case{"FalconH1", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, falcon_h1},
                    Case{"FalconH1Stages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, falcon_h1},
                    Case{"FalconH1Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, falcon_h1},
                    Case{"Qwen3Next", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, qwen3next},
                    Case{"Qwen3NextGroups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 0, qwen3next},
                    Case{"Latent", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, ranked_queries},
                    Case{"LatentFloats", TensorType::F16, KvType::F16, LaunchMode::Fused, 0, 0, deepseek2},
                    Case{"LatentStages", TensorType::Q8_0, KvType::F16, LaunchMode::Stages, 0, 0, deepseek2},
                    Case{"LatentGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, ranked_queries},
                    Case{"SharedExpert", TensorType::F16, KvType::I16, LaunchMode::Fused, 0, 2, shared_expert},
                    Case{"KvQ8", TensorType::F16, KvType::Q8_0, LaunchMode::Fused},
                    Case{"KvI16", TensorType::Q8_0, KvType::I16, LaunchMode::Fused},
                    Case{"KvI16Window", TensorType::F16, KvType::I16, LaunchMode::Stages, 100}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Models, StateDeterminism,
    testing::Values(Case{"Fused", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, qwen35},
                    Case{"Stages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, qwen35},
                    Case{"Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, qwen35},
                    Case{"ShortConvolutions", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, lfm2},
                    Case{"ShortConvolutionsStages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, lfm2},
                    Case{"ShortConvolutionsGroups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, lfm2},
                    Case{"Mamba2", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, granite_hybrid},
                    Case{"Mamba2Stages", TensorType::F16, KvType::F16, LaunchMode::Stages, 0, 0, granite_hybrid},
                    Case{"Mamba2Groups", TensorType::Q8_0, KvType::F16, LaunchMode::Groups, 0, 0, granite_hybrid},
                    Case{"NemotronH", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, nemotron_h},
                    Case{"NemotronHGroups", TensorType::F16, KvType::F16, LaunchMode::Groups, 0, 0, nemotron_h_moe},
                    Case{"FalconH1", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, falcon_h1},
                    Case{"Qwen3Next", TensorType::Q8_0, KvType::I16, LaunchMode::Fused, 0, 0, qwen3next}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace inflight
