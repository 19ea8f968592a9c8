// SPDX-License-Identifier: Apache-2.0
// Goal: speculative decoding (checklist 124) finds the guesses that it says it finds, keeps every limit, and gives the
// tokens that decoding one by one gives, in fewer steps. Method: a search written anew; worlds with few distinct
// tokens, so that guesses are right at times, over an oracle that checks each K and V. The random simulation
// speculates, too.
// Covers: sched/scheduler_drafts.cpp, sched/ngram_lookup.cpp, sched/speculative_config.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "sched/ngram_lookup.h"
#include "sched/speculative_config.h"
#include "support/expect_error.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

using Tokens = std::vector<TokenId>;

Tokens guesses(const Tokens& tokens, int32_t least, int32_t most, int32_t count, const Tokens& prediction = {}) {
  Tokens result = {-7};  // stays
  look_up_ngram(tokens, prediction, {least, most}, count, result);
  EXPECT_EQ(result.front(), -7);
  result.erase(result.begin());
  return result;
}

TEST(NgramLookup, ContinuesWhatStoodThereBefore) {
  EXPECT_EQ(guesses({1, 2, 3, 4, 5, 1, 2}, 2, 3, 3), (Tokens{3, 4, 5}));
  EXPECT_EQ(guesses({1, 2, 3, 9, 1, 2, 4, 9, 1, 2}, 1, 3, 1), (Tokens{4}));        // the latest of equal length
  EXPECT_EQ(guesses({7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}, 1, 3, 2), (Tokens{3, 9}));  // the longest first
  EXPECT_EQ(guesses({1, 2, 3, 4, 5, 9, 2}, 2, 3, 3), (Tokens{}));                  // too short a run
  EXPECT_EQ(guesses({5, 6, 5, 6, 5}, 1, 4, 5), (Tokens{6, 5, 6, 5, 6}));           // beyond the end: the period goes on
  EXPECT_EQ(guesses({5, 5}, 1, 4, 3), (Tokens{5, 5, 5}));
  EXPECT_EQ(guesses({5}, 1, 4, 3), (Tokens{}));
  EXPECT_EQ(guesses({5, 5}, 1, 4, 0), (Tokens{}));
}

TEST(NgramLookup, PrefersWhatIsExpected) {
  const Tokens prediction = {4, 5, 6, 1, 2, 8, 9};
  EXPECT_EQ(guesses({1, 2, 3, 4, 1, 2}, 1, 3, 9, prediction), (Tokens{8, 9}));  // of equal length; up to its end
  EXPECT_EQ(guesses({1, 2, 3, 4, 1, 2}, 1, 3, 1, prediction), (Tokens{8}));
  EXPECT_EQ(guesses({3, 1, 2, 7, 3, 1, 2}, 1, 3, 1, prediction), (Tokens{7}));  // the longer run
  EXPECT_EQ(guesses({3, 8, 9}, 1, 3, 2, prediction), (Tokens{}));               // nothing follows there
  EXPECT_EQ(guesses({4}, 1, 3, 2, prediction), (Tokens{5, 6}));
}

// By the definition: for each length from the longest, each place from the last.
Tokens slow_guesses(Tokens tokens, int32_t least, int32_t most, int32_t count) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t length = std::min(most, size - 1); length >= least; --length) {
    for (int32_t begin = size - length - 1; begin >= 0; --begin) {
      if (!std::equal(tokens.begin() + begin, tokens.begin() + begin + length, tokens.end() - length)) continue;
      for (int32_t i = 0; i < count; ++i) tokens.push_back(tokens[static_cast<size_t>(begin + length + i)]);
      return {tokens.begin() + size, tokens.end()};
    }
  }
  return {};
}

TEST(NgramLookup, AgreesWithItsDefinition) {
  Rng rng(5);
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    Tokens tokens;
    const int32_t vocabulary = rng.between(1, 5);
    for (int32_t left = rng.between(1, 40); left > 0; --left) tokens.push_back(rng.between(0, vocabulary));
    const int32_t least = rng.between(1, 4), most = least + rng.between(0, 4), count = rng.between(0, 12);
    const Tokens expected = slow_guesses(tokens, least, most, count);
    ASSERT_EQ(guesses(tokens, least, most, count), expected);
    found += !expected.empty();
  }
  EXPECT_GT(found, 1000);
}

WorldOptions speculating(int32_t tokens, int32_t vocabulary = 2) {
  WorldOptions options;
  options.config.num_speculative_tokens = tokens;
  options.config.prompt_lookup_min = 1;
  options.config.prompt_lookup_max = 3;
  options.vocabulary_size = vocabulary;
  return options;
}

