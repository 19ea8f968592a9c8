// SPDX-License-Identifier: Apache-2.0
// Goal: what operators ask of an engine: limits with a reason and a time to come back, pause, drain, expiry,
// cancellation that frees blocks in every state, a recording that tells what happened.
// Covers: engine/engine_loop.cpp, engine/queue_limits.cpp, engine/trace_recorder.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/queue_limits.h"
#include "engine/rejection.h"
#include "engine/request_error.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

std::optional<RejectReason> rejection_of(const QueueLimits& limits, const QueueState& queue, const QueueEntry& entry,
                                         std::string& message) {
  try {
    check_queue(limits, queue, entry);
  } catch (const Rejection& rejection) {
    message = rejection.what();
    EXPECT_NE(message.find(fmt::format("; retry after {} s", *rejection.retry_after_seconds())), std::string::npos);
    return rejection.reason();
  }
  return std::nullopt;
}

// Each limit with its reason and when it is worth coming back.
TEST(QueueLimits, SayWhyAndWhenToComeBack) {
  std::string message;
  QueueState queue{.sequences = 10, .max_requests = 12, .waiting = 6, .waiting_tokens = 600, .service_rate = 2.0};
  EXPECT_EQ(rejection_of({}, queue, {.sequences = 2}, message), std::nullopt);
  EXPECT_EQ(rejection_of({}, queue, {.sequences = 3}, message), RejectReason::MaxRequests);
  EXPECT_EQ(message, "10 requests are waiting or running, allowed: 12 (max_requests); retry after 1 s");
  EXPECT_EQ(rejection_of({.max_num_queued_reqs = 6}, queue, {}, message), RejectReason::QueuedRequests);
  EXPECT_EQ(rejection_of({.max_num_queued_reqs = 7}, queue, {}, message), std::nullopt);
  EXPECT_EQ(rejection_of({.max_num_queued_reqs = 2}, queue, {}, message), RejectReason::QueuedRequests);
  EXPECT_EQ(message, "6 requests are waiting, allowed: 2 (max_num_queued_reqs); retry after 3 s");
  queue.free_rows = 5;  // who is about to run waits in no queue
  EXPECT_EQ(rejection_of({.max_num_queued_reqs = 2}, queue, {}, message), std::nullopt);
  EXPECT_EQ(rejection_of({.max_num_queued_reqs = 2}, queue, {.sequences = 2}, message), RejectReason::QueuedRequests);
  queue.free_rows = 0;
  EXPECT_EQ(rejection_of({.max_num_queued_tokens = 700}, queue, {.tokens = 100}, message), std::nullopt);
  EXPECT_EQ(rejection_of({.max_num_queued_tokens = 700}, queue, {.tokens = 101}, message), RejectReason::QueuedTokens);
  // A long prompt alone is no queue.
  EXPECT_EQ(rejection_of({.max_num_queued_tokens = 700}, {.max_requests = 1}, {.tokens = 5000}, message), std::nullopt);
  EXPECT_EQ(rejection_of({.max_predicted_wait_s = 3.0}, queue, {}, message), std::nullopt);
  EXPECT_EQ(rejection_of({.max_predicted_wait_s = 1.5}, queue, {}, message), RejectReason::PredictedWait);
  EXPECT_EQ(message, "the request would wait about 3.0 s, allowed: 1.5 s (max_predicted_wait_ms); retry after 2 s");
  EXPECT_EQ(rejection_of({}, queue, {.until_deadline = 1'000'000'000}, message), RejectReason::PredictedWait);
  EXPECT_NE(message.find("its deadline for the first token"), std::string::npos);
  queue.service_rate = 0.0;  // nothing is known yet: nobody is refused for it
  EXPECT_EQ(rejection_of({.max_predicted_wait_s = 1.5}, queue, {}, message), std::nullopt);
}

// Trying again would not help who wants more answers than there is ever room for.
TEST(EngineFace, TellsApartWhatNeverFits) {
  EngineOptions options = EngineWorld::host_driven();
  options.setup.config.max_num_seqs = 4;
  options.service.queue = {.max_num_queued_reqs = 3};
  EngineWorld world(options);
  const auto refusal_of = [&](int32_t n, int32_t best_of) -> std::string {
    SubmitOptions request{.prompt = {1}};
    request.sampling.n = n;
    request.sampling.best_of = best_of;
    try {
      world.engine->submit(std::move(request))->release();
      return "accepted";
    } catch (const RequestError& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return std::string(error.field()) + ": " + error.what();
    }
  };
  EXPECT_EQ(refusal_of(7, 0), "accepted");
  EXPECT_EQ(refusal_of(9, 0), "n: 'n' makes 9 sequences, at most 7 can run and wait here");
  EXPECT_EQ(refusal_of(2, 8), "best_of: 'best_of' makes 8 sequences, at most 7 can run and wait here");
  EXPECT_EQ(world.engine->stats().rejections[static_cast<size_t>(RejectReason::QueuedRequests)], 0);
}

TEST(EngineFace, CountsWhatItRefuses) {
  EngineOptions options = EngineWorld::host_driven();
  options.setup.config.max_num_seqs = 2;
  options.service.queue = {.max_num_queued_reqs = 2, .max_num_queued_tokens = 50};
  EngineWorld world(options);
  const auto submit = [&](int32_t tokens, int32_t n = 1) {
    try {
      SubmitOptions request{.prompt = std::vector<TokenId>(static_cast<size_t>(tokens), 1)};
      request.sampling.n = n;
      world.engine->submit(request)->release();
      return std::string("accepted");
    } catch (const Rejection& rejection) {
      return std::string(to_string(rejection.reason()));
    }
  };
  EXPECT_EQ(submit(20), "accepted");
  EXPECT_EQ(submit(20), "accepted");
  EXPECT_EQ(submit(20), "queued_tokens");
  EXPECT_EQ(submit(1), "accepted");
  EXPECT_EQ(submit(1), "accepted");
  EXPECT_EQ(submit(1), "queued_requests");
  EXPECT_EQ(world.engine->stats().queued_tokens, 42);
  world.engine->step();  // the two long ones are admitted now
  EXPECT_EQ(world.engine->stats().queued_tokens, 2);
  world.run();
  EXPECT_EQ(world.engine->stats().queued_tokens, 0);
  EXPECT_EQ(submit(40, 2), "accepted");  // a prompt is computed once, whatever is made of it
  EXPECT_EQ(world.engine->stats().queued_tokens, 40);
  world.engine->step();
  EXPECT_EQ(world.engine->stats().queued_tokens, 0);
  world.run();
  EXPECT_TRUE(world.engine->drain());
  EXPECT_EQ(submit(1), "draining");
  world.engine->undrain();
  EXPECT_EQ(submit(1), "accepted");
  const auto& rejections = world.engine->stats().rejections;
  EXPECT_EQ(rejections[static_cast<size_t>(RejectReason::QueuedTokens)], 1);
  EXPECT_EQ(rejections[static_cast<size_t>(RejectReason::QueuedRequests)], 1);
  EXPECT_EQ(rejections[static_cast<size_t>(RejectReason::Draining)], 1);
  world.run();
}

// checklist 77: the server's cap clips or refuses.
TEST(EngineFace, CapsOutputTokens) {
  EngineOptions options = EngineWorld::host_driven();
  options.service.max_tokens_limit = 5;
  SubmitOptions request{.prompt = {1}};
  request.sampling.max_tokens = 50;
  EngineWorld clipping(options);
  OutputStream* const stream = clipping.engine->submit(request);
  clipping.run();
  EXPECT_EQ(read_answer(stream).tokens.size(), 5U);
  options.service.clip_max_tokens = false;
  EngineWorld refusing(options);
  EXPECT_THROW(static_cast<void>(refusing.engine->submit(request)), Error);
}

// checklist 5: no token after the pause holds; what comes later is what would have come.
TEST(EngineFace, PausesAndGoesOn) {
  EngineWorld world(engine_options());  // its own thread
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 100;
  OutputStream* const stream = world.engine->submit(request);
  StreamBatch batch;
  std::vector<TokenId> tokens;
  ASSERT_EQ(stream->next(std::nullopt, batch), OutputStream::Next::Ready);
  tokens = batch.tokens;
  world.engine->pause(PauseMode::All);
  const int64_t steps = world.engine->stats().scheduler.steps;
  if (batch.finish == FinishReason::None &&
      stream->next(std::chrono::milliseconds(0), batch) == OutputStream::Next::Ready) {
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  OutputStream* const later = world.engine->submit({.prompt = {4}});  // taken in, not served
  if (batch.finish == FinishReason::None) {
    EXPECT_EQ(stream->next(std::chrono::milliseconds(5), batch), OutputStream::Next::TimedOut);
  }
  EXPECT_EQ(world.engine->stats().scheduler.steps, steps);
  EXPECT_TRUE(world.engine->stats().paused);
  world.engine->resume();
  while (stream->next(std::nullopt, batch) == OutputStream::Next::Ready) {
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  stream->release();
  EXPECT_EQ(tokens, output_alone({1, 2, 3}, 100));
  EXPECT_EQ(read_answer(later).tokens, output_alone({4}, 16));
  EXPECT_TRUE(world.engine->drain());
}

TEST(EngineFace, PausesNewRequestsOnly) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 10;
  OutputStream* const running = world.engine->submit(request);
  world.engine->step();
  world.engine->pause(PauseMode::New);
  OutputStream* const waiting = world.engine->submit(request);
  world.run();
  EXPECT_EQ(read_answer(running).tokens.size(), 10U);
  StreamBatch batch;
  EXPECT_EQ(waiting->next(std::chrono::milliseconds(0), batch), OutputStream::Next::TimedOut);
  world.engine->resume();
  world.run();
  EXPECT_EQ(read_answer(waiting).tokens.size(), 10U);
}

// Truth: inflight.h: "running ones go on", also those that were preempted and the further choices of a prompt.
TEST(EngineFace, WhatHasBegunGoesOnWhileNewRequestsArePaused) {
  EngineWorld world(EngineWorld::host_driven(engine_options(33)));
  std::vector<OutputStream*> streams;
  for (TokenId i = 0; i < 4; ++i) {
    SubmitOptions request{.prompt = std::vector<TokenId>(10, i)};
    request.sampling.max_tokens = 110;
    streams.push_back(world.engine->submit(request));
  }
  while (world.engine->stats().scheduler.preemptions == 0) ASSERT_TRUE(world.engine->step());
  world.engine->pause(PauseMode::New);
  SubmitOptions newcomer{.prompt = {9}};
  newcomer.sampling.max_tokens = 1;
  OutputStream* const waiting = world.engine->submit(newcomer);
  world.run();
  ASSERT_EQ(world.engine->stats().scheduler.requests_finished, 4);
  for (OutputStream* const stream : streams) EXPECT_EQ(read_answer(stream).tokens.size(), 110U);
  StreamBatch batch;
  EXPECT_EQ(waiting->next(std::chrono::milliseconds(0), batch), OutputStream::Next::TimedOut);
  world.engine->resume();
  world.run();
  EXPECT_EQ(read_answer(waiting).tokens.size(), 1U);

  SubmitOptions several{.prompt = std::vector<TokenId>(60, 5)};  // more than a step's tokens
  several.sampling = {.max_tokens = 5, .n = 3};
  OutputStream* const choices = world.engine->submit(several);
  world.engine->step();
  world.engine->pause(PauseMode::New);
  world.run();
  ASSERT_EQ(world.engine->stats().scheduler.requests_finished, 8);
  for (const Answer& answer : read_answers(choices, 3)) EXPECT_EQ(answer.tokens.size(), 5U);
}

// checklist 101: in each of five states the blocks are free within two steps of the cancellation.
TEST(EngineFace, CancelFreesBlocksInEveryState) {
  for (const char* state : {"queued", "chunking", "decoding", "preempted", "swapped"}) {
    SCOPED_TRACE(state);
    const std::string name = state;
    EngineOptions options = EngineWorld::host_driven(engine_options(33));
    options.setup.config.max_num_seqs = name == "queued" ? 1 : 4;
    if (name == "swapped") {
      options.setup.config.preempt = PreemptMode::Swap;
      options.setup.config.host_blocks = 64;
    }
    EngineWorld world(options);
    SubmitOptions request{.prompt = std::vector<TokenId>(name == "chunking" ? 100 : 10, 1)};
    request.sampling.max_tokens = 110;
    if (name == "chunking") request.sampling.max_tokens = 20;
    std::vector<OutputStream*> streams;
    const int count = name == "queued" || name == "chunking" ? 2 : 4;
    for (TokenId i = 0; i < count; ++i) {
      request.prompt[0] = i;
      streams.push_back(world.engine->submit(request));
    }
    if (name == "preempted" || name == "swapped") {
      while (world.engine->stats().scheduler.preemptions == 0) ASSERT_TRUE(world.engine->step());
      EXPECT_EQ(world.engine->stats().scheduler.swapped_out_blocks > 0, name == "swapped");
    } else {
      for (int i = name == "decoding" ? 5 : 1; i > 0; --i) world.engine->step();
    }
    for (OutputStream* stream : streams) world.engine->cancel(stream->request());
    world.engine->step();
    world.engine->step();
    EXPECT_EQ(world.engine->stats().blocks_referenced, 0);
    EXPECT_EQ(world.engine->stats().queued_tokens, 0);
    for (OutputStream* stream : streams) EXPECT_EQ(read_answer(stream).last.finish, FinishReason::Abort);
    EXPECT_FALSE(world.engine->step());
  }
}

TEST(EngineFace, EndsRequestsWhoseTimeHasRunOut) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request{.prompt = {1, 2}};
  request.sampling.max_tokens = 100;
  request.expiry = 20 * EngineWorld::kStep;
  OutputStream* const expiring = world.engine->submit(request);
  request.expiry = kNoDeadline;
  OutputStream* const staying = world.engine->submit(request);
  world.run();
  const Answer answer = read_answer(expiring);
  EXPECT_EQ(answer.last.finish, FinishReason::Abort);
  EXPECT_EQ(answer.last.error, "the request's time has run out");
  EXPECT_GT(answer.tokens.size(), 15U);
  EXPECT_LT(answer.tokens.size(), 22U);
  EXPECT_EQ(read_answer(staying).tokens.size(), 100U);
  EXPECT_EQ(world.engine->stats().expired, 1);
}

TEST(EngineFace, StopsOneAnswerForItsReader) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request{.prompt = {1, 2}};
  request.sampling.max_tokens = 50;
  request.sampling.n = 2;
  OutputStream* const stream = world.engine->submit(request);
  for (int i = 0; i < 5; ++i) world.engine->step();
  world.engine->stop(stream->request(), 1);
  world.run();
  const auto answers = read_answers(stream, 2);
  EXPECT_EQ(answers[0].last.finish, FinishReason::Length);
  EXPECT_EQ(answers[1].last.finish, FinishReason::Stop);
  EXPECT_FALSE(answers[1].last.stop_token.has_value());
  EXPECT_LT(answers[1].tokens.size(), 10U);
}

// What is stored is found until it is reset, in whatever tier it is; who runs goes on.
TEST(EngineFace, ForgetsStoredPrefixes) {
  for (const int32_t host_blocks : {0, 32}) {
    SCOPED_TRACE(host_blocks);
    const TempFolder folder;
    EngineOptions options = EngineWorld::host_driven(engine_options(16));
    options.setup.config.max_model_len = 60;
    options.setup.config.host_cache_blocks = host_blocks;
    options.service.record_path = folder.file("run.trace");
    std::vector<int32_t> cached;
    {
      EngineWorld world(options);
      SubmitOptions first, other;
      for (TokenId i = 0; i < 20; ++i) first.prompt.push_back(i), other.prompt.push_back(40 + i);
      first.sampling.max_tokens = 4;
      other.sampling.max_tokens = 30;
      const auto ask = [&](const SubmitOptions& request) {
        OutputStream* const stream = world.engine->submit(request);
        world.run();
        const Answer answer = read_answer(stream);
        EXPECT_EQ(answer.tokens, output_alone(request.prompt, request.sampling.max_tokens));
        cached.push_back(answer.last.cached_token_count);
      };
      ask(first);
      ask(first);
      ask(other);  // takes blocks of the first
      world.engine->reset_prefix_cache();
      ask(first);
      ask(first);
      OutputStream* const running = world.engine->submit(other);
      for (int i = 0; i < 5; ++i) world.engine->step();
      world.engine->reset_prefix_cache();
      world.run();
      EXPECT_EQ(read_answer(running).tokens, output_alone(other.prompt, 30));
      ask(other);
      ask(first);
      EXPECT_EQ(world.engine->stats().blocks_referenced, 0);
    }
    EXPECT_EQ(cached, (std::vector<int32_t>{0, 16, 0, 0, 16, 16, 0}));
    const ReplayResult result = replay_trace(read_recording(options.service.record_path), {});
    EXPECT_FALSE(result.difference.has_value());
    EXPECT_GT(result.plans, 50);
  }
}

TEST(EngineFace, RecordsWhatReplaysStepByStep) {
  const TempFolder folder;
  EngineOptions options = EngineWorld::host_driven(engine_options(40));
  options.service.record_path = folder.file("run.trace");
  {
    EngineWorld world(options);
    std::vector<OutputStream*> streams;
    for (TokenId i = 0; i < 30; ++i) {
      SubmitOptions request{.prompt = std::vector<TokenId>(static_cast<size_t>(1 + i % 50), i)};
      request.sampling.max_tokens = 30;
      request.sampling.n = 1 + i % 3;
      streams.push_back(world.engine->submit(request));
      if (i == 9) world.engine->set_policy("lru");
      if (i == 20) world.engine->cancel(streams[3]->request());
      world.engine->step();
    }
    world.run();
    for (OutputStream* stream : streams) read_answers(stream, 3);
  }
  const auto records = read_recording(options.service.record_path);
  const ReplayResult result = replay_trace(records, {});
  EXPECT_FALSE(result.difference) << result.difference->step;
  EXPECT_EQ(result.requests, 30);
  EXPECT_GT(result.plans, 60);
  options.service.record_path = folder.path() + "/nowhere/run.trace";
  EXPECT_THROW(EngineWorld{options}, Error);
}

// checklist 4, 102: one step() is one pass of receive, plan, run, commit, in this order; who ends in it is answered in
// it.
TEST(EngineFace, AStepIsOnePassOfTheLoop) {
  EngineOptions options = EngineWorld::host_driven();
  options.overlap = false;
  EngineWorld world(options);
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 4;
  OutputStream* const stream = world.engine->submit(request);
  size_t seen = 1;  // the configuration
  int32_t tokens = 0;
  for (int step = 1; step <= 4; ++step) {
    EXPECT_TRUE(world.engine->step());
    const auto records = decode_trace(world.engine->recent_trace());
    std::vector<std::string> kinds;
    for (; seen < records.size(); ++seen) {
      const auto& content = records[seen].content;
      kinds.emplace_back(std::holds_alternative<TraceAdd>(content)      ? "receive"
                         : std::holds_alternative<TracePlan>(content)   ? "plan"
                         : std::holds_alternative<TraceCommit>(content) ? "commit"
                         : std::holds_alternative<TraceFinish>(content) ? "finish"
                                                                        : "other");
    }
    std::vector<std::string> expected = {"plan", "commit"};
    if (step == 1) expected.insert(expected.begin(), "receive");
    if (step == 4) expected.emplace_back("finish");
    EXPECT_EQ(kinds, expected) << step;
    StreamBatch batch;
    ASSERT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
    tokens += static_cast<int32_t>(batch.tokens.size());
    EXPECT_EQ(tokens, step);
    EXPECT_EQ(batch.finish, step == 4 ? FinishReason::Length : FinishReason::None);
  }
  EXPECT_FALSE(world.engine->step());
  stream->release();
}

// checklist 6: an engine with nothing to do takes no time, and looks itself over once.
TEST(EngineFace, IdleItChecksItselfOnceAndSleeps) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;
  set_log_sink(
      [&](LogLevel, std::string_view line) {
        const std::scoped_lock lock(mutex);
        if (line.starts_with("idle:")) lines.emplace_back(line);
        changed.notify_all();
      },
      LogLevel::Debug);
  std::clock_t used = 0;
  {
    EngineWorld world(engine_options());  // its own thread
    read_answer(world.engine->submit({.prompt = {1, 2, 3, 4, 5, 6}}));
    const std::clock_t begin = std::clock();  // processor time, not the wall's
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return !lines.empty(); }));
    changed.wait_for(lock, std::chrono::milliseconds(1500), [&] { return lines.size() > 1; });
    used = std::clock() - begin;
  }
  set_log_sink({}, LogLevel::Error);
  ASSERT_EQ(lines.size(), 1U);
  // 6 prompt tokens and 16 of output, of which the last is not computed: 5 full blocks of 4 stay.
  EXPECT_EQ(lines[0], "idle: all invariants hold; 59 free + 5 stored + 0 in use = 64 blocks");
  EXPECT_LT(static_cast<double>(used) / CLOCKS_PER_SEC, 0.01 * 2.5);
}

