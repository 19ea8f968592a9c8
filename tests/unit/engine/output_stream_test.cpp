// SPDX-License-Identifier: Apache-2.0
// A stream tells an event loop about news once, not once a token. Truth: the rule in inflight.h.
#include "engine/output_stream.h"

#include <gtest/gtest.h>

#include <future>

namespace inflight {
namespace {

TEST(OutputStream, NotifiesWhenSomethingCanBeReadAfterNothingCould) {
  auto* const stream = new OutputStream(RequestId{1}, 3, 1, 0);
  int calls = 0;
  const auto count = [](void* context) { ++*static_cast<int*>(context); };
  StreamBatch batch;
  stream->set_notify(count, &calls);
  EXPECT_EQ(calls, 0);
  stream->push_token(0, 7, -1.0F, {});
  stream->push_token(0, 8, -1.0F, {});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  EXPECT_EQ(batch.tokens.size(), 2U);
  stream->push_token(0, 9, -1.0F, {});
  EXPECT_EQ(calls, 2);

  stream->set_notify(nullptr, nullptr);
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  stream->push_finish(0, {.reason = FinishReason::Length});
  EXPECT_EQ(calls, 2);
  stream->set_notify(count, &calls);  // late: told at once
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  EXPECT_EQ(batch.finish, FinishReason::Length);
  stream->set_notify(count, &calls);  // nothing will come any more
  EXPECT_EQ(calls, 3);
  stream->release();
  stream->release();
}

// Truth: OutputStream::next(): it waits until something has arrived.
TEST(OutputStream, PromptLogprobsWakeAReader) {
  auto* const stream = new OutputStream(RequestId{1}, 3, 1, 0);
  StreamBatch batch;
  std::future<OutputStream::Next> read =
      std::async(std::launch::async, [&] { return stream->next(std::nullopt, batch); });
  EXPECT_EQ(read.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  stream->push_prompt_logprob(-0.5F, {});
  EXPECT_EQ(read.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  stream->push_finish(0, {.reason = FinishReason::Length});  // wakes whoever sleeps on
  EXPECT_EQ(read.get(), OutputStream::Next::Ready);
  EXPECT_EQ(batch.prompt_logprobs.size(), 1U);
  stream->release();
  stream->release();
}

// A reader that is told of an end token knows that it is one.
TEST(OutputStream, GivesTheLastTokenTogetherWithTheEnd) {
  auto* const stream = new OutputStream(RequestId{1}, 3, 1, 0);
  StreamBatch batch;
  stream->push_token(0, 7, -1.0F, {}, true);
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::TimedOut);
  stream->push_finish(0, {.reason = FinishReason::Stop, .stop_token = 7});
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  EXPECT_EQ(batch.tokens, std::vector<TokenId>{7});
  EXPECT_EQ(batch.finish, FinishReason::Stop);
  EXPECT_EQ(batch.stop_token, 7);
  stream->release();
  stream->release();
}

// With best_of, what a choice was given behind the token that ended it counts for nothing.
TEST(OutputStream, AnEndRuleCutsAChoiceBeforeTheBestIsChosen) {
  const auto ends = [](int32_t choice, TokenId token) { return choice == 0 && token == 9; };
  auto* const stream = new OutputStream(RequestId{1}, 3, 1, 2, ends);
  EXPECT_TRUE(stream->push_token(0, 8, -1.0F, {}));
  EXPECT_TRUE(stream->push_token(1, 9, -2.0F, {}));
  EXPECT_FALSE(stream->push_token(0, 9, -1.0F, {}));
  EXPECT_FALSE(stream->push_token(0, 7, -100.0F, {}));
  EXPECT_FALSE(stream->push_token(0, 2, -100.0F, {}, true));
  EXPECT_FALSE(stream->push_finish(0, {.reason = FinishReason::Length, .stop_token = 2}));
  EXPECT_TRUE(stream->push_finish(1, {.reason = FinishReason::Length}));
  StreamBatch batch;
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  EXPECT_EQ(batch.tokens, (std::vector<TokenId>{8, 9}));
  EXPECT_EQ(batch.output_token_count, 2);
  EXPECT_EQ(batch.finish, FinishReason::Stop);
  EXPECT_EQ(batch.stop_token, std::nullopt);
  stream->release();
  stream->release();
}

// Truth: inflight.h: those of the highest mean logprob are given; one without tokens has no mean.
TEST(OutputStream, TheBestIsAWholeAnswerWhereThereIsOne) {
  for (const bool one_is_whole : {false, true}) {
    auto* const stream = new OutputStream(RequestId{1}, 3, 1, 3);
    EXPECT_FALSE(stream->push_finish(0, {.reason = FinishReason::Abort}));
    EXPECT_TRUE(stream->push_token(1, 8, -0.1F, {}));
    EXPECT_FALSE(stream->push_finish(1, {.reason = FinishReason::Abort}));
    EXPECT_TRUE(stream->push_token(2, 9, -2.0F, {}));
    EXPECT_TRUE(stream->push_finish(2, {.reason = one_is_whole ? FinishReason::Length : FinishReason::Abort}));
    StreamBatch batch;
    EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
    EXPECT_EQ(batch.tokens, std::vector<TokenId>{one_is_whole ? 9 : 8});
    stream->release();
    stream->release();
  }
}

TEST(OutputStream, AnEndForAllLeavesThoseThatHaveOne) {
  auto* const stream = new OutputStream(RequestId{1}, 3, 3, 0);
  StreamBatch batch;
  EXPECT_FALSE(stream->push_finish(1, {.reason = FinishReason::Length}));
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
  stream->push_finish_to_all({.reason = FinishReason::Error, .error = "gone"});
  for (const int32_t index : {2, 0}) {
    EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ready);
    EXPECT_EQ(batch.index, index);
    EXPECT_EQ(batch.error, "gone");
  }
  EXPECT_EQ(stream->next(std::chrono::milliseconds(0), batch), OutputStream::Next::Ended);
  stream->release();
  stream->release();
}

}  // namespace
}  // namespace inflight