TEST(Speculation, GivesTheSameTokensInFewerSteps) {
  int64_t steps[2] = {};
  for (const bool speculates : {false, true}) {
    const WorldOptions options = speculating(speculates ? 4 : 0);
    SchedulerWorld world(options);
    std::vector<std::pair<uint64_t, RequestOptions>> requests;
    for (uint64_t i = 0; i < 20; ++i) {
      const RequestOptions request{
          .prompt = random_prompt(10, i), .max_tokens = 40, .end_tokens = {}, .n = i % 4 == 0 ? 2 : 1, .seed = i};
      requests.emplace_back(world.add(request), request);
    }
    steps[speculates] = world.run();
    for (const auto& [id, request] : requests) {
      for (int32_t choice = 0; choice < request.n; ++choice) {
        const Expected expected = expected_output(request, options, choice);
        EXPECT_EQ(world.record(id, choice).output, expected.output);
        EXPECT_EQ(world.record(id, choice).finish, FinishReason::Length);
      }
    }
    const SchedulerStats& stats = world.scheduler().stats();
    if (!speculates) {
      EXPECT_EQ(stats.draft_tokens, 0);
      continue;
    }
    EXPECT_GT(stats.accepted_tokens, stats.draft_tokens / 4);  // of two tokens, half of the first guesses are right
    EXPECT_LT(stats.accepted_tokens, stats.draft_tokens * 3 / 4);
    EXPECT_EQ(stats.accepted_tokens, world.executor().accepted_count());
    EXPECT_EQ(stats.output_tokens, 25 * 40);
  }
  EXPECT_LT(steps[1], steps[0] * 8 / 10);
}

// One token ends it wherever it comes, and nothing is told behind it.
TEST(Speculation, EndsWhereTheTokensEnd) {
  int stopped = 0, inside = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const WorldOptions options = speculating(8, 3);
    SchedulerWorld world(options);
    const RequestOptions request{.prompt = random_prompt(4, seed), .max_tokens = 12, .end_tokens = {2}, .seed = seed};
    const uint64_t id = world.add(request);
    world.run();
    const Expected expected = expected_output(request, options);
    EXPECT_EQ(world.record(id).output, expected.output);
    EXPECT_EQ(world.record(id).finish, expected.finish);
    stopped += expected.finish == FinishReason::Stop;
    inside += world.executor().accepted_count() > world.scheduler().stats().accepted_tokens ||
              static_cast<int64_t>(expected.output.size()) > world.scheduler().stats().steps;
  }
  EXPECT_GT(stopped, 50);
  EXPECT_GT(inside, 20);
}

// Guesses next time: one more than were right. Those of a plan stay within its budget and the request's length.
TEST(Speculation, KeepsItsLimits) {
  const WorldOptions options = speculating(6);
  SchedulerWorld world(options);
  world.add({.prompt = Tokens(10, 1), .max_tokens = 200, .end_tokens = {}});
  std::vector<int64_t> drafts;
  int64_t accepted = 0;
  int32_t expected = 6;
  while (world.step()) {
    if (world.last_plan().entries.empty() || world.last_plan().entries[0].phase == Phase::Prefill) continue;
    const BatchEntry& entry = world.last_plan().entries[0];
    EXPECT_EQ(entry.scheduled_token_count, 1 + entry.draft_token_count);
    EXPECT_LE(entry.draft_token_count, expected);
    EXPECT_LE(entry.context_token_count(), 209);
    if (entry.draft_token_count == 0) continue;
    if (entry.context_token_count() < 209) {
      EXPECT_EQ(entry.draft_token_count, expected);
    }
    expected = static_cast<int32_t>(std::min<int64_t>(world.executor().accepted_count() - accepted + 1, 6));
    accepted = world.executor().accepted_count();
    drafts.push_back(entry.draft_token_count);
  }
  EXPECT_EQ(*std::ranges::min_element(drafts), 1);
  EXPECT_GT(*std::ranges::max_element(drafts), 3);
}

TEST(Speculation, GuessesAlwaysAsManyWhereAsked) {
  WorldOptions options = speculating(6, 3);
  options.config.adaptive_drafts = false;
  SchedulerWorld world(options);
  world.add({.prompt = {0, 1, 2, 0, 1, 2}, .max_tokens = 200, .end_tokens = {}});
  int32_t drafts = 0;
  while (world.step()) {
    if (world.last_plan().entries.empty() || world.last_plan().entries[0].draft_token_count == 0) continue;
    const BatchEntry& entry = world.last_plan().entries[0];
    if (entry.context_token_count() < 205) {
      EXPECT_EQ(entry.draft_token_count, 6);
    }
    ++drafts;
  }
  EXPECT_GT(drafts, 30);
  EXPECT_LT(world.scheduler().stats().accepted_tokens, 4 * drafts);
}