// checklist 20, 52: the number of running sequences and the budget of a step change while requests run, from any
// thread; a replay changes them at the same steps.
TEST(EngineFace, LimitsChangeWhileRequestsRun) {
  const TempFolder folder;
  EngineOptions options = EngineWorld::host_driven(engine_options(200));
  options.service.record_path = folder.file("run.trace");
  {
    EngineWorld world(options);
    std::vector<OutputStream*> streams;
    for (TokenId i = 0; i < 40; ++i) {
      SubmitOptions request{.prompt = {i, 1, 2}};
      request.sampling.max_tokens = 80;
      streams.push_back(world.engine->submit(request));
    }
    for (int i = 0; i < 20; ++i) world.engine->step();
    std::thread([&] { world.engine->reconfigure(R"({"max_num_seqs": 2, "max_num_batched_tokens": 6})"); }).join();
    world.run();
    for (TokenId i = 0; i < 40; ++i) {
      EXPECT_EQ(read_answer(streams[static_cast<size_t>(i)]).tokens, output_alone({i, 1, 2}, 80));
    }
  }
  const auto records = read_recording(options.service.record_path);
  bool changed = false;
  size_t small_plans = 0, last = 0;
  for (const TraceRecord& record : records) {
    if (const auto* limits = std::get_if<TraceLimits>(&record.content)) {
      EXPECT_EQ(limits->json, R"({"max_num_seqs": 2, "max_num_batched_tokens": 6})");
      changed = true;
    }
    const auto* const plan = std::get_if<TracePlan>(&record.content);
    if (plan == nullptr || !changed || plan->entries.empty()) continue;
    small_plans += plan->entries.size() <= 2;
    EXPECT_TRUE(small_plans == 0 || plan->entries.size() <= 2);  // once they have left, never more than two again
    last = plan->entries.size();
  }
  EXPECT_TRUE(changed);
  EXPECT_LE(last, 2U);
  EXPECT_EQ(small_plans, 32U * 80 / 2);  // 8 ran already; of those that waited two at a time, a token a step
  EXPECT_FALSE(replay_trace(records, {}).difference);

  EngineWorld running(engine_options());  // its own thread tells the caller what cannot be
  EXPECT_THROW(running.engine->reconfigure(R"({"max_num_seqs": 9})"), Error);  // the engine was made for 8
  EXPECT_THROW(running.engine->reconfigure(R"({"max_model_len": 9})"), Error);
  EXPECT_THROW(running.engine->reconfigure(R"({"kv_headroom": 2})"), Error);
}

