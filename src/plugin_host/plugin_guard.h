// SPDX-License-Identifier: Apache-2.0
// Runs a plugin's function so that a crash in it, an exception out of it or its never returning ends the call, not the
// process. The call stays on the caller's thread; nothing is handed over, so the cost is a sigsetjmp (about 20 ns).
//
//   crash         SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT on this thread, a stack overflow included (the handlers run
//                 on an alternate stack). Crashes elsewhere go to whoever handled them before.
//   never returns a watching thread sees that one call lasts longer than it may and signals the thread. The handler
//                 jumps out only when the thread is in the plugin's own code, at the end of a host function, or, after
//                 kCutTriesMax tries, where it waits in the kernel (it sleeps, reads, wants a lock): so not in the
//                 middle of malloc or of host code, where a lock would stay taken. After kCutTriesLast tries it jumps
//                 from wherever it is. A call that returns after the first signal (which ends a sleep) is as late.
//
//   ends it all   exit() and quick_exit() on this thread end the process: a log line says which policy and op, the
//                 status is 1. Nothing sees _exit().
//
// What the function had in hand (memory, locks of its own) is lost, and what it overwrote before it crashed stays
// overwritten: containment is best effort, enough to end a run in good order. docs/decisions/0020 has why.
// THREAD: any; calls do not nest (an inner one runs unguarded). The first use installs the signal handlers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace inflight {

// Where the instructions of a loaded file are.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
  [[nodiscard]] bool contains(uintptr_t address) const { return address >= begin && address < end; }
};

enum class GuardOutcome : uint8_t { Returned, Threw, Crashed, Stuck };
struct GuardResult {
  GuardOutcome outcome = GuardOutcome::Returned;
  std::string what;       // "an exception: bad_alloc", "SIGSEGV", ...; empty when it returned
  int32_t cut_tries = 0;  // of one that was stuck: signals until it ended
};

struct GuardLimits {
  CodeRange code;
  int32_t stuck_after_ms = 2000;
  // Who is called, should it end the process.   LIFETIME: borrowed until the call is over.
  const char* policy = "";
  const char* op = "";
};

// Calls function(argument).
[[nodiscard]] GuardResult run_guarded(const GuardLimits& limits, void (*function)(void*), void* argument);

template <typename Call>
[[nodiscard]] GuardResult run_guarded(const GuardLimits& limits, Call&& call) {
  return run_guarded(limits, [](void* it) { (*static_cast<std::remove_reference_t<Call>*>(it))(); }, &call);
}

// Of the exception that is being handled.
[[nodiscard]] GuardResult caught();

// The same without guard against crashes and endless loops.
template <typename Call>
[[nodiscard]] GuardResult run_catching(Call&& call) {
  try {
    call();
    return {};
  } catch (...) {
    return caught();
  }
}

// What the calling thread has done so far, by the system's account.
struct ThreadUse {
  int64_t computed_ns = 0;
  int64_t waits = 0;  // times it gave up the processor by itself
};
[[nodiscard]] ThreadUse thread_use();

// Lives in a host function that a plugin called: the watch waits until it ends, then the call is cut short there.
class HostFunction {
 public:
  HostFunction();
  ~HostFunction() = default;
  HostFunction(const HostFunction&) = delete;
  HostFunction& operator=(const HostFunction&) = delete;
  // The last statement of the host function, after everything that needs a destructor. May not return.
  void end();
};

// While one is alive, the watch looks at the calls of all threads.
class CallWatchUser {
 public:
  CallWatchUser();
  ~CallWatchUser();
  CallWatchUser(const CallWatchUser&) = delete;
  CallWatchUser& operator=(const CallWatchUser&) = delete;
};

inline constexpr int kCutTriesMax = 30;      // a tick apart
inline constexpr int kCutTriesLast = 1'000;  // likewise
inline constexpr int kCallWatchTickMs = 10;  // accuracy of stuck_after_ms

}  // namespace inflight
