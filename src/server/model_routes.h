// SPDX-License-Identifier: Apache-2.0
// /v1/models, with what OpenAI's, vLLM's and Anthropic's clients read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/json_body.h"

namespace inflight::server {

struct ServedModels {
  const std::vector<std::string>& names;  // of the one model; the first is its own
  Json loras;                             // of the engine's info
  const Json& info;                       // inflight_engine_info_json()
  int64_t started_s;
};

// All of them: the name "default" is not told unless it is the model's own.
[[nodiscard]] std::string models_answer(const ServedModels& models);
// REQUIRES: the model or an adapter has that name.
[[nodiscard]] std::string model_answer(const ServedModels& models, const std::string& name);

}  // namespace inflight::server
