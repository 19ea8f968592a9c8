// SPDX-License-Identifier: Apache-2.0
// LLVM, which PoCL and other drivers compile with, puts handlers on some fifteen signals of the process; SIGUSR1's
// never calls the one that was there. A library may not do that to the program that it is part of.
#pragma once

namespace inflight {

// While one lives, drivers do what they will. When the last one goes, each signal that a driver has taken has again the
// handler that it had before the first; handlers of this library (policies' guard) stay.   THREAD: any.
class DriverSignals {
 public:
  DriverSignals();
  DriverSignals(const DriverSignals&) = delete;
  DriverSignals& operator=(const DriverSignals&) = delete;
  ~DriverSignals();
};

}  // namespace inflight
