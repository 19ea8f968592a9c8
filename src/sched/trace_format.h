// SPDX-License-Identifier: Apache-2.0
// The compact form of a scheduler's work. A trace is a stream of records; a record is its type, its length and fields,
// all little-endian base-128 numbers (LEB128; signed ones zigzag-coded); times and ids are differences to the record
// before. Readers step over records of types that they do not know.
//
//   Begin     format version, text: JSON of configuration and policies. First record of a recording.
//   Add       sequence, request, arrival, prompt tokens (their number only without inputs), limits, tenant, ...
//   Cancel    sequence, reason, whether the whole request
//   Plan      step, entries (sequence, computed, scheduled), refusals, end of the pass, preemptions
//   Commit    step, duration, tokens sampled (a token, or its absence when the logits were not finite), by row what
//             follows: how many tokens (0: its filter wakes), how many of them were guessed, the others are forced; ids
//   Finish    sequence, reason
//   Trial     text: a policy that runs beside the one in force from here on
//   Policy    text: the policy from here on, the one on trial (recordings from before there was Trial: any other)
//   Parameters  text: new parameters of the policy in force
//   Limits    text: JSON of the limits that change
//   Hold      whether from here on no request begins (Scheduler::hold_admissions)
//   ResetPrefixCache  Scheduler::reset_prefix_cache
//   Reset     differences begin anew at zero: what is before may be missing
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sched/trace.h"

namespace inflight {

enum class TraceRecordType : uint8_t {
  Begin = 1,
  Add = 2,
  Cancel = 3,
  Plan = 4,
  Commit = 5,
  Finish = 6,
  Policy = 7,
  Reset = 8,
  Parameters = 9,
  Limits = 10,
  Hold = 11,
  ResetPrefixCache = 12,
  Trial = 13
};

inline constexpr uint64_t kTraceVersion = 4;

// Writes records.   THREAD: the engine thread only.
class TraceEncoder final : public SchedulerTrace {
 public:
  // sink: receives each whole record.  with_inputs: prompts and sampled tokens too, which replaying needs.
  using Sink = std::function<void(std::span<const std::byte> record)>;
  TraceEncoder(Sink sink, bool with_inputs);

  void begin(std::string_view configuration_json);
  void trial(std::string_view spec, TimeNs now);
  void policy(std::string_view spec, TimeNs now);
  void parameters(std::string_view spec, TimeNs now);
  void limits(std::string_view json, TimeNs now);
  void hold(bool holds, TimeNs now);
  void reset_prefix_cache(TimeNs now);
  // What follows can be read without what is before.
  void reset();
  void on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) override;
  void on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) override;
  void on_plan(const PlanTrace& plan, TimeNs now) override;
  void on_commit(const StepResult& result, TimeNs now) override;
  void on_finish(SequenceId sequence, FinishReason reason, TimeNs now) override;

 private:
  void open(TraceRecordType type, TimeNs now);
  void close();
  void put(uint64_t value);
  void put_signed(int64_t value);
  void put_text(std::string_view text);
  void text_record(TraceRecordType type, std::string_view text, TimeNs now);
  void put_sequence(SequenceId sequence);

  Sink sink_;
  bool with_inputs_;
  std::vector<std::byte> record_, framed_;
  TimeNs last_time_ = 0;
  uint64_t last_sequence_ = 0;
};

// Decoded records. Ids are the scheduler's sequence ids.
struct TraceBegin {
  std::string configuration_json;
};
struct TraceAdd {
  SequenceId sequence{};
  // With its prompt when the trace has inputs. Of what makes the host say which tokens may come only that it does
  // (has_token_filter, filter_sleeps), of what makes it draw them likewise (sampling.needs_logits()).
  Request request;
  int32_t prompt_token_count = 0;
};
struct TraceCancel {
  SequenceId sequence{};
  FinishReason reason = FinishReason::None;
  bool whole_request = true;
};
struct TracePlan {
  uint64_t step = 0;
  struct Entry {
    SequenceId sequence{};
    int32_t computed = 0;
    int32_t scheduled = 0;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;
  std::vector<Refusal> refusals;
  AdmissionResult pass_end = AdmissionResult::Accepted;
  std::vector<Preemption> preemptions;
};
struct TraceCommit {
  uint64_t step = 0;
  TimeNs duration = 0;
  std::vector<TokenId> tokens;  // -1: the logits were not finite; empty without inputs
  // Tokens that follow that of the row, one of the plan's that sample: SampledToken::further, then forced.
  struct Following {
    size_t row = 0;
    std::vector<TokenId> tokens;
    size_t further_count = 0;  // of the tokens
  };
  std::vector<Following> following;
  std::vector<size_t> waking;  // rows: SampledToken::filter_wakes
};
struct TraceFinish {
  SequenceId sequence{};
  FinishReason reason = FinishReason::None;
};
struct TraceTrial {
  std::string spec;
};
struct TracePolicy {
  std::string spec;
};
struct TraceParameters {
  std::string spec;
};
struct TraceLimits {
  std::string json;
};
struct TraceHold {
  bool holds = false;
};
struct TraceResetPrefixCache {};
struct TraceRecord {
  TimeNs time = 0;
  std::variant<TraceBegin, TraceAdd, TraceCancel, TracePlan, TraceCommit, TraceFinish, TraceTrial, TracePolicy,
               TraceParameters, TraceLimits, TraceHold, TraceResetPrefixCache>
      content;
};

// All records of a trace, in order; a record cut off at the end is left out.
// ERRORS: CorruptFile naming the record and what is wrong with it.
[[nodiscard]] std::vector<TraceRecord> decode_trace(std::span<const std::byte> bytes);

}  // namespace inflight
