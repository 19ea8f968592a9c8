// SPDX-License-Identifier: Apache-2.0
// What became of one request, step by step: what it computed, or why it waited. Reads a recording or an engine's kept
// decisions; steps that say the same are told as one line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sched/trace_format.h"

namespace inflight {

enum class ExplainedKind : uint8_t {
  Arrived,
  Waited,     // was looked at and refused, or not looked at
  Prefilled,  // computed prompt tokens, or tokens lost before
  Decoded,    // computed its newest token, and guesses of what follows
  Rested,     // runs, but had no part in the step
  Preempted,
  Cancelled,
  Finished,
  Held,  // waits, since no request may begin (Scheduler::hold_admissions)
};
[[nodiscard]] const char* to_string(ExplainedKind kind);  // "waited"

struct ExplainedLine {
  ExplainedKind kind = ExplainedKind::Waited;
  TimeNs begin = 0, end = 0;                           // of the first and the last record told of
  uint64_t first_step = 0, last_step = 0;              // 0: between steps
  int32_t computed_tokens = 0;                         // Prefilled, Decoded: in these steps
  int32_t guessed_tokens = 0;                          // of these: guesses to be verified, right or not
  AdmissionResult result = AdmissionResult::Accepted;  // Waited: why
  std::string text;                                    // for people
};

struct Explanation {
  uint64_t request = 0;
  int32_t choice = 0;
  std::vector<ExplainedLine> lines;
};

// ERRORS: NotFound when the trace does not hold the request's arrival (says which requests it holds).
[[nodiscard]] Explanation explain_request(std::span<const TraceRecord> records, uint64_t request, int32_t choice);

}  // namespace inflight
