// SPDX-License-Identifier: Apache-2.0
// Covers: sample/draft_proposer.cpp
// Goal: an engine with a draft model (checklist 124) answers as one without, whatever the load, and its recordings
// replay; the draft model has computed all that it should have: prompts in chunks, stored prefixes, swapped and
// recomputed sequences, what is behind wrong guesses, choices. Method: executors whose tokens are a function of the
// tokens in their own blocks. As draft model the same function guesses right exactly where its blocks hold what the
// target's hold.
#include <gtest/gtest.h>

#include "engine/runtime.h"
#include "support/engine_world.h"
#include "support/expect_error.h"
#include "support/gguf_writer.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

TEST(DraftModel, ItsGuessesAreRightWhateverTheLoad) {
  for (const PreemptMode preempt : {PreemptMode::Recompute, PreemptMode::Swap}) {
    EngineOptions options = with_draft_model(EngineWorld::host_driven(engine_options(40)), 4);
    options.setup.config.preempt = preempt;
    options.setup.config.host_blocks = preempt == PreemptMode::Swap ? 40 : 0;
    const SchedulerStats stats = serve_crowd(options);
    EXPECT_GT(stats.preemptions, 0);
    EXPECT_GT(stats.draft_tokens, 1000);
    EXPECT_EQ(stats.accepted_tokens, stats.draft_tokens);
  }
}

// Of most of these the draft model knows too little to be right: penalties, masks.
TEST(DraftModel, WrongGuessesChangeNothing) {
  EngineWorld plain(EngineWorld::host_driven()), guessing(with_draft_model(EngineWorld::host_driven(), 5));
  std::vector<SubmitOptions> requests;
  for (TokenId i = 0; i < 12; ++i) {
    SubmitOptions request = crowd_request(i);
    request.sampling.max_tokens = 40;
    if (i % 4 == 0) request.sampling.repetition_penalty = 1.3F;
    if (i % 4 == 1) request.sampling.bad_words = {{i}, {i + 1, i + 2}};
    if (i % 4 == 2) request.sampling.dry_multiplier = 0.8F;
    if (i % 3 == 0) request.sampling.logprobs = 2;
    requests.push_back(request);
  }
  std::vector<OutputStream*> expected, found;
  for (const SubmitOptions& request : requests) expected.push_back(plain.engine->submit(request));
  for (const SubmitOptions& request : requests) found.push_back(guessing.engine->submit(request));
  plain.run();
  guessing.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto n = requests[i].sampling.n;
    const auto want = read_answers(expected[i], n), got = read_answers(found[i], n);
    for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(got[k].tokens, want[k].tokens) << "request " << i;
  }
  const SchedulerStats stats = guessing.engine->stats().scheduler;
  EXPECT_GT(stats.draft_tokens, stats.accepted_tokens + 50);
  EXPECT_GT(stats.accepted_tokens, 50);
}

// What decodes without guesses is computed by the draft model when guesses are wanted again.
TEST(DraftModel, CatchesUpWhenFewSequencesAreLeft) {
  EngineOptions options = with_draft_model(EngineWorld::host_driven(), 3);
  options.setup.config.disable_by_batch_size = 1;
  EngineWorld world(options);
  SubmitOptions lasting{.prompt = {3, 9, 27}}, short_one{.prompt = {5}};
  lasting.sampling.max_tokens = 100;
  short_one.sampling.max_tokens = 60;
  OutputStream* const first = world.engine->submit(lasting);
  OutputStream* const second = world.engine->submit(short_one);
  world.run();
  EXPECT_EQ(read_answer(second).tokens, output_alone({5}, 60));
  const Answer answer = read_answer(first);
  EXPECT_EQ(answer.tokens, output_alone({3, 9, 27}, 100));
  EXPECT_GT(answer.last.progress.draft_token_count, 20);
  EXPECT_EQ(answer.last.progress.accepted_token_count, answer.last.progress.draft_token_count);
}

