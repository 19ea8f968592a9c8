// SPDX-License-Identifier: Apache-2.0
// A device without arithmetic: a step takes what the device model says, and the sampled tokens are those of the
// workload. Steps run in order, one after the other, on a virtual clock that wait() advances.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "core/executor.h"
#include "sim/decision_hash.h"
#include "sim/device_model.h"
#include "sim/workload.h"

namespace inflight {

// Virtual time since the begin.
class SimClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now() const override { return now_; }
  // ERRORS: InvalidArgument beyond kSimSecondsMax.   REQUIRES: duration >= 0.
  void advance(TimeNs duration) {
    if (duration > kMax - now_) refuse();
    now_ += duration;
  }

 private:
  static constexpr auto kMax = static_cast<TimeNs>(kSimSecondsMax * 1e9);
  [[noreturn]] static void refuse();
  TimeNs now_ = 0;
};

class SimulatedExecutor final : public Executor {
 public:
  // overlap: host work runs beside the device's. seed: of the jitter.   LIFETIME: borrowed.
  SimulatedExecutor(const DeviceModel& model, SimClock& clock, bool overlap, uint64_t seed);

  // What a sequence will produce: set before it is scheduled.
  struct Script {
    OutputTokens output;
    int32_t entered = 0;  // set_prefill_free(): tokens whose K and V are or were here
  };
  void set_script(SequenceId sequence, Script script);

  [[nodiscard]] const Script& script(SequenceId sequence) const {
    return scripts_[static_cast<size_t>(to_integer(sequence))];
  }

  void submit(const BatchPlan& plan) override;
  [[nodiscard]] const StepResult& wait() override;

  // Steps that carry the submitted one's sequences a token further each (Scheduler::carry_on()): one is submitted, then
  // the oldest waited for (returns its duration), and in the end all of them become the one submitted before.
  void submit_carried(const DeviceWork& work);
  [[nodiscard]] TimeNs wait_carried();
  void end_carried(int64_t steps);

  // A request came at `now`, when nobody was there. True: nothing ran any more, and the next step is the first one
  // after a rest. False: a step still runs that was submitted before its last sequence was seen to have ended.
  bool end_rest(TimeNs now);

  // Prompt tokens cost nothing but their last one's logits, since their K and V came from another machine. Those of a
  // preempted sequence are lost here: they are computed again.
  void set_prefill_free() { prefill_free_ = true; }

  // Called in each submit(), when the step's sequences have their blocks.
  void set_on_submit(std::function<void()> on_submit) { on_submit_ = std::move(on_submit); }

  // What was planned of it and not computed: tokens, and their (query, key) pairs.
  struct Entered {
    int64_t tokens = 0, pairs = 0;
  };
  [[nodiscard]] const Entered& entered() const { return entered_; }

  struct BusyTime {
    TimeNs all = 0;
    TimeNs prefill = 0;  // of these, steps that carried prompt tokens
  };
  // How long the device computed before `until`.   REQUIRES: until >= the clock's time.
  [[nodiscard]] BusyTime busy_time(TimeNs until) const;
  [[nodiscard]] const DecisionHash& decision_hash() const { return decision_hash_; }

 private:
  struct Flight {
    StepResult result;
    std::vector<int32_t> positions;     // of the sampled tokens
    std::vector<TokenLogprob> further;  // what result points into
    TimeNs finished = 0;
    bool prefills = false;
  };
  struct Launched {
    TimeNs finished = 0;
    TimeNs duration = 0;
  };
  Launched launch(DeviceWork work);
  void leave_out_entering(const BatchPlan& plan, DeviceWork& work);
  [[nodiscard]] TimeNs jittered(const DeviceWork& work, TimeNs device);
  [[nodiscard]] TokenId token_at(SequenceId sequence, int32_t position) const;

  const DeviceModel& model_;
  SimClock& clock_;
  bool overlap_;
  bool prefill_free_ = false;
  std::function<void()> on_submit_ = [] {};
  Entered entered_;
  std::vector<Script> scripts_;                        // by sequence id
  std::array<Flight, kStepsInFlightMax + 1> flights_;  // one more: the result last given out stays valid
  size_t first_ = 0;
  size_t count_ = 0;
  Launched carried_;  // the step that was submitted with submit_carried()
  TimeNs device_free_ = -kRestBeforeTheBegin;
  BusyTime busy_time_;  // of all that was submitted
  AfterRest after_rest_{-kRestBeforeTheBegin};
  Rng jitter_;
  DecisionHash decision_hash_;
};

}  // namespace inflight
