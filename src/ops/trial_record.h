// SPDX-License-Identifier: Apache-2.0
// What the cache folder's records of trials begin with, so that a trial that ends its process is found afterwards.
//   A trial stores Running before it begins. A record of a process that is gone is a trial that never ended: once that
//   may have been Ctrl-C or a full memory, so it is tried again; from the second in a row on it is Bad.   THREAD: any.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace inflight {

enum class TrialState : int32_t {
  Untried = 0,
  Running = 1,  // by a process that is alive, or began within a minute on another machine or in another container
  Good = 2,
  Bad = 3,  // wrong, does not build, or its trials never end
};

struct TrialMark {
  TrialState state = TrialState::Untried;
  int32_t unfinished = 0;  // trials in a row that never ended
};
inline constexpr int32_t kUnfinishedTrialsMax = 1;
inline constexpr const char* kTrialNeverEnded = "its trials ended the process";  // the reason then
inline constexpr size_t kTrialReasonBytesMax = 300;

// "state unfinished place time pid started": of this process, told apart from others of its number by where it runs and
// when it began.
[[nodiscard]] std::string mark_text(const TrialMark& mark);
// What the mark at the beginning of a record means by now; what is none is Untried, and `from` has failed.
[[nodiscard]] TrialMark read_trial_mark(std::istream& from);

// Warns that `what` is, say, "not used" on the device for what its trial found, each reason once a process.
void warn_of_trial(std::string_view what, std::string_view outcome, std::string_view device, std::string_view reason);

}  // namespace inflight
