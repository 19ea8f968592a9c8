// SPDX-License-Identifier: Apache-2.0
// Goal: whatever goes wrong between two steps, nobody waits for ever: every stream ends with the reason; and what a
// token filter throws ends its own request only. An end gives its place back before it can be read. Method: a clock
// that throws at its k-th reading, for every k of a round; filters that throw in one function; a client that is told of
// an end submits while the engine tells it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/engine_world.h"

namespace inflight::test {
namespace {

class FaultyClock final : public Clock {
 public:
  TimeNs now() const override {
    if (readings_left_ > 0 && --readings_left_ == 0) throw std::runtime_error("the clock has stopped");
    return steady_.now();
  }
  void throw_at(int reading) { readings_left_ = reading; }
  bool thrown() const { return readings_left_ == 0; }

 private:
  SteadyClock steady_;
  mutable int readings_left_ = -1;
};

SubmitOptions choices_of(int32_t n) {
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 4;
  request.sampling.n = n;
  return request;
}

// Every choice has its end, and can be told of it now.
void expect_all_ended(OutputStream* stream, int32_t n, const char* why) {
  StreamBatch batch;
  int32_t ended = 0;
  OutputStream::Next next = OutputStream::Next::Ready;
  while ((next = stream->next(std::chrono::milliseconds(0), batch)) == OutputStream::Next::Ready) {
    if (batch.finish == FinishReason::None) continue;
    ++ended;
    EXPECT_EQ(batch.finish, FinishReason::Error);
    EXPECT_EQ(batch.error, why);
  }
  EXPECT_EQ(next, OutputStream::Next::Ended);
  EXPECT_EQ(ended, n);
  stream->release();
}

TEST(EngineLoop, AFaultAnywhereInARoundEndsEveryStream) {
  int faults = 0, in_a_change = 0;
  for (int reading = 1;; ++reading) {
    FaultyClock clock;
    EngineOptions options = EngineWorld::host_driven();
    options.clock = &clock;
    EngineWorld world(options);
    OutputStream* const three = world.engine->submit(choices_of(3));
    OutputStream* const cancelled = world.engine->submit(choices_of(1));
    world.engine->cancel(cancelled->request());
    world.engine->reset_prefix_cache();
    OutputStream* const last = world.engine->submit(choices_of(1));
    clock.throw_at(reading);
    try {
      world.engine->step();
    } catch (const Error& error) {
      ++faults;
      EXPECT_EQ(error.code(), ErrorCode::EngineFailed);
      expect_all_ended(three, 3, "the clock has stopped");
      expect_all_ended(last, 1, "the clock has stopped");
      StreamBatch batch;
      EXPECT_EQ(cancelled->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
      EXPECT_NE(batch.finish, FinishReason::None);  // abort, when its command was done before
      cancelled->release();
      continue;
    }
    for (OutputStream* const stream : {three, cancelled, last}) stream->release();
    if (!clock.thrown()) break;  // a round has no more readings
    ++in_a_change;               // that is told whoever asked for it, and no other
  }
  EXPECT_GT(faults, 8);
  EXPECT_EQ(in_a_change, 1);
}

// Arrivals and departures count the same things, or more answers than requests would hide an overload.
TEST(EngineLoop, AnOverloadOfManyAnswersARequestIsSeen) {
  EngineWorld world(EngineWorld::host_driven());
  std::vector<OutputStream*> streams;
  for (int i = 0; i < 20; ++i) {  // eight rows run: a request ends in four steps, one comes in two
    SubmitOptions request = choices_of(8);
    request.sampling.ignore_eos = true;
    streams.push_back(world.engine->submit(request));
    for (int k = 0; k < 2; ++k) world.engine->step();
  }
  const EngineStats stats = world.engine->stats();
  EXPECT_GT(stats.waiting, 0);
  EXPECT_EQ(stats.arrivals.per_second(world.clock.now()), 160);
  EXPECT_TRUE(stats.saturated(world.clock.now()));
  world.run();
  for (OutputStream* const stream : streams) static_cast<void>(read_answers(stream, 8));
}

enum class At : uint8_t { Allow, Accept, See, TakeForced, Clone };

// Throws in the function `at`.
class Throwing final : public TokenFilter {
 public:
  explicit Throwing(At at) : at_(at) {}
  bool is_awake() const override { return at_ != At::See; }
  bool see(TokenId) override {
    fail_at(At::See);
    return false;
  }
  void allow(std::span<uint32_t> allowed) override {
    fail_at(At::Allow);
    for (uint32_t& word : allowed) word = ~0U;
  }
  void accept(TokenId) override { fail_at(At::Accept); }
  std::vector<TokenId> take_forced() override {
    fail_at(At::TakeForced);
    return {};
  }
  std::unique_ptr<TokenFilter> clone() const override {
    fail_at(At::Clone);
    return std::make_unique<Throwing>(*this);
  }

 private:
  void fail_at(At here) const {
    if (here == at_) throw std::runtime_error("too much to follow");
  }
  At at_;
};

// A program that steps the engine itself gets a request's end in time while its grammar is still being compiled.
TEST(EngineLoop, AStepThatWaitsForAGrammarKeepsDeadlines) {
  SteadyClock clock;
  EngineOptions options = EngineWorld::host_driven();
  options.clock = &clock;
  EngineWorld world(options);
  SubmitOptions request = choices_of(1);
  request.expiry = clock.now() + 20'000'000;
  std::atomic<bool> gave_up = false;
  OutputStream* const stream = world.engine->submit(request, [&](const std::stop_token& stop) {
    const auto begin = std::chrono::steady_clock::now();
    while (!stop.stop_requested() && !gave_up)
      gave_up = std::chrono::steady_clock::now() - begin > std::chrono::seconds(5);
    return std::make_unique<Throwing>(At::Clone);
  });
  world.run();
  EXPECT_FALSE(gave_up);
  EXPECT_EQ(read_answer(stream).last.finish, FinishReason::Abort);
}

TEST(EngineLoop, WhatAFilterThrowsEndsItsOwnRequestOnly) {
  for (const At at : {At::Allow, At::Accept, At::See, At::TakeForced}) {
    for (const bool overlap : {true, false}) {
      EngineOptions options = EngineWorld::host_driven();
      options.overlap = overlap;
      EngineWorld world(options);
      SubmitOptions filtered = choices_of(2);
      filtered.filter_sleeps = at == At::See;
      OutputStream* const stream =
          world.engine->submit(filtered, [at](const std::stop_token&) { return std::make_unique<Throwing>(at); });
      OutputStream* const other = world.engine->submit(choices_of(1));
      world.run();
      for (const Answer& answer : read_answers(stream, 2)) {
        EXPECT_EQ(answer.last.finish, FinishReason::Error) << static_cast<int>(at);
        EXPECT_EQ(answer.last.error_code, ErrorCode::InvalidArgument);
      }
      EXPECT_EQ(read_answer(other).tokens, output_alone({1, 2, 3}, 4));
      EXPECT_EQ(world.engine->stats().blocks_referenced, 0);
    }
  }
}

// A client that submits its next request, from another thread, the moment that it can learn of an end.
class Resubmitter {
 public:
  Resubmitter(Engine& engine, FilterSource filter) : engine_(engine), filter_(std::move(filter)) { submit(); }
  ~Resubmitter() {
    for (OutputStream* const stream : streams_) read_answer(stream);
  }
  [[nodiscard]] size_t count() const { return streams_.size(); }

 private:
  void submit() {
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.max_tokens = 1;
    streams_.push_back(engine_.submit(request, filter_));
    streams_.back()->set_notify(
        [](void* self) {
          std::jthread([self] {
            auto& client = *static_cast<Resubmitter*>(self);
            if (client.count() == 10) return;
            EXPECT_NO_THROW(client.submit());
          });
        },
        this);
  }

  Engine& engine_;
  FilterSource filter_;
  std::vector<OutputStream*> streams_;
};

TEST(EngineLoop, WhoCanLearnOfAnEndMaySubmitInItsPlace) {
  const auto serve = [](EngineOptions options, size_t clients, const FilterSource& filter = {}) {
    options.setup.config.max_num_seqs = 1;
    for (const bool overlap : {true, false}) {
      options.overlap = overlap;
      EngineWorld world(EngineWorld::host_driven(options));
      std::vector<std::unique_ptr<Resubmitter>> all;
      while (all.size() < clients) all.push_back(std::make_unique<Resubmitter>(*world.engine, filter));
      for (int run = 0; run < 10; ++run) world.run();  // it ends where all that came was refused by its grammar
      for (const auto& client : all) EXPECT_EQ(client->count(), 10U);
      EXPECT_TRUE(world.engine->drain());
    }
  };
  EngineOptions requests = engine_options(), queued = requests, tokens = requests;
  requests.setup.config.max_requests = 1;
  queued.service.queue.max_num_queued_reqs = 1;
  tokens.service.queue.max_num_queued_tokens = 4;
  serve(requests, 1);
  serve(queued, 2);
  serve(tokens, 1);
  serve(requests, 1,
        [](const std::stop_token&) -> std::unique_ptr<TokenFilter> { throw std::runtime_error("no grammar"); });
}

// The command fails when its request's first choice is in the scheduler and its second is not yet known to the engine.
TEST(EngineLoop, AFaultInTheMiddleOfARequestEndsAllOfIt) {
  EngineWorld world(EngineWorld::host_driven());
  OutputStream* const first =
      world.engine->submit(choices_of(3), [](const std::stop_token&) { return std::make_unique<Throwing>(At::Clone); });
  EXPECT_TRUE(world.engine->step());  // its filter is made
  OutputStream* const behind = world.engine->submit(choices_of(2));
  EXPECT_THROW(world.engine->step(), Error);
  expect_all_ended(first, 3, "too much to follow");
  expect_all_ended(behind, 2, "too much to follow");
}

TEST(EngineLoop, AChangeIsInTheFiguresWhenItIsDone) {
  EngineWorld world(test::engine_options());
  int seen_stored = 0;
  for (TokenId i = 0; i < 500; ++i) {
    (void)test::read_answer(world.engine->submit(test::crowd_request(22)));
    seen_stored += world.engine->stats().blocks_stored > 0;
    world.engine->reset_prefix_cache();
    ASSERT_EQ(world.engine->stats().blocks_stored, 0) << i;
  }
  EXPECT_GT(seen_stored, 0);
}

}  // namespace
}  // namespace inflight::test
