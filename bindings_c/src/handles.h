// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of inflight.h are.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/runtime.h"
#include "inflight/inflight.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

struct inflight_engine {
  explicit inflight_engine(inflight::RuntimeOptions options) : runtime(std::move(options)) {}
  inflight::Runtime runtime;
};

// THREAD: one at a time, but for cancel, which reads `engine` and `request` only.
struct inflight_stream {
  // One answer's way from tokens to text.
  struct Answer {
    std::optional<inflight::Detokenizer> detokenizer;  // absent: the model has no vocabulary
    inflight::StopMatcher stop;                        // stopped(): what still comes is not told
    int32_t min_tokens = 0;                            // no stop string ends in the text of so many
    int32_t token_count = 0;
    // The text that the next token lets out, and the answer's end.  REQUIRES: a detokenizer.
    // LIFETIME: until the next call.
    std::string_view push(inflight::TokenId token) {
      ++token_count;
      return stop.push(detokenizer->push(token), may_end());
    }
    std::string_view push_end() { return stop.push(detokenizer->flush(), may_end()); }
    [[nodiscard]] bool may_end() const { return token_count > min_tokens; }
  };
  inflight::Engine& engine;
  inflight::OutputStream* output = nullptr;  // released by inflight_stream_destroy()
  inflight::RequestId request{};
  std::shared_ptr<const std::vector<inflight::TokenId>> shown_tokens{};  // of the detokenizers
  std::vector<Answer> answers{};
  const inflight::Classifier* classifier = nullptr;  // of INFLIGHT_POOLING_CLASSIFY: the hidden state becomes labels
  int32_t top_count = 0;                             // of the event's lists of most likely tokens
  // What the last event points into.
  inflight::StreamBatch batch{};
  std::string text{};
  std::string error{};
  std::vector<inflight_token_logprob_t> top_logprobs{};
  std::vector<float> prompt_logprobs{};
  std::vector<inflight_token_logprob_t> prompt_top_logprobs{};
};
