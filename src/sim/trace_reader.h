// SPDX-License-Identifier: Apache-2.0
// Request traces from files. The format is found by looking at the file:
//   Azure LLM traces   CSV   TIMESTAMP,ContextTokens,GeneratedTokens             (Patel et al. 2024, Splitwise)
//   BurstGPT           CSV   Timestamp,[Session ID,...]Model,Request tokens,Response tokens,...  (Wang et al. 2024)
//   Mooncake           JSONL timestamp (ms), input_length, output_length, hash_ids: one id for each 512 prompt tokens;
//                            equal ids are equal tokens, so prefix reuse is that of the trace    (Qin et al. 2025)
//   OpenAI logs        JSONL a chat or completion request a line, bare, as `body` (batch files) or as `request`; token
//                            counts from `usage`, else four bytes a token; messages are contents, so equal beginnings
//                            of conversations are reused; lines with nothing but counts share nothing
//   recordings         what --record and the engine write (sched/trace_format.h)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/workload.h"

namespace inflight {

inline constexpr double kTraceSpeedMax = 1e9;

struct TraceOptions {
  double speed = 1.0;        // arrivals come so many times as fast; 0 = all at the begin
  int64_t requests_max = 0;  // the first so many by arrival; 0 = all
};

// ERRORS: NotFound, Io, CorruptFile ("FILE:LINE: field ... is ..., allowed: ..."), InvalidArgument (no known format).
[[nodiscard]] Workload read_trace_workload(const std::string& path, const TraceOptions& options);

// One format each, on the text of a file; `name` is for messages.
[[nodiscard]] Workload parse_azure_trace(std::string_view text, const std::string& name);
[[nodiscard]] Workload parse_burstgpt_trace(std::string_view text, const std::string& name);
[[nodiscard]] Workload parse_mooncake_trace(std::string_view text, const std::string& name);
[[nodiscard]] Workload parse_openai_log(std::string_view text, const std::string& name);
[[nodiscard]] Workload parse_recording(std::string_view bytes, const std::string& name);

}  // namespace inflight
