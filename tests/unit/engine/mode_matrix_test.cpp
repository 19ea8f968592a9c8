// SPDX-License-Identifier: Apache-2.0
// Goal: on a device, a request gives bitwise the tokens that it gives alone, whatever the batching mode, overlap, way
// of preemption, chunk size, block size and prefix cache (checklist 41, 54, 60, 62, 78, 91). Method: the demo model on
// the default device, six requests at once in a KV storage too small for them, against each one alone in an engine that
// can do nothing else. INFLIGHT_MATRIX=full runs every combination, else a
// tenth in which every value occurs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/rng.h"
#include "engine/runtime.h"
#include "support/engine_world.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr int32_t kModelLength = 140;
constexpr int32_t kOutputTokens = 40;

struct Setting {
  BatchingMode batching = BatchingMode::Continuous;
  bool mixed = false;
  bool overlap = false;
  PreemptMode preempt = PreemptMode::Recompute;
  int32_t chunk = 0;  // long_prefill_token_threshold; 0 = none
  int32_t block_size = 16;
  bool prefix_caching = true;
  std::string model = kDemoModel;
  std::optional<KvType> kv;  // none: the device's default
  double offloading_gib = 0.0;
  bool host_memory = true;  // for swapping; without, K and V of local layers lie in slots
  int32_t kv_tokens = 160;  // of which 490 are wanted; at least one whole sequence
  int32_t step_tokens = 2048;
};

std::string name_of(const Setting& setting) {
  return fmt::format("{}{} overlap={} preempt={} chunk={} block_size={} prefix_caching={}", to_string(setting.batching),
                     setting.mixed ? "+mixed" : "", setting.overlap, to_string(setting.preempt), setting.chunk,
                     setting.block_size, setting.prefix_caching);
}

std::vector<SubmitOptions> requests() {
  std::vector<SubmitOptions> result;
  Rng rng(41);
  std::vector<TokenId> shared;
  for (int i = 0; i < 40; ++i) shared.push_back(rng.between(10, 1000));
  for (const int32_t length : {3, 17, 50, 90, 60, 30}) {
    SubmitOptions request;
    if (length >= 50) request.prompt = shared;  // a common beginning
    while (static_cast<int32_t>(request.prompt.size()) < length) request.prompt.push_back(rng.between(10, 1000));
    request.sampling.max_tokens = kOutputTokens;
    request.sampling.ignore_eos = true;
    if (result.size() % 2 == 1) {
      request.sampling.temperature = 0.8F;
      request.sampling.top_p = 0.9F;
      request.sampling.seed = 7;
    }
    result.push_back(std::move(request));
  }
  return result;
}

RuntimeOptions options_of(const Setting& setting) {
  RuntimeOptions options;
  options.model = setting.model;
  options.kv_type = setting.kv;
  options.kv_offloading_gib = setting.offloading_gib;
  options.host_driven = true;
  options.overlap = setting.overlap;
  options.prefix_caching = setting.prefix_caching;
  options.block_size = setting.block_size;
  options.kv_blocks = std::max(setting.kv_tokens / setting.block_size, div_ceil(kModelLength, setting.block_size));
  SchedulerConfig& config = options.scheduler;
  config.max_num_seqs = 6;
  config.max_num_batched_tokens = setting.step_tokens;
  config.max_model_len = kModelLength;
  config.batching = setting.batching;
  config.enable_mixed_chunk = setting.mixed;
  config.max_batch_delay_ms = 0.0;
  config.preempt = setting.preempt;
  config.host_blocks = setting.host_memory ? 1024 / setting.block_size : 0;
  config.long_prefill_token_threshold = setting.chunk;
  config.schedule_conservativeness = 0.0;
  return options;
}

// Serves the requests of `indices` together.
std::vector<std::vector<TokenId>> serve(Runtime& runtime, const std::vector<SubmitOptions>& all,
                                        const std::vector<size_t>& indices) {
  std::vector<OutputStream*> streams;
  for (const size_t i : indices) streams.push_back(runtime.engine().submit(all[i]));
  while (runtime.engine().step()) {
  }
  std::vector<std::vector<TokenId>> outputs;
  for (OutputStream* stream : streams) outputs.push_back(read_answer(stream).tokens);
  return outputs;
}

