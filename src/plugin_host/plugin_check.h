// SPDX-License-Identifier: Apache-2.0
// Conformance of a plugin file: does it keep to plugin.h, whatever it is given? Each check runs in a child process with
// limits of time and memory, so that a crash or an endless loop is a failed check and nothing else.
//
//   file         one exported symbol, none that outlives dlclose, notes = descriptors, no clock or randomness of its
//   own query        the same answer each time; ids and parameters well formed create       defaults, every parameter
//   at its bounds, no memory at any allocation, nothing left behind ops          thousands of random and boundary calls
//   on read-only snapshots that are gone afterwards: answers in range determinism  the same calls, other addresses and
//   other garbage: the same answers state        save, load, save: the same bytes; damaged state is refused time no op
//   longer than the host allows, at 256 running and 10,000 waiting liveness     a scheduler under memory pressure with
//   it: every request ends, no strike
// THREAD: forks; call it while the process has one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace inflight {

enum class CheckStatus : uint8_t { Passed, Failed, Skipped };

struct CheckResult {
  const char* group = "";
  const char* name = "";
  CheckStatus status = CheckStatus::Passed;
  std::string message;  // of a failure: policy, op, what it did, what is allowed; else a figure or nothing
  double seconds = 0.0;
};

struct CheckOptions {
  std::string path;
  std::string member;  // the policy of the file that is checked, by id or short name; empty = all
  std::vector<std::pair<std::string, std::string>> parameters;  // of every policy of the file; others: defaults
  uint64_t seed = 1;
  int32_t calls = 5000;           // of each op, in the checks that call at random
  int32_t limit_seconds = 60;     // for one check
  std::vector<std::string> only;  // groups; empty = all
};

// Runs the checks in order; `on_result` is told of each as soon as it is done.
// ERRORS: NotFound (no such file, or none of its policies is the member), InvalidArgument (an unknown group).
std::vector<CheckResult> check_plugin(const CheckOptions& options,
                                      const std::function<void(const CheckResult&)>& on_result);

}  // namespace inflight
