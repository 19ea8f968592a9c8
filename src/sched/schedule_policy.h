// SPDX-License-Identifier: Apache-2.0
// The decisions that a policy may take; the scheduler owns everything and checks the limits. The base class is the
// built-in policy: first come, first served; the last admitted goes first when blocks run out. plugin_host adapts
// loaded policies (include/inflight/plugin.h) to this interface and answers for their mistakes: whatever it returns is
// valid. THREAD: the engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_blocks.h"
#include "sched/latency_model.h"
#include "sched/scheduler_config.h"
#include "sched/sequence.h"

namespace inflight {

// Something that happened to a request or to the engine. Numbers and layout are plugin.h's (asserted in plugin_host).
enum class EventType : uint32_t {
  Attach = 1,
  Arrive = 2,
  Admit = 3,
  FirstToken = 4,
  Preempt = 5,
  Resume = 6,
  Finish = 7,
  Abort = 8,
  Reject = 9,
  Step = 10,
  Tokens = 11,
  CacheReset = 12,
  Param = 13,
};
struct SchedulerEvent {
  EventType type;
  uint32_t slot;
  uint64_t request;
  TimeNs time;
  int64_t a, b, c;
};

// How a step divides its tokens.
enum class StepShape : uint8_t {
  DecodeFirst,  // every decode, then prompts into the rest
  PrefillOnly,  // prompts if there are any to compute, else decodes
};

// What a step may spend. In: what limits and batching mode allow; out: what the policy wants, cut to the same.
struct StepLimits {
  int32_t token_budget = 0;    // all tokens of the step; never below the number of decodes
  int32_t prefill_tokens = 0;  // prompt tokens of the step
  int32_t chunk = 0;           // tokens of one prompt in the step, >= 1
  int32_t admissions = 0;      // sequences admitted in the step
  StepShape shape = StepShape::DecodeFirst;
  double reserve_ratio = 0.0;  // share of what running sequences may still produce that admission keeps free
};

// The step being planned, as a policy sees it.
struct StepView {
  uint64_t step = 0;
  TimeNs now = 0;
  const SchedulerConfig* config = nullptr;
  const KvBlocks* blocks = nullptr;
  std::span<Sequence* const> waiting;
  std::span<Sequence* const> running;  // in order of admission
  int32_t tokens_left = 0;
  int32_t sequences_left = 0;
  int32_t prefilling_count = 0;  // running sequences that have more than their newest token to compute
  double reserve_ratio = 0.0;    // in force
  const LatencyModel* latency = nullptr;
  TimeNs last_step_duration = 0;
  int32_t last_prefill_tokens = 0;
  int32_t last_decode_sequences = 0;
};

// A waiting sequence that fits, before it is taken.
struct Candidate {
  const Sequence* sequence = nullptr;
  int32_t cached_tokens = 0;
  int32_t uncached_tokens = 0;
  int32_t blocks_now = 0;   // for this step's share
  int32_t blocks_full = 0;  // for all its known tokens
};
enum class Decision : uint8_t {
  Admit,
  Skip,     // leave it waiting, look at the next
  Stop,     // no more admissions in this step
  Reject,   // end it, the client is told
  Preempt,  // admit it, preempting those that pick_victims() names
};
struct Admission {
  Decision decision = Decision::Admit;
  int32_t max_tokens = 0;  // of the share in this step; in: all that fits
};

// Why blocks are needed, and for whom.
enum class NeedReason : uint8_t { Decode = 0, Prefill = 1, Priority = 2 };
struct Need {
  NeedReason reason = NeedReason::Decode;
  int32_t blocks = 0;
  const Sequence* sequence = nullptr;
};

// What a policy must not do to those who wait.
enum class LivenessFault : uint8_t {
  NoProgress,  // nothing was scheduled, though something could have been
  Starvation,  // refused or not looked at, the first by arrival waited longer than limits::kStarvationNs with room for
               // it
};

class SchedulePolicy {
 public:
  SchedulePolicy() = default;
  SchedulePolicy(const SchedulePolicy&) = delete;
  SchedulePolicy& operator=(const SchedulePolicy&) = delete;
  virtual ~SchedulePolicy() = default;

  // How the waiting list is ordered.
  enum class Ranking : uint8_t {
    Arrival,    // by request id: no calls
    Stable,     // rank() once, at the first plan after a sequence began to wait
    EveryStep,  // rank() for all of them whenever one could be admitted
  };
  [[nodiscard]] virtual Ranking ranking() const { return Ranking::Arrival; }
  // Writes keys[i] for waiting[i].  False: it has no answer; who waits is in order of arrival for this step.
  virtual bool rank(const StepView& /*view*/, std::span<Sequence* const> /*waiting*/, std::span<WaitingKey> /*keys*/) {
    return false;
  }

  // Sequence::stored_prefix_block_count and stored_prefix_end are kept up to date for waiting sequences.
  [[nodiscard]] virtual bool looks_at_prefixes() const { return false; }

  // Bit (1 << EventType) for each type it wants.
  [[nodiscard]] virtual uint32_t wanted_events() const { return 0; }
  virtual void on_events(std::span<const SchedulerEvent> /*events*/) {}

  // limit_step() may change something.
  [[nodiscard]] virtual bool limits_steps() const { return false; }
  virtual void limit_step(const StepView& /*view*/, StepLimits& /*limits*/) {}

  [[nodiscard]] virtual bool decides_admission() const { return false; }
  // It may answer Decision::Preempt: then it is asked even when all rows are taken.
  [[nodiscard]] virtual bool preempts() const { return false; }
  virtual void admit(const StepView& /*view*/, const Candidate& /*candidate*/, Admission& /*admission*/) {}

  // Appends who is to be preempted, first to go first: members of view.running. None: no opinion.
  virtual void pick_victims(const StepView& /*view*/, const Need& /*need*/, std::vector<Sequence*>& /*victims*/) {}

  // The scheduler had to go on without the policy: nothing would have run, or somebody first in line was left waiting.
  virtual void on_liveness_fault(LivenessFault /*fault*/) {}
};

}  // namespace inflight
