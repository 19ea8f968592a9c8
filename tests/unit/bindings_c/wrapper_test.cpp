// SPDX-License-Identifier: Apache-2.0
// Goal: the C++ form of the interface takes any timeout for what it says, and keeps several answers apart.
// Method: the demo model, paused where time is to pass; each answer beside its events.
// Covers: include/inflight/inflight.hpp
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "inflight/inflight.hpp"
#include "support/abi_engine.h"

namespace {

// A function of the C interface that tells `size` letters, and how often it is called.   LIFETIME: both are borrowed.
auto text_of(const size_t& size, int& calls) {
  return [&](char* text, size_t capacity, size_t* length) {
    ++calls;
    *length = size;
    if (capacity <= size) return INFLIGHT_WOULD_BLOCK;
    std::fill_n(text, size, 'x');
    text[size] = '\0';
    return INFLIGHT_OK;
  };
}

TEST(Wrapper, TextsAreReadOnceWhereTheGuessIsEnough) {
  for (const size_t size : {0, 40, 41, 500}) {
    int calls = 0;
    const auto read = text_of(size, calls);
    EXPECT_EQ(inflight::detail::read_text(read, 40), std::string(size, 'x'));
    EXPECT_EQ(calls, size <= 40 ? 1 : 2);
  }
}

TEST(Wrapper, ReportsAreMadeOnceWhileTheyAreAsLongAsTheLast) {
  int calls = 0;
  size_t size = 0;
  const auto read = text_of(size, calls);
  const auto calls_for = [&](size_t length) {
    calls = 0;
    size = length;
    EXPECT_EQ(inflight::detail::read_report(read).size(), length);
    return calls;
  };
  EXPECT_EQ(calls_for(1'000'000), 2);
  EXPECT_EQ(calls_for(1'000'000), 1);
  EXPECT_EQ(calls_for(1'050'000), 1);
  EXPECT_EQ(calls_for(100), 1);
  EXPECT_EQ(calls_for(1'000'000), 2);
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

inflight::EngineOptions demo() {
  inflight::EngineOptions options;
  options.model = inflight::test::kDemoModel;
  return options;
}

inflight::RequestOptions story(int32_t n = 1) {
  inflight::RequestOptions request;
  request.prompt = "Once upon a time";
  request.params.max_tokens = 12;
  if (n > 1) request.params.n = n, request.params.temperature = 1.0F, request.params.seed = 7;
  return request;
}

TEST(Wrapper, ATimeoutBelowZeroIsNoWaitAndALongOneALongWait) {
  inflight::Engine engine(demo());
  engine.pause();
  inflight::Stream stream = engine.submit(story());
  const Clock::time_point begin = Clock::now();
  std::jthread later([&] {
    std::this_thread::sleep_for(2s);
    engine.resume();
  });
  EXPECT_FALSE(stream.next(-3ms));
  EXPECT_FALSE(engine.drain(-3ms));
  EXPECT_LT(Clock::now() - begin, 1s);
  EXPECT_TRUE(stream.next(std::chrono::milliseconds(int64_t{1} << 32U)));  // no multiple of 2^32 is 0
  EXPECT_GT(Clock::now() - begin, 1s);
  EXPECT_TRUE(engine.drain());
}

TEST(Wrapper, SeveralAnswersAreSeveralTexts) {
  inflight::Engine engine(demo());
  EXPECT_EQ(engine.submit(story()).text(), ", there was a clever girl named Emma. She");
  std::vector<std::string> expected(3);
  inflight::Stream stream = engine.submit(story(3));
  while (const auto event = stream.next()) expected.at(static_cast<size_t>(event->index)) += event->text;
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(engine.submit(story(3)).texts(), expected);
  EXPECT_THROW(engine.submit(story(3)).text(), std::logic_error);
}

}  // namespace
