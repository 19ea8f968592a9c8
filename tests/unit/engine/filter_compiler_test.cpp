// SPDX-License-Identifier: Apache-2.0
// Goal: a request whose grammar is being compiled waits alone: others go on, it can be cancelled, run out of time, and
// be told what is wrong with it; nothing stays behind. Method: sources that return when the test says so.
#include "engine/filter_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "support/engine_world.h"

namespace inflight::test {
namespace {

// Only even tokens.
class Even final : public TokenFilter {
 public:
  void allow(std::span<uint32_t> allowed) override { std::ranges::fill(allowed, 0x55555555U); }
  void accept(TokenId token) override { EXPECT_EQ(token % 2, 0); }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Even>(*this); }
};

// A source that waits for open(). Declared before the engine, whose threads use it to their end.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
  std::promise<void> begun_promise;
  std::future<void> begun = begun_promise.get_future();
  FilterSource source() {
    return [this](const std::stop_token&) {
      begun_promise.set_value();
      opened.wait();
      return std::make_unique<Even>();
    };
  }
  void open() { promise.set_value(); }
};

SubmitOptions request_of(int32_t max_tokens, int32_t n = 1) {
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = max_tokens;
  request.sampling.n = n;
  return request;
}

TEST(FilterCompiler, OthersGoOnWhileOneRequestsGrammarIsCompiled) {
  Gate gate;
  EngineWorld world(engine_options());  // its own thread
  OutputStream* const compiling = world.engine->submit(request_of(20, 2), gate.source());
  gate.begun.wait();
  EXPECT_EQ(read_answer(world.engine->submit(request_of(30))).tokens, output_alone({1, 2, 3}, 30));
  const EngineStats stats = world.engine->stats();
  EXPECT_EQ(stats.compiling, 2);
  EXPECT_EQ(stats.waiting, 2);
  EXPECT_NE(world.engine->metrics_text().find("inflight_num_requests_compiling 2\n"), std::string::npos);
  gate.open();
  for (const Answer& answer : read_answers(compiling, 2)) {
    EXPECT_EQ(answer.tokens.size(), 20U);
    EXPECT_TRUE(std::ranges::all_of(answer.tokens, [](TokenId token) { return token % 2 == 0; }));
    EXPECT_EQ(answer.last.finish, FinishReason::Length);
  }
  EXPECT_TRUE(world.engine->drain());
  EXPECT_EQ(world.engine->stats().compiling, 0);
}

TEST(FilterCompiler, CancelWorksMeanwhile) {
  Gate gate;
  EngineWorld world(engine_options());
  OutputStream* const compiling = world.engine->submit(request_of(20, 2), gate.source());
  gate.begun.wait();
  world.engine->cancel(compiling->request());
  for (const Answer& answer : read_answers(compiling, 2)) {  // though the source still runs
    EXPECT_EQ(answer.last.finish, FinishReason::Abort);
    EXPECT_TRUE(answer.tokens.empty());
  }
  EXPECT_TRUE(world.engine->drain());
  gate.open();  // what it makes finds nobody
  world.engine->undrain();
  EXPECT_EQ(read_answer(world.engine->submit(request_of(5))).tokens.size(), 5U);
  world.engine->pause(PauseMode::All);  // the figures are those of the last step then
  const EngineStats stats = world.engine->stats();
  EXPECT_EQ(stats.scheduler.requests_added, 3);
  EXPECT_EQ(stats.scheduler.requests_aborted, 2);
  EXPECT_EQ(stats.blocks_referenced, 0);
}

TEST(FilterCompiler, TellsWhatIsWrongWithAGrammar) {
  EngineWorld world(engine_options());
  const Answer answer =
      read_answer(world.engine->submit(request_of(20), [](const std::stop_token&) -> std::unique_ptr<TokenFilter> {
        fail(ErrorCode::Unsupported, "keyword 'not' is not supported");
      }));
  EXPECT_EQ(answer.last.finish, FinishReason::Error);
  EXPECT_EQ(answer.last.error, "keyword 'not' is not supported");
  EXPECT_EQ(answer.last.error_code, ErrorCode::Unsupported);
  EXPECT_TRUE(world.engine->healthy());
  world.engine->pause(PauseMode::All);
  EXPECT_EQ(world.engine->stats().scheduler.requests_failed, 1);
  EXPECT_NE(world.engine->metrics_text().find("request_success_total{finished_reason=\"error\"} 1\n"),
            std::string::npos);
}