std::vector<std::vector<TokenId>> outputs_alone(Setting setting) {
  setting.prefix_caching = false;
  RuntimeOptions options = options_of(setting);
  options.scheduler.max_num_seqs = 1;
  Runtime runtime(options);
  const auto all = requests();
  std::vector<std::vector<TokenId>> outputs;
  for (size_t i = 0; i < all.size(); ++i) outputs.push_back(serve(runtime, all, {i}).front());
  return outputs;
}

// Every combination of mode, overlap, preemption and chunk; block sizes and prefix cache in turn.
std::vector<Setting> settings() {
  struct Mode {
    BatchingMode batching;
    bool mixed;
  };
  constexpr Mode kModes[] = {{BatchingMode::Continuous, false},
                             {BatchingMode::PrefillFirst, false},
                             {BatchingMode::PrefillFirst, true},
                             {BatchingMode::Dynamic, false},
                             {BatchingMode::Static, false}};
  constexpr int32_t kChunks[] = {16, 64, 512, 2048, 0};
  constexpr int32_t kBlockSizes[] = {16, 8, 32, 64, 128};
  const char* const wanted = std::getenv("INFLIGHT_MATRIX");
  const bool full = wanted != nullptr && std::string_view(wanted) == "full";
  std::vector<Setting> result;
  for (size_t mode = 0; mode < std::size(kModes); ++mode) {
    for (size_t chunk = 0; chunk < std::size(kChunks); ++chunk) {
      for (size_t rest = 0; rest < 6; ++rest) {
        // In the short form a mode meets three chunk sizes once each, with overlap and preemption in turn.
        const bool in_turn = chunk != 2 && chunk != 3 && rest == (2 * mode + 3 * chunk + chunk / 2) % 6;
        if (!full && !in_turn) continue;
        result.push_back({.batching = kModes[mode].batching,
                          .mixed = kModes[mode].mixed,
                          .overlap = rest % 2 == 1,
                          .preempt = static_cast<PreemptMode>(rest / 2),
                          .chunk = kChunks[chunk],
                          .block_size = kBlockSizes[(mode + chunk) % std::size(kBlockSizes)],
                          .prefix_caching = (mode + rest + chunk) % 3 != 0});
      }
    }
  }
  return result;
}

// What the runs have really exercised.
struct Exercised {
  int64_t preemptions = 0, recomputed = 0, swapped = 0, cached = 0;
};

// Under every setting each request gives the tokens of `alone`.
Exercised expect_tokens(const std::vector<Setting>& settings, const std::vector<std::vector<TokenId>>& alone) {
  const auto all = requests();
  Exercised exercised;
  for (const Setting& setting : settings) {
    Runtime runtime(options_of(setting));
    const auto together = serve(runtime, all, {0, 1, 2, 3, 4, 5});
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(alone[i].size(), static_cast<size_t>(kOutputTokens));
      EXPECT_EQ(together[i], alone[i]) << "request " << i << ", " << name_of(setting);
    }
    const SchedulerStats stats = runtime.engine().stats().scheduler;
    exercised.preemptions += stats.preemptions;
    exercised.recomputed += stats.recomputed_tokens;
    exercised.swapped += stats.swapped_in_blocks;
    exercised.cached += stats.cached_tokens;
  }
  return exercised;
}

// checklist 41, 54, 60, 62, 78, 91
TEST(ModeMatrix, TokensAreThoseOfARequestAlone) {
  const Exercised exercised = expect_tokens(settings(), outputs_alone({}));
  EXPECT_GT(exercised.preemptions, 10);
  EXPECT_GT(exercised.recomputed, 100);
  EXPECT_GT(exercised.swapped, 10);
  EXPECT_GT(exercised.cached, 100);
}

