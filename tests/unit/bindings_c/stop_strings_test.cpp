// SPDX-License-Identifier: Apache-2.0
// Goal: where stop strings end an answer that has min_tokens, or that is one of best_of.
// Method: the demo model through the C functions; expected is a search in the same answer's whole text.
// Covers: bindings_c/src/inflight_stream_c.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "inflight/inflight.h"
#include "support/abi_engine.h"

namespace {

// An answer as it came.
struct Whole {
  std::string text, stop;
  std::vector<int32_t> ids;
  double logprob_sum = 0.0;
  inflight_finish_reason_t reason = INFLIGHT_FINISH_NONE;
  double mean_logprob() const { return logprob_sum / static_cast<double>(ids.size()); }
};
std::vector<Whole> answers_to(inflight_engine_t* engine, const inflight_request_params_t& request) {
  std::vector<Whole> answers(static_cast<size_t>(request.n));
  inflight_stream_t* stream = nullptr;
  EXPECT_EQ(inflight_engine_submit(engine, &request, &stream), INFLIGHT_OK) << inflight_last_error();
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  while (inflight_stream_next(stream, -1, &event) == INFLIGHT_OK) {
    Whole& answer = answers.at(static_cast<size_t>(event.index));
    answer.text.append(event.text, event.text_length);
    answer.ids.insert(answer.ids.end(), event.token_ids, event.token_ids + event.token_count);
    for (size_t i = 0; i < event.token_count; ++i) answer.logprob_sum += double{event.logprobs[i]};
    if (event.stop_text != nullptr) answer.stop = event.stop_text;
    answer.reason = event.finish_reason;
  }
  inflight_stream_destroy(stream);
  return answers;
}

class StopStrings : public inflight::test::AbiEngine {
 protected:
  StopStrings() { open(); }
};

// vLLM's rule: a stop string counts when it ends behind the text of the first min_tokens tokens.
TEST_F(StopStrings, WaitForMinTokens) {
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.max_tokens = 12;
  request.ignore_eos = 1;
  const Whole whole = answers_to(engine_, request)[0];
  const std::string stop = "re";
  const char* const stops[] = {stop.c_str()};
  request.stop = stops;
  request.stop_count = 1;
  int stopped = 0;
  for (request.min_tokens = 0; request.min_tokens <= request.max_tokens; ++request.min_tokens) {
    std::array<char, 256> text{};
    size_t free = 0;  // bytes of text in which none may end
    ASSERT_EQ(inflight_detokenize(engine_, whole.ids.data(), static_cast<size_t>(request.min_tokens), text.data(),
                                  text.size(), &free),
              INFLIGHT_OK);
    size_t begin = whole.text.find(stop);
    while (begin != std::string::npos && begin + stop.size() <= free) begin = whole.text.find(stop, begin + 1);
    const Whole answer = answers_to(engine_, request)[0];
    EXPECT_EQ(answer.text, whole.text.substr(0, begin)) << request.min_tokens;
    EXPECT_EQ(answer.reason, begin == std::string::npos ? INFLIGHT_FINISH_LENGTH : INFLIGHT_FINISH_STOP);
    EXPECT_GE(answer.ids.size(), static_cast<size_t>(request.min_tokens));
    stopped += answer.stop == stop ? 1 : 0;
  }
  EXPECT_GT(stopped, 1);
  EXPECT_LT(stopped, request.max_tokens);
}

// The engine learns of the end later than the reader does.
TEST_F(StopStrings, TheEventWithTheEndHasItsTimes) {
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.max_tokens = 40;
  request.ignore_eos = 1;
  const char* const stops[] = {"e"};
  request.stop = stops;
  request.stop_count = 1;
  request.min_tokens = 2;
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  while (inflight_stream_next(stream, -1, &event) == INFLIGHT_OK && event.finish_reason == INFLIGHT_FINISH_NONE) {
    EXPECT_EQ(event.last_token_s, 0.0);
  }
  EXPECT_STREQ(event.stop_text, "e");
  EXPECT_GT(event.first_scheduled_s, 0.0);
  EXPECT_GT(event.first_token_s, event.first_scheduled_s);
  EXPECT_GT(event.last_token_s, event.first_token_s);
  inflight_stream_destroy(stream);
}

// What comes behind a stop string is neither drawn nor counted when the best answer is chosen: of the same answers,
// told all, the one with the best mean up to its stop string.
TEST_F(StopStrings, CutTheAnswersThatBestOfChoosesFrom) {
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.max_tokens = 100;
  request.min_tokens = 3;
  request.ignore_eos = 1;
  request.temperature = 1.0F;
  const char* const stops[] = {" the", "."};
  request.stop = stops;
  request.stop_count = 2;
  for (request.seed = 1; request.seed <= 8; ++request.seed) {
    request.n = 4;
    request.best_of = 0;
    const std::vector<Whole> all = answers_to(engine_, request);
    const auto best = std::max_element(
        all.begin(), all.end(), [](const Whole& a, const Whole& b) { return a.mean_logprob() < b.mean_logprob(); });
    request.n = 1;
    request.best_of = 4;
    const Whole answer = answers_to(engine_, request)[0];
    EXPECT_EQ(answer.text, best->text) << request.seed;
    EXPECT_EQ(answer.ids, best->ids);
    EXPECT_EQ(answer.reason, INFLIGHT_FINISH_STOP);
    EXPECT_EQ(answer.stop, best->stop);
  }
  while (stats().requests_running > 0) std::this_thread::yield();
  EXPECT_LT(stats().output_tokens, 8U * 2 * 4 * 60);  // of 100 each
}

}  // namespace