// checklist 32, 52: a parameter of a policy changes without a restart, and a replay follows.
TEST(EngineFace, PolicyParametersChangeWhileRequestsRun) {
  const TempFolder folder;
  EngineOptions options = EngineWorld::host_driven(engine_options(200));
  options.setup.schedule_policy = "itl-target:target_ms=1000";
  options.service.record_path = folder.file("run.trace");
  std::vector<std::string> warnings;
  {
    EngineWorld world(options);
    SubmitOptions decoding{.prompt = {1}};
    decoding.sampling.max_tokens = 100;
    OutputStream* const first = world.engine->submit(decoding);
    for (int i = 0; i < 20; ++i) world.engine->step();
    OutputStream* const loose = world.engine->submit({.prompt = std::vector<TokenId>(100, 3)});
    for (int i = 0; i < 3; ++i) world.engine->step();
    const int64_t with_time = world.engine->stats().scheduler.scheduled_tokens;
    for (int i = 0; i < 17; ++i) world.engine->step();
    world.engine->set_policy_parameters("itl-target:target_ms=0.001");  // less than a step takes
    OutputStream* const tight = world.engine->submit({.prompt = std::vector<TokenId>(100, 4)});
    const int64_t before = world.engine->stats().scheduler.scheduled_tokens;
    for (int i = 0; i < 3; ++i) world.engine->step();
    EXPECT_GT(with_time, 100);  // the whole prompt in three steps
    EXPECT_LE(world.engine->stats().scheduler.scheduled_tokens - before, 3 * (2 + 16));  // the least of it
    EXPECT_THROW(world.engine->set_policy_parameters("itl-target:target_ms=-1"), Error);
    EXPECT_THROW(world.engine->set_policy_parameters("org.inflight.priority:aging_s=1"), Error);  // not changeable
    EXPECT_THROW(world.engine->set_policy_parameters("itl-target:nonsense=1"), Error);
    set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); }, LogLevel::Warning);
    world.engine->set_policy_parameters("lpm:max_waiting=1");  // not in force; seen at the step
    world.run();
    set_log_sink({}, LogLevel::Error);
    for (OutputStream* stream : {first, loose, tight}) read_answer(stream);
  }
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings.front().find("lpm is not in force"), std::string::npos) << warnings.front();
  EXPECT_FALSE(replay_trace(read_recording(options.service.record_path), {}).difference);
}

