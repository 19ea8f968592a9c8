// SPDX-License-Identifier: Apache-2.0
// Goal: every step of a request is told, with the reason for which it waited (checklist 18). Method: small worlds in
// which the reason is known beforehand.
#include "sim/explain.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

std::string short_text(const Explanation& told) {
  std::string text;
  for (const ExplainedLine& line : told.lines) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(line.kind));
    if (line.kind == ExplainedKind::Waited) text += fmt::format("({})", to_string(line.result));
    if (line.first_step > 0) text += fmt::format("@{}-{}", line.first_step, line.last_step);
    if (line.computed_tokens > 0) text += fmt::format("+{}", line.computed_tokens);
  }
  return text;
}

struct Recorded {
  explicit Recorded(const WorldOptions& options) : world(options) { world.scheduler().set_trace(&encoder); }
  std::string of(uint64_t request, int32_t choice = 0) {
    return short_text(explain_request(decode_trace(bytes), request, choice));
  }
  std::vector<std::byte> bytes;
  TraceEncoder encoder{
      [this](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, false};
  SchedulerWorld world;
};

TEST(Explain, TellsChunksDecodesAndTheEnd) {
  WorldOptions options;
  options.config.long_prefill_token_threshold = 4;
  Recorded recorded(options);
  recorded.world.add({.prompt = std::vector<TokenId>(10, 1), .max_tokens = 4, .n = 2});
  recorded.world.run();
  EXPECT_EQ(recorded.of(1), "arrived prefilled@1-3+10 decoded@4-6+3 finished");
  // The second answer waits for the first one's prompt and then computes its last token again.
  EXPECT_EQ(recorded.of(1, 1).find("arrived waited(NOT_READY)@1-3 prefilled@4-4+1 decoded@5-7+3"), 0U)
      << recorded.of(1, 1);
}

TEST(Explain, AFurtherChoiceWaitsForTheFirst) {
  Recorded recorded({});
  recorded.world.add({.prompt = std::vector<TokenId>(200, 1), .max_tokens = 2, .n = 3});
  recorded.world.step();
  const Explanation told = explain_request(decode_trace(recorded.bytes), 1, 2);
  EXPECT_EQ(told.lines.back().text, "NOT_READY: the first choice computes the prompt for all");
  recorded.world.run();

  WorldOptions one;
  one.config.max_num_seqs = 1;
  Recorded behind(one);  // what it waits for when the first has its token is a row
  behind.world.add({.prompt = {1, 2}, .max_tokens = 2, .n = 2});
  behind.world.run();
  EXPECT_EQ(behind.of(1), "arrived prefilled@1-1+2 decoded@2-2+1 finished");
  EXPECT_EQ(behind.of(1, 1).find("arrived waited(NOT_READY)@1-1 waited(NO_SPACE)@2-2"), 0U) << behind.of(1, 1);
}

TEST(Explain, TellsWhyItWaited) {
  WorldOptions options;
  options.config.max_num_seqs = 1;
  Recorded slots(options);
  slots.world.add({.prompt = {1, 2}, .max_tokens = 3});
  slots.world.add({.prompt = {3, 4}, .max_tokens = 1});
  slots.world.run();
  EXPECT_EQ(slots.of(2), "arrived waited(NO_SPACE)@1-3 prefilled@4-4+2 finished");

  options = {};
  options.blocks.block_count = 64;
  Recorded memory(options);
  memory.world.add({.prompt = std::vector<TokenId>(60, 1), .max_tokens = 190});
  for (int i = 0; i < 180; ++i) memory.world.step();
  memory.world.add({.prompt = std::vector<TokenId>(60, 2), .max_tokens = 1});
  memory.world.step();
  const Explanation told = explain_request(decode_trace(memory.bytes), 2, 0);
  EXPECT_EQ(told.lines.back().result, AdmissionResult::OutOfMemory);
  EXPECT_NE(told.lines.back().text.find("wants 15 KV blocks, "), std::string::npos) << told.lines.back().text;
  memory.world.run();

  options.config.kv_headroom = 0.5;
  Recorded reserve(options);  // blocks are there, but kept
  reserve.world.add({.prompt = std::vector<TokenId>(60, 1), .max_tokens = 190});
  for (int i = 0; i < 3; ++i) reserve.world.step();
  reserve.world.add({.prompt = std::vector<TokenId>(100, 2), .max_tokens = 20});
  reserve.world.step();
  const std::string text = explain_request(decode_trace(reserve.bytes), 2, 0).lines.back().text;
  EXPECT_NE(text.find("wants 25 KV blocks, 48 can be had, of which output to come needs some"), std::string::npos)
      << text;
  reserve.world.run();
}

TEST(Explain, TellsPreemptionAndCancellation) {
  WorldOptions options;
  options.blocks.block_count = 64;
  Recorded recorded(options);
  for (TokenId i = 0; i < 4; ++i) recorded.world.add({.prompt = {i, 1, 2}, .max_tokens = 100});
  recorded.world.run();
  EXPECT_NE(recorded.of(4).find("preempted"), std::string::npos);
  const uint64_t last = recorded.world.add({.prompt = {9}, .max_tokens = 100});
  recorded.world.step();
  recorded.world.step();
  recorded.world.cancel(last);
  EXPECT_NE(recorded.of(last).find("cancelled finished"), std::string::npos) << recorded.of(last);
}

TEST(Explain, TellsThatNewRequestsWerePaused) {
  Recorded recorded({});
  const auto hold = [&](bool holds) {
    recorded.world.scheduler().hold_admissions(holds);
    recorded.encoder.hold(holds, recorded.world.clock().now());
  };
  recorded.world.add({.prompt = {1, 2}, .max_tokens = 6});
  recorded.world.step();
  recorded.world.add({.prompt = {3, 4}, .max_tokens = 1});
  hold(true);
  recorded.world.add({.prompt = {5, 6}, .max_tokens = 1});
  for (int i = 0; i < 3; ++i) recorded.world.step();
  hold(false);
  recorded.world.run();
  EXPECT_EQ(recorded.of(1), "arrived prefilled@1-1+2 decoded@2-6+5 finished");
  EXPECT_EQ(recorded.of(2), "arrived held@2-4 prefilled@5-5+2 finished");
  EXPECT_EQ(recorded.of(3), "arrived held@2-4 prefilled@5-5+2 finished");
  recorded.world.add({.prompt = {1, 2}, .max_tokens = 6});  // and an engine that has nothing else to do
  hold(true);
  recorded.world.step();
  hold(false);
  recorded.world.run();
  const Explanation idle = explain_request(decode_trace(recorded.bytes), 4, 0);
  EXPECT_EQ(short_text(idle), "arrived held@7-7 prefilled@7-7+2 decoded@8-12+5 finished");
  EXPECT_NE(idle.lines[1].text.find("new requests are paused"), std::string::npos);
}

TEST(Explain, NamesWhatIsNotThere) {
  Recorded recorded({});
  recorded.world.add({.prompt = {1}, .max_tokens = 1});
  recorded.world.run();
  const auto message = [&](uint64_t request, int32_t choice) {
    try {
      recorded.of(request, choice);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("found");
  };
  EXPECT_EQ(message(7, 0), "request 7 is not in the trace; the first is 1, the last 1");
  EXPECT_EQ(message(1, 1), "request 1 has no answer 1, allowed: 0 to 0");
}

}  // namespace
}  // namespace inflight::test