TEST(FilterCompiler, ASteppedEngineWaitsForItsOnlyRequest) {
  EngineWorld world(EngineWorld::host_driven());
  OutputStream* const stream =
      world.engine->submit(request_of(7), [](const std::stop_token&) { return std::make_unique<Even>(); });
  world.run();  // does not come to rest before the answer is complete
  EXPECT_EQ(read_answer(stream).tokens.size(), 7U);
}

// Whoever drives the engine sleeps for a grammar alone; what another thread asks for wakes it.
TEST(FilterCompiler, ResumeWakesASteppedEngineThatWaitsForAGrammar) {
  Gate gate;
  EngineWorld world(EngineWorld::host_driven());
  world.engine->pause(PauseMode::All);
  OutputStream* const other = world.engine->submit(request_of(3));
  OutputStream* const compiling = world.engine->submit(request_of(3), gate.source());
  std::future<bool> stepped = std::async(std::launch::async, [&] { return world.engine->step(); });
  gate.begun.wait();
  EXPECT_EQ(stepped.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  world.engine->resume();
  EXPECT_TRUE(stepped.get());
  while (world.engine->stats().scheduler.requests_finished == 0) world.engine->step();
  EXPECT_EQ(read_answer(other).tokens.size(), 3U);
  gate.open();
  world.run();
  EXPECT_EQ(read_answer(compiling).tokens.size(), 3U);
}

// Truth: max_num_queued_tokens: "prompt tokens that wait to be computed".
TEST(FilterCompiler, PromptsWaitInTheQueueMeanwhile) {
  Gate gate;
  EngineOptions options = EngineWorld::host_driven();
  options.service.queue = {.max_num_queued_tokens = 4};
  EngineWorld world(options);
  OutputStream* const compiling = world.engine->submit(request_of(3, 2), gate.source());
  world.engine->pause(PauseMode::All);
  std::future<bool> stepped = std::async(std::launch::async, [&] { return world.engine->step(); });
  gate.begun.wait();
  world.engine->resume();
  EXPECT_TRUE(stepped.get());
  EXPECT_EQ(world.engine->stats().queued_tokens, 3);
  EXPECT_THROW((void)world.engine->submit(request_of(3)), Rejection);
  gate.open();
  world.run();
  EXPECT_EQ(world.engine->stats().queued_tokens, 0);
  EXPECT_EQ(read_answers(compiling, 2)[1].tokens.size(), 3U);
}

// A source that comes to an end only when it is told to stop.
struct Endless {
  std::promise<void> begun_promise, ended_promise;
  std::future<void> begun = begun_promise.get_future(), ended = ended_promise.get_future();
  FilterSource source() {
    return [this](const std::stop_token& stop) -> std::unique_ptr<TokenFilter> {
      begun_promise.set_value();
      std::promise<void> stopped;
      const std::stop_callback at_stop(stop, [&stopped] { stopped.set_value(); });
      stopped.get_future().wait();
      ended_promise.set_value();
      fail(ErrorCode::Rejected, "stopped");
    };
  }
};

TEST(FilterCompiler, WhatNobodyWaitsForIsStopped) {
  Endless cancelled, cancelled_too, left;
  EngineWorld world(engine_options());
  for (Endless* const one : {&cancelled, &cancelled_too}) {  // as many as there are threads
    OutputStream* const compiling = world.engine->submit(request_of(20), one->source());
    one->begun.wait();
    world.engine->cancel(compiling->request());
    one->ended.wait();
    EXPECT_EQ(read_answer(compiling).last.finish, FinishReason::Abort);
  }
  OutputStream* const stream = world.engine->submit(request_of(20), left.source());
  left.begun.wait();
  world.engine.reset();
  left.ended.wait();
  EXPECT_EQ(read_answer(stream).last.finish, FinishReason::Abort);
}

TEST(FilterCompiler, ExpiryEndsARequestThatCompiles) {
  Gate gate;
  EngineWorld world(engine_options());
  SubmitOptions request = request_of(20);
  request.expiry = SteadyClock().now() + 1'000'000;
  OutputStream* const stream = world.engine->submit(request, gate.source());
  const Answer answer = read_answer(stream);
  EXPECT_EQ(answer.last.finish, FinishReason::Abort);
  EXPECT_EQ(answer.last.error, "the request's time has run out");
  gate.open();
}

TEST(FilterCompiler, AnEngineThatEndsEndsWhatCompiles) {
  Gate gate;
  OutputStream* stream = nullptr;
  {
    EngineWorld world(engine_options());
    stream = world.engine->submit(request_of(20), gate.source());
    gate.begun.wait();
    gate.open();
  }
  const FinishReason reason = read_answer(stream).last.finish;
  EXPECT_TRUE(reason == FinishReason::Abort || reason == FinishReason::Length);
}

}  // namespace
}  // namespace inflight::test