// Whoever sets a parameter looks for the policy; the step that it changes in needs neither folders nor files.
TEST(EngineFace, PolicyParametersNeedNoFilesInAStep) {
  const TempFolder folder;
  const std::string file = folder.file("itl-target.ifp.so");
  std::filesystem::copy_file(shipped_plugin("itl-target"), file);
  EngineOptions options = EngineWorld::host_driven(engine_options(200));
  options.setup.schedule_policy = file + ":target_ms=1000";
  EngineWorld world(options);
  std::string log;
  world.engine->set_policy_parameters(file + ":target_ms=5");
  std::filesystem::remove(file);
  set_log_sink([&log](LogLevel, std::string_view line) { log += line; }, LogLevel::Warning);
  world.engine->step();
  set_log_sink({}, LogLevel::Error);
  EXPECT_EQ(log, "");
  EXPECT_THROW(world.engine->set_policy_parameters(file + ":target_ms=5"), Error);
}

// The engine's own timeout ends who waits and who runs; a request's own one goes before it.
TEST(EngineFace, RequestsTimeOut) {
  EngineOptions options = EngineWorld::host_driven();
  options.service.request_timeout = 20 * EngineWorld::kStep;
  EngineWorld world(options);
  SubmitOptions request{.prompt = {1, 2}};
  request.sampling.max_tokens = 100;
  OutputStream* const common = world.engine->submit(request);
  request.expiry = 50 * EngineWorld::kStep;
  OutputStream* const own = world.engine->submit(request);
  world.run();
  const Answer ended = read_answer(common), later = read_answer(own);
  EXPECT_EQ(ended.last.finish, FinishReason::Abort);
  EXPECT_EQ(ended.last.error, "the request's time has run out");
  EXPECT_NEAR(static_cast<double>(ended.tokens.size()), 20, 2);
  EXPECT_NEAR(static_cast<double>(later.tokens.size()), 50, 2);
  EXPECT_EQ(world.engine->stats().expired, 2);
}

// The kept part is bounded, and can be read from wherever it begins.
TEST(EngineFace, KeepsTheLastDecisions) {
  EngineOptions options = EngineWorld::host_driven();
  options.service.recent_trace_bytes = 4096;
  EngineWorld world(options);
  for (int i = 0; i < 40; ++i) {
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.max_tokens = 60;
    OutputStream* const stream = world.engine->submit(request);
    world.run();
    read_answer(stream);
  }
  const auto bytes = world.engine->recent_trace();
  EXPECT_LT(bytes.size(), 4096U + 2048U);
  const auto records = decode_trace(bytes);
  ASSERT_GT(records.size(), 50U);
  EXPECT_TRUE(std::holds_alternative<TraceBegin>(records.front().content));
  EXPECT_GT(records[1].time, 0);
  const auto finish = std::find_if(records.rbegin(), records.rend(), [](const TraceRecord& record) {
    return std::holds_alternative<TraceFinish>(record.content);
  });
  ASSERT_NE(finish, records.rend());
  EXPECT_EQ(to_integer(std::get<TraceFinish>(finish->content).sequence), 40U);
}

}  // namespace
}  // namespace inflight::test