TEST(Speculation, TakesWhatTheStepHasLeft) {
  WorldOptions options = speculating(6, 1);  // every guess is right
  options.config.max_num_seqs = 4;
  options.config.max_num_batched_tokens = 13;
  const auto most_of = [](SchedulerWorld& world) {
    std::vector<int32_t> drafts(5);  // by the number of decodes
    while (world.step()) {
      const BatchPlan& plan = world.last_plan();
      EXPECT_LE(plan.scheduled_token_count, 13);
      int32_t sum = 0;
      for (const BatchEntry& entry : plan.entries) sum += entry.draft_token_count;
      const bool all = std::ranges::all_of(plan.entries, [](const auto& e) { return e.phase == Phase::Decode; });
      if (all) drafts[plan.entries.size()] = std::max(drafts[plan.entries.size()], sum);
    }
    return drafts;
  };
  SchedulerWorld world(options);
  for (int32_t i = 0; i < 4; ++i) world.add({.prompt = Tokens(6, 0), .max_tokens = 30 + 15 * i, .end_tokens = {}});
  EXPECT_EQ(most_of(world), (std::vector<int32_t>{0, 6, 11, 10, 9}));
  options.config.disable_by_batch_size = 2;
  SchedulerWorld few(options);
  for (int32_t i = 0; i < 4; ++i) few.add({.prompt = Tokens(6, 0), .max_tokens = 30 + 15 * i, .end_tokens = {}});
  EXPECT_EQ(most_of(few), (std::vector<int32_t>{0, 6, 11, 0, 0}));
}

// Tokens that the host draws are not guessed; others beside them are, also where it says which may come.
TEST(Speculation, LeavesAloneWhatTheHostDraws) {
  const WorldOptions options = speculating(4, 1);
  SchedulerWorld world(options);
  world.add({.prompt = Tokens(6, 0), .max_tokens = 20, .end_tokens = {}, .host_draws = true});
  world.add({.prompt = Tokens(6, 0), .max_tokens = 20, .end_tokens = {}, .filtered = true});
  world.add({.prompt = Tokens(6, 0), .max_tokens = 30, .end_tokens = {}});
  int steps_with_all = 0;
  while (world.step()) {
    int drawn = 0, filtered_guesses = 0, guesses = 0;
    for (const BatchEntry& entry : world.last_plan().entries) {
      EXPECT_FALSE(entry.host_samples && entry.draft_token_count > 0);
      drawn += entry.host_samples;
      (entry.filtered ? filtered_guesses : guesses) += entry.draft_token_count > 0;
    }
    steps_with_all += drawn == 1 && filtered_guesses == 1 && guesses == 1;
  }
  EXPECT_GT(steps_with_all, 1);
}

TEST(SpeculativeConfig, IsReadAndItsMistakesAreNamed) {
  SchedulerConfig config;
  EXPECT_EQ(read_speculative_config(R"({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4,
                                        "prompt_lookup_min": 2, "disable_by_batch_size": 7, "adaptive": false})",
                                    config),
            "");
  EXPECT_FALSE(config.draft_model);
  EXPECT_FALSE(config.adaptive_drafts);
  EXPECT_EQ(config.num_speculative_tokens, 3);
  EXPECT_EQ(config.prompt_lookup_max, 4);
  EXPECT_EQ(config.prompt_lookup_min, 2);
  EXPECT_EQ(config.disable_by_batch_size, 7);
  EXPECT_EQ(read_speculative_config(R"({"num_speculative_tokens": 1, "prompt_lookup_max": 9})", config), "");
  EXPECT_EQ(config.prompt_lookup_min, 9);
  for (const char* text : {R"({"num_speculative_tokens": 1, "model": "a.gguf"})",
                           R"({"method": "draft_model", "num_speculative_tokens": 1, "model": "a.gguf"})"}) {
    EXPECT_EQ(read_speculative_config(text, config), "a.gguf");
    EXPECT_TRUE(config.draft_model);
  }
  const auto refused = [](const char* text, const char* message) {
    SchedulerConfig unused;
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, message, ([&] { (void)read_speculative_config(text, unused); }));
  };
  refused("ngram", "speculative_config is 'ngram', allowed: a JSON object");
  const std::string deep = R"({"method": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  refused(deep.c_str(), "speculative_config: nested deeper than 200 levels");
  refused("{}", "speculative_config has no num_speculative_tokens, allowed: 1 to 64");
  refused(R"({"num_speculative_tokens": 65})", "num_speculative_tokens is 65, allowed: 1 to 64");
  refused(R"({"num_speculative_tokens": "3"})", "num_speculative_tokens is \"3\", allowed: 1 to 64");
  refused(R"({"num_speculative_tokens": 3, "adaptive": 1})", "adaptive is 1, allowed: true, false");
  refused(R"({"num_speculative_tokens": 3, "method": "eagle"})",
          "method is \"eagle\", allowed: \"ngram\", \"draft_model\"");
  refused(R"({"num_speculative_tokens": 3, "model": 7})", "model is 7, allowed: the path of a GGUF file");
  refused(R"({"num_speculative_tokens": 3, "model": "a", "prompt_lookup_max": 3})", "has no use for prompt_lookup_max");
  refused(R"({"num_speculative_tokens": 3, "method": "draft_model"})", "method \"draft_model\" needs a model");
  refused(R"({"num_speculative_tokens": 3, "method": "ngram", "model": "a"})", "\"ngram\" has no use for a model");
  refused(R"({"num_speculative_tokens": 3, "modell": 1})",
          "has 'modell', allowed: method, model, num_speculative_tokens");
  refused(R"({"num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 4})",
          "prompt_lookup_min is 5, allowed: at most prompt_lookup_max (4)");
}

}  // namespace
}  // namespace inflight::test
