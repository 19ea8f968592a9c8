// SPDX-License-Identifier: Apache-2.0
// Which answer an event that ends a request with an error becomes.
#include "server/generation.h"

#include <gtest/gtest.h>

namespace inflight::server {
namespace {

Event failed(inflight_status_t status) {
  Event event;
  event.finish_reason = INFLIGHT_FINISH_ERROR;
  event.error_status = status;
  event.error = "what is wrong";
  return event;
}

TEST(Generation, AnEventsErrorSaysWhoseFaultItIs) {
  struct Case {
    inflight_status_t status;
    int answer;
    std::string code, param;
  };
  for (const Case& one : {Case{INFLIGHT_ERROR_INVALID_ARGUMENT, 400, "invalid_grammar", "guided_json"},
                          Case{INFLIGHT_ERROR_UNSUPPORTED, 400, "invalid_grammar", "guided_json"},
                          Case{INFLIGHT_ERROR_REJECTED, 429, "rejected_by_policy", ""},
                          Case{INFLIGHT_ERROR_OUT_OF_MEMORY, 503, "out_of_memory", ""},
                          Case{INFLIGHT_ERROR_ENGINE_FAILED, 500, "engine_failed", ""},
                          Case{INFLIGHT_ERROR_INTERNAL, 500, "engine_failed", ""}}) {
    const ApiError error = event_error(failed(one.status), "guided_json");
    EXPECT_EQ(error.status(), one.answer) << one.status;
    EXPECT_EQ(error.code(), one.code) << one.status;
    EXPECT_EQ(error.param(), one.param) << one.status;
    EXPECT_STREQ(error.what(), "what is wrong");
  }
}

TEST(Generation, AnAbortedOneHasRunOutOfTime) {
  Event event;
  event.finish_reason = INFLIGHT_FINISH_ABORT;
  event.output_token_count = 7;
  const ApiError error = event_error(event, "");
  EXPECT_EQ(error.status(), 504);
  EXPECT_STREQ(error.what(), "the request's time is over after 7 tokens");
}

}  // namespace
}  // namespace inflight::server
