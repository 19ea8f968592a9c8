// SPDX-License-Identifier: Apache-2.0
#include "sched/speculative_config.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"

namespace inflight {

std::string read_speculative_config(std::string_view text, SchedulerConfig& config) {
  using Json = nlohmann::ordered_json;
  const Json json = Json::accept(text) ? parse_json(text, "speculative_config") : Json();
  if (!json.is_object()) {
    fail(ErrorCode::InvalidArgument, "speculative_config is '{}', allowed: a JSON object such as {}", text,
         R"({"method": "ngram", "num_speculative_tokens": 4})");
  }
  const auto number = [&](const std::string& key, int32_t least, int32_t most) {
    const Json& value = json.at(key);
    if (!value.is_number_integer() || value < least || value > most) {
      fail(ErrorCode::InvalidArgument, "speculative_config: {} is {}, allowed: {} to {}", key, value.dump(), least,
           most);
    }
    return value.get<int32_t>();
  };
  if (!json.contains("num_speculative_tokens")) {
    fail(ErrorCode::InvalidArgument, "speculative_config has no num_speculative_tokens, allowed: 1 to {}",
         limits::kDraftTokensMax);
  }
  std::string model;
  for (const auto& [key, value] : json.items()) {
    if (key == "method") {
      if (value == "ngram" || value == "draft_model") continue;
      fail(ErrorCode::InvalidArgument, "speculative_config: method is {}, allowed: \"ngram\", \"draft_model\"",
           value.dump());
    } else if (key == "model") {
      if (value.is_string()) model = value.get<std::string>();
      if (model.empty()) {
        fail(ErrorCode::InvalidArgument, "speculative_config: model is {}, allowed: the path of a GGUF file",
             value.dump());
      }
    } else if (key == "num_speculative_tokens") {
      config.num_speculative_tokens = number(key, 1, limits::kDraftTokensMax);
    } else if (key == "adaptive") {
      if (!value.is_boolean()) {
        fail(ErrorCode::InvalidArgument, "speculative_config: adaptive is {}, allowed: true, false", value.dump());
      }
      config.adaptive_drafts = value.get<bool>();
    } else if (key == "prompt_lookup_min") {
      config.prompt_lookup_min = number(key, 1, limits::kDraftTokensMax);
      if (!json.contains("prompt_lookup_max")) config.prompt_lookup_max = config.prompt_lookup_min;
    } else if (key == "prompt_lookup_max") {
      config.prompt_lookup_max = number(key, 1, limits::kDraftTokensMax);
      if (!json.contains("prompt_lookup_min")) config.prompt_lookup_min = config.prompt_lookup_max;
    } else if (key == "disable_by_batch_size") {
      config.disable_by_batch_size = number(key, 0, limits::kSequencesMax);
    } else {
      fail(ErrorCode::InvalidArgument,
           "speculative_config has '{}', allowed: method, model, num_speculative_tokens, adaptive, prompt_lookup_min, "
           "prompt_lookup_max, disable_by_batch_size",
           key);
    }
  }
  config.draft_model = json.value("method", model.empty() ? "ngram" : "draft_model") == "draft_model";
  for (const char* const key : {"prompt_lookup_min", "prompt_lookup_max"}) {
    if (config.draft_model && json.contains(key)) {
      fail(ErrorCode::InvalidArgument, "speculative_config: method \"draft_model\" has no use for {}", key);
    }
  }
  if (config.draft_model == model.empty()) {
    fail(ErrorCode::InvalidArgument, "speculative_config: method \"{}\" {} a model",
         config.draft_model ? "draft_model" : "ngram", config.draft_model ? "needs" : "has no use for");
  }
  if (config.prompt_lookup_min > config.prompt_lookup_max) {
    fail(ErrorCode::InvalidArgument,
         "speculative_config: prompt_lookup_min is {}, allowed: at most prompt_lookup_max ({})",
         config.prompt_lookup_min, config.prompt_lookup_max);
  }
  return model;
}

}  // namespace inflight
