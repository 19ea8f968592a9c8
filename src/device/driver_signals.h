// SPDX-License-Identifier: Apache-2.0
// LLVM, which PoCL and other drivers compile with, puts handlers on some fifteen signals of the process; SIGUSR1's
// never calls the one that was there. A library may not do that to the program that it is part of.
#pragma once

#include <csignal>

namespace inflight {

// While one lives, drivers do what they will. When the last one goes, each signal that a driver has taken has again the
// handler that it had before the first; handlers of this library (policies' guard) stay. So it is with an
// alternate signal stack of the thread's, which LLVM replaces by a larger one; where there was none LLVM's stays, since
// the guard may have come to rely on it.   THREAD: any, but the same to its end.
class DriverSignals {
 public:
  DriverSignals();
  DriverSignals(const DriverSignals&) = delete;
  DriverSignals& operator=(const DriverSignals&) = delete;
  ~DriverSignals();

 private:
  stack_t stack_before_{};
};

}  // namespace inflight
