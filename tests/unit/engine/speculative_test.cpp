// SPDX-License-Identifier: Apache-2.0
// Goal: an engine that guesses tokens (checklist 124) answers as one that does not: drawn and greedy, several choices,
// under pressure, beside grammars and penalties; it counts what it guessed, and its recordings replay. Method: an
// executor whose tokens are a function of the prefix; the demo model against itself.
#include <gtest/gtest.h>

#include <stdexcept>

#include "engine/metrics.h"
#include "engine/runtime.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

TEST(SpeculativeEngine, AnswersAreThoseOfDecodingOneByOne) {
  for (const bool overlap : {true, false}) {
    EngineOptions options = EngineWorld::host_driven(engine_options(60));
    options.overlap = overlap;  // steps with guesses are not planned ahead either way
    options.setup.config.num_speculative_tokens = 4;
    options.setup.config.prompt_lookup_min = 1;
    const SchedulerStats stats = serve_crowd(options);
    EXPECT_GT(stats.preemptions, 0);
    EXPECT_GT(stats.draft_tokens, 500);
    EXPECT_GT(stats.accepted_tokens, 10);
  }
}

struct Found {
  std::vector<Answer> answers;
  SchedulerStats stats;
};

Found demo_answers(int32_t speculative_tokens) {
  RuntimeOptions options;
  options.model = kDemoModel;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.num_speculative_tokens = speculative_tokens;
  Runtime runtime(options);
  std::vector<OutputStream*> streams;
  const auto send = [&](const char* text, SamplingParams sampling, bool filtered = false) {
    SubmitOptions request;
    request.prompt = runtime.require_tokenizer().encode(text);
    request.sampling = std::move(sampling);
    streams.push_back(
        filtered ? runtime.engine().submit(request, runtime.grammar_filter(GrammarKind::Regex, "( [a-z]{2,6})+"))
                 : runtime.engine().submit(request));
  };
  const char* const story = "The cat sat. The dog ran. The cat sat. The dog ran. The cat sat. The dog";
  send(story, {.max_tokens = 60});
  send(story, {.temperature = 0.7F, .seed = 3, .max_tokens = 60});
  send(story, {.max_tokens = 60, .repetition_penalty = 1.02F, .logprobs = 3});
  send("Once upon a time", {.temperature = 1.0F, .top_k = 40, .top_p = 0.9F, .seed = 9, .max_tokens = 60});
  send(story, {.max_tokens = 40, .ignore_eos = true});
  Found found;
  const auto read = [&] {
    for (OutputStream* const stream : streams) found.answers.push_back(read_answer(stream));
    streams.clear();
  };
  read();
  // The host draws the first, and says which tokens may come in the others.
  send(story, {.max_tokens = 30, .dry_multiplier = 0.5F});
  send(story, {.max_tokens = 30}, true);
  send(story, {.temperature = 0.5F, .seed = 2, .max_tokens = 30, .min_tokens = 20}, true);
  send(story, {.max_tokens = 60, .bad_words = {{300}, {280, 290}}});
  send(story, {.max_tokens = 60});
  read();
  runtime.engine().pause(PauseMode::All);
  found.stats = runtime.engine().stats().scheduler;
  return found;
}

TEST(SpeculativeEngine, TheDemoModelTellsTheSameStories) {
  const Found plain = demo_answers(0), guessing = demo_answers(5);
  for (size_t i = 0; i < plain.answers.size(); ++i) {
    EXPECT_EQ(guessing.answers[i].tokens, plain.answers[i].tokens) << "request " << i;
    EXPECT_EQ(guessing.answers[i].last.finish, plain.answers[i].last.finish) << "request " << i;
    const auto& told = guessing.answers[i].top_logprobs;
    ASSERT_EQ(told.size(), i == 2 ? plain.answers[i].tokens.size() : 0U);
    for (size_t k = 0; k < told.size(); ++k) {
      ASSERT_EQ(told[k].top.size(), 3U);
      for (size_t t = 0; t < 3; ++t) {
        EXPECT_EQ(told[k].top[t].token, plain.answers[i].top_logprobs[k].top[t].token);
        EXPECT_EQ(told[k].top[t].logprob, plain.answers[i].top_logprobs[k].top[t].logprob);
      }
    }
  }
  EXPECT_EQ(plain.stats.draft_tokens, 0);
  EXPECT_GT(guessing.stats.accepted_tokens, 5);
  EXPECT_GE(guessing.stats.draft_tokens, guessing.stats.accepted_tokens);
  EXPECT_EQ(guessing.stats.output_tokens, plain.stats.output_tokens);
}

// A prediction that is right nearly everywhere: most tokens come several at a time; the answer is the same.
TEST(SpeculativeEngine, PredictedOutputsTakeFewSteps) {
  const TempFolder folder;
  EngineOptions options = EngineWorld::host_driven();
  options.setup.config.num_speculative_tokens = 8;
  options.service.record_path = folder.file("run.trace");
  {
    EngineWorld world(options);
    SubmitOptions request{.prompt = {3, 9, 27}};
    request.sampling.max_tokens = 100;
    const std::vector<TokenId> expected = output_alone(request.prompt, 100);
    request.prediction = expected;
    request.prediction[50] = (expected[50] + 1) % TokenExecutor::kVocabulary;
    OutputStream* const stream = world.engine->submit(request);
    world.run();
    const Answer answer = read_answer(stream);
    EXPECT_EQ(answer.tokens, expected);
    EXPECT_LT(world.engine->stats().scheduler.steps, 35);
    EXPECT_GT(answer.last.progress.accepted_token_count, 70);
    EXPECT_GT(answer.last.progress.draft_token_count, answer.last.progress.accepted_token_count);
  }
  const ReplayResult replayed = replay_trace(read_recording(options.service.record_path), {});
  EXPECT_FALSE(replayed.difference.has_value());
}

