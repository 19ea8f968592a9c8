// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of inflight.h are.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/runtime.h"
#include "inflight/inflight.h"
#include "text/detokenizer.h"

struct inflight_engine {
  explicit inflight_engine(inflight::RuntimeOptions options) : runtime(std::move(options)) {}
  inflight::Runtime runtime;
};

// THREAD: one at a time, but for cancel, which reads `engine` and `request` only.
struct inflight_stream {
  inflight::Engine& engine;
  inflight::OutputStream* output;  // released by inflight_stream_destroy()
  inflight::RequestId request;
  std::optional<inflight::Detokenizer> detokenizer;  // absent: the model has no vocabulary
  // What the last event points into.
  inflight::StreamBatch batch;
  std::string text;
};
