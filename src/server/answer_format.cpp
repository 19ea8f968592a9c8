// SPDX-License-Identifier: Apache-2.0
#include "server/answer_format.h"

namespace inflight::server {

const char* finish_name(inflight_finish_reason_t reason) {
  switch (reason) {
    case INFLIGHT_FINISH_STOP:
      return "stop";
    case INFLIGHT_FINISH_LENGTH:
      return "length";
    case INFLIGHT_FINISH_ABORT:
      return "abort";
    default:
      return "error";
  }
}

void append_event(const std::string& json, std::string& out) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

Json usage_json(const AnswerUsage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.output_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.output_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  return json;
}

}  // namespace inflight::server
