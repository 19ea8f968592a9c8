// SPDX-License-Identifier: Apache-2.0
// Goal: what a watcher is shown adds up to what really happened: tokens, reuse, preemptions, blocks, latencies.
// Method: engines in virtual time over an executor whose work is known from the requests; the JSON is read by a parser.
#include "engine/step_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/engine_world.h"

namespace inflight::test {
namespace {

using Json = nlohmann::json;

OutputStream* submit(Engine& engine, std::vector<TokenId> prompt, int32_t max_tokens) {
  SubmitOptions request{.prompt = std::move(prompt)};
  request.sampling.max_tokens = max_tokens;
  return engine.submit(std::move(request));
}

std::vector<TokenId> numbers(int32_t first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((first + i) % TokenExecutor::kVocabulary);
  return tokens;
}

Json look(Engine& engine, uint64_t since = 0) { return Json::parse(engine.steps_json(since)); }

// Blocks by letter of a map like "12u3.".
std::map<char, int32_t> blocks_of(const std::string& map) {
  std::map<char, int32_t> counts;
  int32_t run = 0;
  for (const char c : map) {
    if (c >= '0' && c <= '9') {
      run = run * 10 + (c - '0');
    } else {
      counts[c] += run;
      run = 0;
    }
  }
  return counts;
}

TEST(StepWatch, ShowsEachSequencesWayThroughTheSteps) {
  EngineOptions options = EngineWorld::host_driven();
  options.overlap = false;
  EngineWorld world(options);
  EXPECT_EQ(look(*world.engine)["steps"].size(), 0U);
  EXPECT_TRUE(look(*world.engine)["ttft"].is_null());
  OutputStream* const longer = submit(*world.engine, numbers(0, 60), 5);  // two chunks: 48 tokens a step
  OutputStream* const shorter = submit(*world.engine, {9, 8}, 3);
  world.run();
  const Json seen = look(*world.engine);
  std::map<int, std::vector<std::vector<int>>> ways;
  for (const Json& step : seen["steps"]) {
    int tokens = 0;
    for (const Json& share : step["sequences"]) {
      ways[share[0]].push_back({share[1], share[2], share[3], share[4]});
      tokens += share[2].get<int>();
    }
    EXPECT_EQ(step["token_count"], tokens);
    EXPECT_EQ(step["sequence_count"], step["sequences"].size());
    EXPECT_DOUBLE_EQ(step["duration_ms"], 1.0);
  }
  ASSERT_EQ(ways.size(), 2U);
  using Way = std::vector<std::vector<int>>;
  EXPECT_EQ(ways.begin()->second,
            (Way{{0, 48, 48, 0}, {0, 12, 60, 0}, {1, 1, 61, 0}, {1, 1, 62, 0}, {1, 1, 63, 0}, {1, 1, 64, 0}}));
  EXPECT_EQ(ways.rbegin()->second, (Way{{0, 2, 2, 0}, {1, 1, 3, 0}, {1, 1, 4, 0}}));
  EXPECT_EQ(seen["last_step"], seen["steps"].back()["step"]);
  EXPECT_EQ(seen["requests"]["finished"], 2);
  EXPECT_EQ(seen["tokens"]["output"], 8);
  EXPECT_EQ(seen["itl"]["count"], 6);
  EXPECT_DOUBLE_EQ(seen["itl"]["p50_ms"], 1.0);
  EXPECT_EQ(seen["ttft"]["count"], 2);
  EXPECT_DOUBLE_EQ(seen["ttft"]["p99_ms"], 2.0);  // both: the second prompt had to wait for the first one's first chunk
  EXPECT_EQ(read_answer(longer).tokens.size() + read_answer(shorter).tokens.size(), 8U);
}

TEST(StepWatch, TellsWhatWasReusedAndWhichStepsAreNew) {
  EngineWorld world(EngineWorld::host_driven());
  static_cast<void>(submit(*world.engine, numbers(0, 21), 2)->release());
  world.run();
  const uint64_t before = look(*world.engine)["last_step"];
  static_cast<void>(submit(*world.engine, numbers(0, 21), 2)->release());
  world.run();
  const Json seen = look(*world.engine, before);
  ASSERT_EQ(seen["steps"].size(), 2U);
  EXPECT_EQ(seen["steps"][0]["step"], before + 1);
  const Json& first = seen["steps"][0]["sequences"][0];
  EXPECT_EQ(first[4], 20);  // five whole blocks of four
  EXPECT_EQ(first[2], 1);
  EXPECT_EQ(seen["steps"][1]["sequences"][0][4], 0);
  EXPECT_EQ(look(*world.engine, seen["last_step"])["steps"].size(), 0U);
}

TEST(StepWatch, KeepsTheLatestSteps) {
  EngineWorld world(EngineWorld::host_driven());
  for (int i = 0; i < 8; ++i) {
    submit(*world.engine, {1, 2, i}, 100)->release();
    world.run();
  }
  const Json seen = look(*world.engine);
  EXPECT_EQ(seen["steps"].size(), StepWatch::kSteps);
  EXPECT_EQ(seen["last_step"], 800);
  EXPECT_EQ(seen["oldest_step"], 800 - StepWatch::kSteps + 1);
  EXPECT_EQ(seen["steps"][0]["step"], seen["oldest_step"]);
  EXPECT_EQ(seen["itl"]["count"], 8 * 99);
}

TEST(StepWatch, NamesWhoWasPreempted) {
  EngineOptions options = EngineWorld::host_driven(engine_options(16));
  options.setup.config.max_model_len = 64;
  options.setup.config.schedule_conservativeness = 0.0;  // admits more than there is room for
  EngineWorld world(options);
  for (int i = 0; i < 4; ++i) submit(*world.engine, numbers(7 * i, 8), 30)->release();
  world.run();
  const Json seen = look(*world.engine);
  int64_t preempted = 0, lost = 0, finished = 0;
  for (const Json& step : seen["steps"]) {
    for (const Json& victim : step["preempted"]) {
      ++preempted;
      lost += victim[1].get<int64_t>();
    }
    finished += step["finished"].get<int64_t>();
    EXPECT_LE(step["kv_blocks_used"].get<int>() + step["kv_blocks_cached"].get<int>(), 16);
  }
  const SchedulerStats& stats = world.engine->stats().scheduler;
  EXPECT_GT(preempted, 0);
  EXPECT_EQ(preempted, stats.preemptions);
  EXPECT_EQ(seen["preemptions"], stats.preemptions);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(finished, 4);
}

// checklist 116: how many blocks a step copied to and from host memory and how long that took, a step and in all.
TEST(StepWatch, TellsWhatSwapsTook) {
  EngineOptions options = EngineWorld::host_driven(engine_options(16));
  options.setup.config.max_model_len = 64;
  options.setup.config.schedule_conservativeness = 0.0;
  options.setup.config.preempt = PreemptMode::Swap;
  options.setup.config.host_blocks = 64;
  EngineWorld world(options);
  std::vector<OutputStream*> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(submit(*world.engine, numbers(7 * i, 8), 30));
  world.run();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(read_answer(streams[static_cast<size_t>(i)]).tokens, output_alone(numbers(7 * i, 8), 30));
  }
  const SchedulerStats& stats = world.engine->stats().scheduler;
  EXPECT_GT(stats.swapped_out_blocks, 0);
  EXPECT_LE(stats.swapped_in_blocks, stats.swapped_out_blocks);  // some are found on the device again
  int64_t blocks = 0, steps = 0;
  const Json seen = look(*world.engine);
  for (const Json& step : seen["steps"]) {
    const auto swapped = step["kv_blocks_swapped"].get<int64_t>();
    EXPECT_NEAR(step["swap_ms"].get<double>(), static_cast<double>(swapped * TokenExecutor::kSwapTime) * 1e-6, 1e-9);
    blocks += swapped;
    steps += swapped > 0 ? 1 : 0;
  }
  EXPECT_EQ(blocks, stats.swapped_out_blocks + stats.swapped_in_blocks);
  const std::string text = world.engine->metrics_text();
  EXPECT_NE(text.find(fmt::format("inflight_kv_swap_seconds_count {}\n", steps)), std::string::npos) << text;
  const auto sum = text.find("inflight_kv_swap_seconds_sum ");
  ASSERT_NE(sum, std::string::npos);
  EXPECT_NEAR(std::stod(text.substr(sum + 29)), static_cast<double>(blocks * TokenExecutor::kSwapTime) * 1e-9, 1e-12);
}

TEST(StepWatch, MapsEveryBlock) {
  EngineWorld world(EngineWorld::host_driven());
  EXPECT_TRUE(look(*world.engine)["kv"]["map"].is_null());  // nobody has asked before
  OutputStream* const first = submit(*world.engine, numbers(0, 20), 30);
  OutputStream* const second = submit(*world.engine, numbers(0, 20), 30);
  for (int i = 0; i < 10; ++i) world.engine->step();
  static_cast<void>(look(*world.engine));
  world.engine->step();
  const Json kv = look(*world.engine)["kv"];
  const auto counts = blocks_of(kv["map"]);
  const auto count = [&counts](char letter) { return counts.contains(letter) ? counts.at(letter) : 0; };
  EXPECT_EQ(count('.') + count('c') + count('u') + count('s'), 64);
  EXPECT_EQ(count('.'), kv["free"]);
  EXPECT_EQ(count('c'), kv["cached"]);
  EXPECT_EQ(count('u') + count('s'), kv["used"]);
  EXPECT_GT(count('u'), 0);
  first->release();
  second->release();
}

TEST(StepWatch, AnIdleEngineMakesTheMapWhenAsked) {
  EngineWorld world(engine_options());  // with a thread of its own
  Json map;
  while (map.is_null()) map = look(*world.engine)["kv"]["map"];
  EXPECT_EQ(map, "64.");
}

TEST(StepWatch, CanBeLookedAtWhileItWorks) {
  EngineWorld world(engine_options());
  std::atomic<bool> done = false;
  uint64_t last = 0;
  int64_t seen_tokens = 0, missed = 0;
  std::jthread watcher([&] {
    for (bool more = true; more;) {
      more = !done;
      const Json seen = look(*world.engine, last);
      for (const Json& step : seen["steps"]) {
        if (step["step"].get<uint64_t>() != last + 1) ++missed;
        last = step["step"];
        seen_tokens += step["token_count"].get<int64_t>();
      }
    }
  });
  for (int i = 0; i < 50; ++i) read_answer(submit(*world.engine, numbers(i, 10 + i % 30), 8));
  world.engine->pause(PauseMode::All);
  done = true;
  watcher.join();
  const int64_t all = world.engine->stats().scheduler.scheduled_tokens;
  EXPECT_LE(seen_tokens, all);
  EXPECT_TRUE(missed > 0 || seen_tokens == all) << seen_tokens << " of " << all;
  EXPECT_GT(seen_tokens, 0);
}

}  // namespace
}  // namespace inflight::test
