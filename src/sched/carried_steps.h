// SPDX-License-Identifier: Apache-2.0
// Decode steps that only carry every running sequence one token further, without a plan each: what
// Scheduler::carry_on() asks of whoever runs it (the simulator). Nothing of this happens in the live engine. THREAD:
// the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "sched/latency_model.h"
#include "sched/sequence.h"

namespace inflight {

class CarriedSteps {
 public:
  CarriedSteps() = default;
  CarriedSteps(const CarriedSteps&) = delete;
  CarriedSteps& operator=(const CarriedSteps&) = delete;
  virtual ~CarriedSteps() = default;

  // How many more tokens the sequence is given for certain before a token may end it.
  [[nodiscard]] virtual int32_t certain_tokens(const Sequence& sequence) = 0;

  // A step of this work is planned now and submitted: the time of planning. nullopt: not now, something else is due.
  [[nodiscard]] virtual std::optional<TimeNs> submit(const StepWork& work) = 0;

  struct Ended {
    TimeNs now = 0;
    TimeNs duration = 0;
  };
  // The oldest submitted step has ended; every running sequence has one token more.
  [[nodiscard]] virtual Ended wait() = 0;

  // The sequence's tokens at [position, position + tokens.size()).
  virtual void read_tokens(const Sequence& sequence, int32_t position, std::span<TokenId> tokens) = 0;
};

}  // namespace inflight