// checklist 47: the same for a model whose window is shorter than the requests.
TEST(ModeMatrix, TokensOfAModelWithAWindowAreThoseOfARequestAlone) {
  SyntheticModel synthetic;
  synthetic.spec.vocabulary_size = 1024;
  synthetic.spec.sliding_window = 36;
  const TempFolder folder;
  const std::string model = folder.write("window.gguf", build_model(synthetic).bytes());
  const Exercised exercised =
      expect_tokens({{.preempt = PreemptMode::Recompute, .chunk = 16, .model = model},
                     {.overlap = true, .preempt = PreemptMode::Swap, .block_size = 8, .model = model},
                     {.overlap = true, .preempt = PreemptMode::Swap, .prefix_caching = false, .model = model}},
                    outputs_alone({.model = model}));
  EXPECT_GT(exercised.preemptions, 3);
  EXPECT_GT(exercised.recomputed, 10);
  EXPECT_GT(exercised.swapped, 1);
  EXPECT_GT(exercised.cached, 10);
}

// checklist 47: the same where the windows of some layers only are shorter, and what these store lies in slots: in as
// many as there are blocks, or in fewer, which are then used again. Alone it lies in the blocks.
TEST(ModeMatrix, TokensFromLocalSlotsAreThoseOfARequestAlone) {
  const TempFolder folder;
  for (void (*const shape)(SyntheticModel&) :
       {+[](SyntheticModel& m) { m.make_gemma(3); }, +[](SyntheticModel& m) { m.make_gpt_oss(4, 2); },
        +[](SyntheticModel& m) { m.make_gemma4(); }, +[](SyntheticModel& m) { m.make_large_gemma4(true); }}) {
    SyntheticModel synthetic;
    shape(synthetic);
    synthetic.spec.vocabulary_size = 1024;
    synthetic.spec.local_window = 36;
    const std::string model = folder.write("local.gguf", build_model(synthetic).bytes());
    const Setting slots{.overlap = true, .model = model, .host_memory = false};
    std::vector<Setting> settings(6, slots);
    settings[1].chunk = 16;
    settings[2].overlap = false;
    settings[2].block_size = 8;
    for (size_t i = 3; i < settings.size(); ++i) {
      settings[i].kv_tokens = 1600;
      settings[i].step_tokens = 48;
      settings[i].block_size = i == 3 ? 16 : 8;
    }
    settings[4].batching = BatchingMode::PrefillFirst;
    settings[5].prefix_caching = false;
    const Exercised exercised = expect_tokens(settings, outputs_alone({.model = model}));
    EXPECT_GT(exercised.preemptions, 5);
    EXPECT_GT(exercised.recomputed, 10);
    EXPECT_GT(exercised.cached, 100);
    for (size_t i = 0; i < settings.size(); ++i) {
      const Runtime runtime(options_of(settings[i]));
      const auto limits = nlohmann::json::parse(runtime.info_json()).at("limits");
      EXPECT_GT(limits.at("local_kv_blocks"), 0);
      EXPECT_EQ(limits.at("local_kv_blocks") < limits.at("kv_blocks"), i >= 3) << i;
    }
  }
}

// Further choices begin with a copy of the first one's slot, guesses are computed in slots taken ahead.
TEST(ModeMatrix, ChoicesAndGuessesFromLocalSlotsAreThoseFromBlocks) {
  SyntheticModel synthetic;
  synthetic.make_gemma(3);
  synthetic.spec.vocabulary_size = 1024;
  synthetic.spec.local_window = 36;
  const TempFolder folder;
  Setting setting{.model = folder.write("local.gguf", build_model(synthetic).bytes())};
  setting.kv_tokens = 1600;
  setting.step_tokens = 48;
  const auto answers = [&](int32_t drafts) {
    RuntimeOptions options = options_of(setting);
    options.scheduler.num_speculative_tokens = drafts;
    Runtime runtime(options);
    std::vector<std::vector<TokenId>> tokens;
    auto all = requests();
    for (const size_t i : {3U, 4U}) {
      all[i].sampling.n = 3;
      OutputStream* const stream = runtime.engine().submit(all[i]);
      while (runtime.engine().step()) {
      }
      for (const Answer& answer : read_answers(stream, 3)) tokens.push_back(answer.tokens);
    }
    EXPECT_EQ(runtime.engine().stats().scheduler.drafts > 0, drafts > 0);
    return tokens;
  };
  const auto expected = answers(0);
  setting.host_memory = false;
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(answers(0), expected);
  EXPECT_EQ(answers(5), expected);
}