// K and V of a prefix that decoded without guesses are stored for both models.
TEST(DraftModel, HasComputedWhatAnswersWithoutGuessesLeaveToOthers) {
  EngineOptions options = with_draft_model(EngineWorld::host_driven(), 3);
  options.setup.config.disable_by_batch_size = 1;
  EngineWorld world(options);
  SubmitOptions turns[2] = {{.prompt = {3, 9, 27}}, {.prompt = {5}}};
  OutputStream* streams[2];
  for (size_t i = 0; i < 2; ++i) {
    turns[i].sampling.max_tokens = 50;
    streams[i] = world.engine->submit(turns[i]);
  }
  world.run();
  EXPECT_EQ(world.engine->stats().scheduler.draft_tokens, 0);
  for (size_t i = 0; i < 2; ++i) {
    SubmitOptions next = turns[i];
    for (const TokenId token : read_answer(streams[i]).tokens) next.prompt.push_back(token);
    next.prompt.push_back(7);
    OutputStream* const stream = world.engine->submit(next);
    world.run();
    const Answer answer = read_answer(stream);
    EXPECT_EQ(answer.tokens, output_alone(next.prompt, 50));
    EXPECT_GT(answer.last.cached_token_count, 40);
    EXPECT_GT(answer.last.progress.draft_token_count, 20);
    EXPECT_EQ(answer.last.progress.accepted_token_count, answer.last.progress.draft_token_count);
  }
}

RuntimeOptions demo_with(const std::string& draft, int32_t guesses = 4) {
  RuntimeOptions options;
  options.model = kDemoModel;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.num_speculative_tokens = guesses;
  options.scheduler.draft_model = true;
  options.draft_model = draft;
  return options;
}

// The demo model in another precision guesses most of its tokens.
TEST(DraftModel, TheDemoModelTellsTheSameStoriesFaster) {
  std::vector<Answer> answers[2];
  SchedulerStats stats[2];
  for (const bool guesses : {false, true}) {
    RuntimeOptions options = demo_with(std::string(INFLIGHT_SOURCE_DIR) + "/models/tinyworld/tinyworld-q8_0.gguf");
    options.model = std::string(INFLIGHT_SOURCE_DIR) + "/models/tinyworld/tinyworld-f16.gguf";
    if (!guesses) {
      options.draft_model.clear();
      options.scheduler.draft_model = false;
      options.scheduler.num_speculative_tokens = 0;
    }
    Runtime runtime(options);
    std::vector<OutputStream*> streams;
    for (int32_t i = 0; i < 6; ++i) {
      SubmitOptions request;
      request.prompt = runtime.require_tokenizer().encode(i % 2 == 0 ? "Once upon a time" : "The cat and the dog");
      request.sampling.max_tokens = 60;
      request.sampling.temperature = i < 3 ? 0.0F : 0.8F;
      request.sampling.top_p = 0.9F;
      request.sampling.seed = static_cast<uint64_t>(i);
      streams.push_back(
          i == 2 ? runtime.engine().submit(request, runtime.grammar_filter(GrammarKind::Regex, "( [a-z]{2,6})+"))
                 : runtime.engine().submit(request));
    }
    for (OutputStream* const stream : streams) answers[guesses].push_back(read_answer(stream));
    runtime.engine().pause(PauseMode::All);
    stats[guesses] = runtime.engine().stats().scheduler;
  }
  for (size_t i = 0; i < answers[0].size(); ++i) EXPECT_EQ(answers[1][i].tokens, answers[0][i].tokens) << i;
  EXPECT_GT(stats[1].accepted_tokens * 10, stats[1].draft_tokens * 8);
  EXPECT_LT(stats[1].steps * 2, stats[0].steps);
}

TEST(DraftModel, OneThatDoesNotFitIsRefused) {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, const char* message, const std::string& draft) {
    INFLIGHT_EXPECT_ERROR(code, message, [&] { const Runtime runtime(demo_with(draft)); });
  };
  refused(ErrorCode::NotFound, "nowhere.gguf", folder.file("nowhere.gguf"));
  SyntheticModel other;
  const auto write = [&] { return folder.write("other.gguf", build_model(other).bytes()); };
  refused(ErrorCode::InvalidArgument, "has 300 tokens, allowed: 1024, as the model has, and 128 more or less", write());
  other.spec.vocabulary_size = 1024;
  refused(ErrorCode::InvalidArgument, "has no vocabulary, the model has one", write());
}

}  // namespace
}  // namespace inflight::test
