// SPDX-License-Identifier: Apache-2.0
// Goal: a step that does not come back is noticed, and nobody waits for it for ever.
// Covers: engine/watchdog.cpp, engine/engine.cpp
#include "engine/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "support/engine_world.h"
#include "support/expect_error.h"
#include "support/manual_clock.h"

namespace inflight::test {
namespace {

EngineOptions watched_options() {
  EngineOptions options = engine_options();
  options.service.watchdog_timeout_s = 0.05;
  return options;
}

// checklist 112: a step that hangs turns the engine unhealthy and leaves a dump; when it comes back all is well.
TEST(Watchdog, NoticesAStepThatHangs) {
  std::mutex mutex;
  std::string dump;
  set_log_sink(
      [&](LogLevel, std::string_view line) {
        const std::scoped_lock lock(mutex);
        dump += line;
      },
      LogLevel::Error);
  {
    EngineWorld world(watched_options());
    EXPECT_TRUE(world.engine->healthy());
    world.executor->paused = true;
    SubmitOptions request{.prompt = {7, 8, 9}};
    OutputStream* const stream = world.engine->submit(request);
    while (world.engine->healthy()) std::this_thread::yield();
    EXPECT_TRUE(world.engine->stats().hung);
    EXPECT_NE(world.engine->metrics_text().find("inflight_engine_healthy 0\n"), std::string::npos);
    for (bool reported = false; !reported; std::this_thread::yield()) {
      const std::scoped_lock lock(mutex);
      reported = !dump.empty();
    }
    world.executor->paused = false;
    world.executor->paused.notify_all();
    EXPECT_EQ(read_answer(stream).tokens, output_alone({7, 8, 9}, 16));
    world.engine->pause(PauseMode::All);  // no step is under way then
    EXPECT_TRUE(world.engine->healthy());
  }
  set_log_sink({}, LogLevel::Error);
  EXPECT_NE(dump.find("a step has not come back after"), std::string::npos) << dump;
  EXPECT_NE(dump.find("plan 1: sequence 1 [0, 3)"), std::string::npos) << dump;
}

TEST(Watchdog, WhoWaitsForAStepThatHangsIsTold) {
  set_log_sink([](LogLevel, std::string_view) {}, LogLevel::Error);
  {
    EngineWorld world(watched_options());
    Engine& engine = *world.engine;
    world.executor->paused = true;
    OutputStream* const stream = engine.submit({.prompt = {7, 8, 9}});
    const auto fails = [](auto&& wait) {
      INFLIGHT_EXPECT_ERROR(ErrorCode::EngineFailed, "a step of the engine hangs", wait);
    };
    while (!world.executor->submitting) std::this_thread::yield();
    // They begin to wait before the hang is noticed, or just after.
    auto reset = std::async(std::launch::async, [&] { fails([&] { engine.reset_prefix_cache(); }); });
    auto pause = std::async(std::launch::async, [&] { fails([&] { engine.pause(PauseMode::New); }); });
    auto drain = std::async(std::launch::async, [&] { EXPECT_FALSE(engine.drain()); });
    for (auto* const waits : {&reset, &pause, &drain}) waits->get();
    EXPECT_FALSE(engine.healthy());
    fails([&] { engine.reconfigure(R"({"max_num_seqs": 2})"); });
    world.executor->paused = false;
    world.executor->paused.notify_all();
    engine.resume();
    EXPECT_EQ(read_answer(stream).tokens, output_alone({7, 8, 9}, 16));
    EXPECT_TRUE(engine.drain());
  }
  set_log_sink({}, LogLevel::Error);
}

TEST(Watchdog, AStepThatFailedDoesNotHang) {
  ManualClock clock;
  int reports = 0;
  Watchdog watchdog(1'000'000'000, clock, [&](TimeNs) { ++reports; });
  EXPECT_THROW(
      {
        const Watchdog::Step step(watchdog);
        throw std::runtime_error("it fails");
      },
      std::runtime_error);
  clock.advance(5'000'000'000);
  watchdog.check();
  EXPECT_FALSE(watchdog.hung());
  EXPECT_EQ(reports, 0);
}

// A thousand seconds pass from one reading to the next.
class FastClock final : public Clock {
 public:
  TimeNs now() const override { return now_.fetch_add(1'000'000'000'000); }

 private:
  mutable std::atomic<TimeNs> now_ = 0;
};

// A step that is found late just as it comes back leaves no engine that rests and is called hung.
TEST(Watchdog, AStepThatComesBackWhileItIsFoundLateDoesNotHang) {
  constexpr int kRounds = 100'000;
  const FastClock clock;
  Watchdog watchdog(100'000'000'000, clock, [](TimeNs) {});  // whose own thread first looks when this is over
  std::atomic<int> begun = 0, checked = 0;
  std::atomic<bool> over = false;
  // Both at once, on two processors, while the machine has these.
  const auto reach = [&over](const std::atomic<int>& count, int round) {
    for (int turn = 0; count != round && !over; ++turn) {
      if (turn > 10'000) std::this_thread::yield();
    }
  };
  std::jthread checker([&] {
    for (int round = 1; !over; ++round) {
      reach(begun, round);
      watchdog.check();
      checked = round;
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  int hung = 0;
  for (int round = 1; round <= kRounds && std::chrono::steady_clock::now() < end; ++round) {
    {
      const Watchdog::Step step(watchdog);
      begun = round;
      for (int turn = 0; turn < round % 150; ++turn) static_cast<void>(over.load());
    }
    reach(checked, round);
    hung += watchdog.hung() ? 1 : 0;
  }
  over = true;
  EXPECT_EQ(hung, 0);
}

}  // namespace
}  // namespace inflight::test
