// SPDX-License-Identifier: Apache-2.0
#include "sched/step_loop.h"

namespace inflight {

bool StepLoop::step() {
  const TimeNs begin = clock_.now();
  const BatchPlan& plan = scheduler_.plan(begin);
  const bool submits = !plan.empty();
  const TimeNs planned = clock_.now();
  times_.plan += planned - begin;
  if (submits) {
    executor_.submit(plan);
    ++in_flight_;
    times_.submit += clock_.now() - planned;
  }
  const bool reads = in_flight_ == depth_ || ((!submits || plan.read_before_next) && in_flight_ > 0);
  for (int32_t left = plan.read_before_next ? in_flight_ : reads ? 1 : 0; left > 0; --left) read_oldest();
  return submits || reads;
}

void StepLoop::drain() {
  while (in_flight_ > 0) read_oldest();
}

void StepLoop::read_oldest() {
  const TimeNs submitted = clock_.now();
  const StepResult& result = executor_.wait();
  --in_flight_;
  const TimeNs finished = clock_.now();
  times_.wait += finished - submitted;
  times_.swap += result.swap_duration;
  scheduler_.commit(result, finished);
  times_.commit += clock_.now() - finished;
}

}  // namespace inflight
