// SPDX-License-Identifier: Apache-2.0
// A stream tells an event loop about news once, not once a token. Truth: the rule in inflight.h.
#include "engine/output_stream.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace inflight
