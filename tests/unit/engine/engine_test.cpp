// SPDX-License-Identifier: Apache-2.0
// Covers: engine/engine.cpp
// Goal: requests submitted from many threads come out whole, in order and equal to what they give alone, whoever
// cancels, leaves, swaps policies or breaks the device meanwhile.
// Method: the engine with an executor without a device whose next token is a function of the whole prefix; it keeps the
// tokens of every block, so a mixed-up block table gives wrong output. Runs under ThreadSanitizer too (preset tsan).
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "support/engine_world.h"
#include "support/expect_error.h"

namespace inflight::test {
namespace {

struct World {
  explicit World(const EngineOptions& options)
      : executor(new TokenExecutor(options.setup.blocks.block_count, options.setup.blocks.block_token_count,
                                   options.setup.config.max_num_seqs)),
        engine(options, std::unique_ptr<Executor>(executor)) {}
  TokenExecutor* executor;
  Engine engine;
};

std::vector<TokenId> random_prompt(Rng& rng) {
  std::vector<TokenId> prompt(static_cast<size_t>(rng.between(1, 60)));
  const auto shared = rng.below(prompt.size() + 1);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = i < shared ? static_cast<TokenId>(i) : rng.between(0, 63);
  return prompt;
}

std::string error_of(Engine& engine, SubmitOptions options, ErrorCode code) {
  try {
    engine.submit(std::move(options))->release();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

TEST(Engine, AnswersManyThreadsAsIfEachWereAlone) {
  World world(engine_options());
  std::vector<std::jthread> clients;
  for (uint64_t client = 0; client < 4; ++client) {
    clients.emplace_back([&world, client] {
      Rng rng(client);
      for (int i = 0; i < 100; ++i) {
        SubmitOptions request{.prompt = random_prompt(rng)};
        request.sampling.max_tokens = rng.between(1, 40);
        const auto expected = output_alone(request.prompt, request.sampling.max_tokens);
        const auto prompt_count = static_cast<int32_t>(request.prompt.size());
        OutputStream* const stream = world.engine.submit(std::move(request));
        if (rng.chance(0.1)) {  // leaves without a word
          world.engine.cancel(stream->request());
          stream->release();
          continue;
        }
        const Answer answer = read_answer(stream);
        ASSERT_EQ(answer.tokens, expected);
        ASSERT_EQ(answer.last.finish, FinishReason::Length);
        ASSERT_EQ(answer.last.output_token_count, static_cast<int32_t>(expected.size()));
        ASSERT_EQ(answer.last.prompt_token_count, prompt_count);
      }
    });
  }
  clients.clear();
  EngineStats stats;
  do {  // the last cancellations may still be on their way
    std::this_thread::yield();
    stats = world.engine.stats();
  } while (stats.running + stats.waiting > 0 || stats.scheduler.requests_added < 400);
  EXPECT_GT(stats.scheduler.cached_tokens, 0);
  EXPECT_EQ(stats.scheduler.requests_finished + stats.scheduler.requests_aborted, 400);
  EXPECT_EQ(stats.blocks_referenced, 0);
}

TEST(Engine, CancelledStreamsEndWithAbort) {
  World world(engine_options());
  world.executor->paused = true;
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 100;
  OutputStream* const stream = world.engine.submit(request);
  world.engine.cancel(stream->request());
  world.executor->paused = false;
  world.executor->paused.notify_all();
  EXPECT_EQ(read_answer(stream).last.finish, FinishReason::Abort);
}

TEST(Engine, HostDrivenStepsRunInTheCaller) {
  EngineOptions options = engine_options();
  options.host_driven = true;
  World world(options);
  EXPECT_FALSE(world.engine.step());
  SubmitOptions request{.prompt = {5, 6}};
  request.sampling.max_tokens = 3;
  OutputStream* const stream = world.engine.submit(request);
  StreamBatch batch;
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::TimedOut);
  int steps = 0;
  while (world.engine.step()) ++steps;
  EXPECT_EQ(steps, 4);  // with overlap: three submitted, the last one read in a step of its own
  EXPECT_EQ(read_answer(stream).tokens, output_alone({5, 6}, 3));
  World threaded(engine_options());
  EXPECT_THROW(threaded.engine.step(), Error);
}

TEST(Engine, RefusesWhatItCannotServe) {
  World world(engine_options());
  EXPECT_EQ(error_of(world.engine, {}, ErrorCode::InvalidArgument), "the prompt is empty, allowed: 1 to 127 tokens");
  EXPECT_EQ(
      error_of(world.engine, {.prompt = std::vector<TokenId>(128, 1)}, ErrorCode::InvalidArgument),
      "the prompt is too long: 128 tokens; this model's maximum context length is 128 tokens (max_model_len), one "
      "left to answer");
  EXPECT_EQ(error_of(world.engine, {.prompt = {1, 64}}, ErrorCode::InvalidArgument),
            "prompt id 64 is no token, allowed: 0 to 63");
  SubmitOptions bad{.prompt = {1}};
  bad.sampling.temperature = -1.0F;
  EXPECT_EQ(error_of(world.engine, bad, ErrorCode::InvalidArgument), "temperature is -1, allowed: 0 to 100");
  bad = {.prompt = {1}, .tenant = 5000};
  EXPECT_NE(error_of(world.engine, bad, ErrorCode::InvalidArgument).find("tenant is 5000"), std::string::npos);
}

TEST(Engine, RejectsMoreThanMaxRequests) {
  EngineOptions options = engine_options();
  options.host_driven = true;
  options.setup.config.max_requests = 8;
  World world(options);
  std::vector<OutputStream*> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(world.engine.submit({.prompt = {1}}));
  EXPECT_EQ(error_of(world.engine, {.prompt = {1}}, ErrorCode::Rejected),
            "8 requests are waiting or running, allowed: 8 (max_requests); retry after 1 s");
  while (world.engine.step()) {
  }
  for (OutputStream* stream : streams) read_answer(stream);
  EXPECT_EQ(error_of(world.engine, {.prompt = {1}}, ErrorCode::Rejected), "accepted");
}

TEST(Engine, ADeadDeviceEndsEveryStreamWithTheReason) {
  World world(engine_options());
  world.executor->paused = true;
  std::vector<OutputStream*> streams;
  for (int i = 0; i < 3; ++i) {
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.max_tokens = 100;
    streams.push_back(world.engine.submit(request));
  }
  world.executor->failing = true;
  world.executor->paused = false;
  world.executor->paused.notify_all();
  for (OutputStream* stream : streams) {
    const Answer answer = read_answer(stream);
    EXPECT_EQ(answer.last.finish, FinishReason::Error);
    EXPECT_EQ(answer.last.error, "the device is gone");
  }
  EXPECT_EQ(error_of(world.engine, {.prompt = {1}}, ErrorCode::EngineFailed),
            "the engine has failed: the device is gone");
  const EngineStats stats = world.engine.stats();
  EXPECT_TRUE(stats.failed);
  EXPECT_EQ(stats.scheduler.requests_added, 3);
  EXPECT_EQ(stats.scheduler.requests_failed, 3);
  EXPECT_EQ(stats.running + stats.waiting + stats.queued_tokens, 0);
  INFLIGHT_EXPECT_ERROR(ErrorCode::EngineFailed, "the engine has failed: the device is gone",
                        ([&] { world.engine.pause(PauseMode::All); }));
}

TEST(Engine, EndsItsStreamsWhenDestroyed) {
  OutputStream* stream = nullptr;
  {
    World world(engine_options());
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.max_tokens = 120;
    stream = world.engine.submit(request);
  }
  const Answer answer = read_answer(stream);
  EXPECT_TRUE(answer.last.finish == FinishReason::Abort || answer.last.finish == FinishReason::Length);
}

TEST(Engine, SwapsPoliciesWhileRequestsRun) {
  World world(engine_options(40));
  std::map<OutputStream*, std::vector<TokenId>> expected;
  Rng rng(8);
  for (int i = 0; i < 60; ++i) {
    SubmitOptions request{.prompt = random_prompt(rng)};
    request.sampling.max_tokens = 30;
    const auto output = output_alone(request.prompt, 30);
    expected[world.engine.submit(std::move(request))] = output;
    if (i % 5 == 0) world.engine.set_policy(i % 2 == 0 ? "fcfs" : "lru");
  }
  for (auto& [stream, output] : expected) EXPECT_EQ(read_answer(stream).tokens, output);
  EXPECT_THROW(world.engine.set_policy("nosuch"), Error);
  EXPECT_THROW(world.engine.set_policy("fcfs:unknown=1"), Error);
}

// n answers on one stream, each what its seed gives alone.
TEST(Engine, GivesSeveralAnswersToOnePrompt) {
  World world(engine_options());
  for (const int32_t n : {1, 2, 7, 20}) {
    SubmitOptions request{.prompt = {1, 2, 3, 4, 5, 6, 7}};
    request.sampling.max_tokens = 20;
    request.sampling.n = n;
    request.sampling.seed = 11;
    const auto answers = read_answers(world.engine.submit(request), n);
    for (int32_t k = 0; k < n; ++k) {
      const Answer& answer = answers[static_cast<size_t>(k)];
      EXPECT_EQ(answer.tokens, output_alone(request.prompt, 20, choice_seed(11, k)));
      EXPECT_EQ(answer.last.finish, FinishReason::Length);
      EXPECT_EQ(answer.last.output_token_count, 20);
      EXPECT_GE(answer.last.cached_token_count, k > 0 ? 4 : 0);  // at least the whole block
    }
  }
  SubmitOptions many{.prompt = {1}};
  many.sampling.n = 100;
  OutputStream* const stream = world.engine.submit(many);
  world.engine.cancel(stream->request());
  for (const Answer& answer : read_answers(stream, 100)) EXPECT_NE(answer.last.finish, FinishReason::None);
}

TEST(Engine, BestOfGivesTheLikeliestAnswersBestFirst) {
  World world(engine_options());
  SubmitOptions request{.prompt = {9, 8, 7}};
  request.sampling.max_tokens = 5;
  request.sampling.n = 2;
  request.sampling.best_of = 6;
  const auto answers = read_answers(world.engine.submit(request), 2);
  // TokenExecutor's logprob falls with the token's id.
  std::vector<std::pair<int32_t, std::vector<TokenId>>> expected;
  for (int32_t k = 0; k < 6; ++k) {
    const auto output = output_alone(request.prompt, 5, choice_seed(0, k));
    expected.emplace_back(std::accumulate(output.begin(), output.end(), 0), output);
  }
  std::ranges::sort(expected);
  EXPECT_EQ(answers[0].tokens, expected[0].second);
  EXPECT_EQ(answers[1].tokens, expected[1].second);
  // Whichever is the best: what its siblings computed was not stored when the request came.
  EXPECT_EQ(answers[0].last.cached_token_count, 0);
}

// checklist 98: the id that ended it is told.
TEST(Engine, TellsWhichTokenStopped) {
  World world(engine_options());
  SubmitOptions request{.prompt = {5, 5}};
  const auto output = output_alone({5, 5}, 3);
  request.sampling.stop_token_ids = {output[2]};
  const Answer answer = read_answer(world.engine.submit(request));
  EXPECT_EQ(answer.last.finish, FinishReason::Stop);
  EXPECT_EQ(answer.last.stop_token, output[2]);
  EXPECT_EQ(answer.tokens, output);
}

}  // namespace
}  // namespace inflight::test