// The same for a model whose layers have states in the place of attention: they begin where one is kept, or anew.
TEST(ModeMatrix, TokensOfAModelWithStatesAreThoseOfARequestAlone) {
  SyntheticModel synthetic;
  synthetic.make_qwen35(false);
  synthetic.spec.vocabulary_size = 1024;
  const TempFolder folder;
  const std::string model = folder.write("states.gguf", build_model(synthetic).bytes());
  const Exercised exercised =
      expect_tokens({{.chunk = 16, .model = model},
                     {.overlap = true, .block_size = 8, .model = model},
                     {.batching = BatchingMode::PrefillFirst, .overlap = true, .chunk = 7, .model = model},
                     {.batching = BatchingMode::Static, .overlap = true, .model = model},
                     {.overlap = true, .prefix_caching = false, .model = model}},
                    outputs_alone({.model = model}));
  EXPECT_GT(exercised.preemptions, 5);
  EXPECT_GT(exercised.recomputed, 10);
  EXPECT_GT(exercised.cached, 20);
}

// A second answer to a prompt and a longer one begin behind it; without room for kept states they would not.
TEST(ModeMatrix, StatesOfPromptsAreKept) {
  SyntheticModel synthetic;
  synthetic.make_qwen35(false);
  synthetic.spec.vocabulary_size = 1024;
  const TempFolder folder;
  RuntimeOptions options = options_of({.model = folder.write("states.gguf", build_model(synthetic).bytes())});
  options.kv_blocks = 60;
  Runtime runtime(options);
  auto all = requests();
  const auto first = serve(runtime, all, {3});
  EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, 0);
  EXPECT_EQ(serve(runtime, all, {3}), first);
  EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, 64);  // of 90 tokens, in blocks of 16
  all.push_back(all[3]);
  all.back().prompt.push_back(5);
  (void)serve(runtime, all, {all.size() - 1});
  EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, 64 + 80);  // the second left one where its match ends
}

// checklist 89: the same for every type of KV cache.
TEST(ModeMatrix, TokensFromACacheOfAnyTypeAreThoseOfARequestAlone) {
  for (const KvType kv : {KvType::F16, KvType::I16, KvType::Q8_0}) {
    SCOPED_TRACE(to_string(kv));
    const Exercised exercised =
        expect_tokens({{.preempt = PreemptMode::Recompute, .chunk = 16, .kv = kv},
                       {.overlap = true, .preempt = PreemptMode::Swap, .block_size = 8, .kv = kv}},
                      outputs_alone({.kv = kv}));
    EXPECT_GT(exercised.preemptions, 3);
    EXPECT_GT(exercised.recomputed, 10);
    EXPECT_GT(exercised.swapped, 1);
    EXPECT_GT(exercised.cached, 10);
  }
}

// checklist 94: prefixes that came back from host memory give the tokens that computed ones give.
TEST(ModeMatrix, TokensFromOffloadedPrefixesAreThoseOfARequestAlone) {
  const auto all = requests();
  for (const bool overlap : {false, true}) {
    const Setting setting{.overlap = overlap, .offloading_gib = 0.01};
    const auto alone = outputs_alone(setting);
    RuntimeOptions options = options_of(setting);
    options.scheduler.max_num_seqs = 1;
    Runtime runtime(options);
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(serve(runtime, all, {i}).front(), alone[i]) << i;
    }
    const SchedulerStats stats = runtime.engine().stats().scheduler;
    EXPECT_GT(stats.offloaded_blocks, 20);
    EXPECT_GT(stats.restored_blocks, 5);
    EXPECT_EQ(stats.host_cached_tokens, stats.restored_blocks * 16);
  }
}

}  // namespace
}  // namespace inflight::test