// Lets everything come, so many times; gives up when asked what may come, or when told what came.
class Exhausted final : public TokenFilter {
 public:
  Exhausted(int32_t left, bool when_told) : left_(left), when_told_(when_told) {}
  void allow(std::span<uint32_t> allowed) override {
    if (left_ == 0 && !when_told_) throw std::runtime_error("it gives up");
    std::ranges::fill(allowed, ~0U);
  }
  void accept(TokenId) override {
    if (left_ == 0) throw std::runtime_error("it gives up");
    --left_;
  }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Exhausted>(*this); }

 private:
  int32_t left_;
  bool when_told_;
};

// Neither later, where the token behind it was guessed and the device drew it, nor earlier, with tokens of its step.
TEST(SpeculativeEngine, ARequestWhoseFilterGivesUpEndsWhereItDoesWithoutGuesses) {
  const auto answer_of = [](int32_t guesses, int32_t left, bool when_told, const std::vector<TokenId>& prediction) {
    EngineOptions options = EngineWorld::host_driven();
    options.setup.config.num_speculative_tokens = guesses;
    EngineWorld world(options);
    SubmitOptions request{.prompt = {3, 9, 27}, .prediction = prediction};
    request.sampling.max_tokens = 40;
    OutputStream* const stream = world.engine->submit(
        request, [=](const std::stop_token&) { return std::make_unique<Exhausted>(left, when_told); });
    do world.engine->step();
    while (world.engine->stats().compiling > 0);
    world.run();
    EXPECT_EQ(world.engine->stats().scheduler.accepted_tokens > 5, guesses > 0);
    return read_answer(stream);
  };
  const std::vector<TokenId> all = answer_of(0, 40, false, {}).tokens;
  ASSERT_EQ(all.size(), 40U);
  for (const bool when_told : {false, true}) {
    for (int32_t left = 14; left < 23; ++left) {
      const Answer answer = answer_of(8, left, when_told, all);
      EXPECT_EQ(answer.last.finish, FinishReason::Error);
      EXPECT_EQ(answer.tokens, std::vector<TokenId>(all.begin(), all.begin() + left)) << left << when_told;
    }
  }
}

// Lets everything come; awake from the first token on, or from the third.
class AllowingFilter final : public TokenFilter {
 public:
  explicit AllowingFilter(int32_t sleeps) : sleeps_(sleeps) {}
  bool is_awake() const override { return sleeps_ == 0; }
  bool see(TokenId) override { return --sleeps_ == 1; }
  void allow(std::span<uint32_t> allowed) override { std::ranges::fill(allowed, ~0U); }
  void accept(TokenId) override {}
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<AllowingFilter>(*this); }

 private:
  int32_t sleeps_;
};

// What the host draws is not guessed, and nothing behind a filter that has just woken: a recording tells whose that is.
TEST(SpeculativeEngine, RecordingsReplayBesideRequestsWhoseTokensTheHostDraws) {
  const TempFolder folder;
  EngineOptions options = EngineWorld::host_driven();
  options.setup.config.num_speculative_tokens = 4;
  options.setup.config.prompt_lookup_min = 1;
  options.service.record_path = folder.file("run.trace");
  SubmitOptions plain{.prompt = {3, 9, 27}};
  plain.sampling.max_tokens = 60;
  plain.prediction = output_alone(plain.prompt, 60);
  const auto beside = [] {
    SubmitOptions request{.prompt = {5, 25}};
    request.sampling.max_tokens = 10;
    for (TokenId token = 0; token < TokenExecutor::kVocabulary; ++token) request.prediction.push_back(token);
    return request;
  };
  SubmitOptions dry = beside(), changed = beside(), sleeping = beside();
  dry.sampling.dry_multiplier = 1.5F;
  changed.sampling.min_tokens = 5;
  changed.sampling.logprobs = 2;
  sleeping.filter_sleeps = true;
  const std::vector<std::pair<SubmitOptions, FilterSource>> others = {
      {dry, nullptr},
      {changed, nullptr},
      {beside(), [](const std::stop_token&) { return std::make_unique<AllowingFilter>(0); }},
      {sleeping, [](const std::stop_token&) { return std::make_unique<AllowingFilter>(2); }}};
  for (size_t i = 0; i < others.size(); ++i) {
    {
      EngineWorld world(options);
      OutputStream* const first = world.engine->submit(plain);
      OutputStream* const second = world.engine->submit(others[i].first, others[i].second);
      do world.engine->step();
      while (world.engine->stats().compiling > 0);
      world.run();
      EXPECT_EQ(read_answer(first).tokens, plain.prediction);
      EXPECT_EQ(read_answer(second).tokens.size(), 10U);
      EXPECT_GT(world.engine->stats().scheduler.accepted_tokens, 10);
    }
    const ReplayResult replayed = replay_trace(read_recording(options.service.record_path), {});
    EXPECT_FALSE(replayed.difference.has_value()) << i << ": " << replayed.difference->step;
  }
}

}  // namespace
}  // namespace inflight::test
