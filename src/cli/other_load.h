// SPDX-License-Identifier: Apache-2.0
// What else the machine does while something is measured.
#pragma once

#include "base/clock.h"

namespace inflight::cli {

// From its making on: processor time that was not this process's.
class OtherLoad {
 public:
  OtherLoad();
  // As a share of all processors, what a hypervisor took included; to about 20 ms, since the system counts in ticks. 0
  // where there is no /proc/stat.
  [[nodiscard]] double share() const;

 private:
  TimeNs begin_;
  double others_s_;
};

}  // namespace inflight::cli
