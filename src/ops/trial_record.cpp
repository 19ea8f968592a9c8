// SPDX-License-Identifier: Apache-2.0
#include "ops/trial_record.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>

#include "base/log.h"

namespace inflight {
namespace {

// In ticks since the machine started, by Linux's /proc; 0: it does not say.
uint64_t start_of(int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // of field 2, which may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kField = 22;
  std::string field;
  for (int i = 3; i < kField; ++i) fields >> field;
  uint64_t started = 0;
  fields >> started;
  return started;
}

bool is_alive(int32_t pid, uint64_t started) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM) && start_of(pid) == started;
}

// This start of this machine, and its process numbers' namespace, of which each container has its own.
std::string place_here() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  return boot + "/" + std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_state(int32_t number) {
  return number >= static_cast<int32_t>(TrialState::Untried) && number <= static_cast<int32_t>(TrialState::Bad);
}

}  // namespace

std::string mark_text(const TrialMark& mark) {
  return fmt::format("{} {} {} {} {} {}", static_cast<int32_t>(mark.state), mark.unfinished, place_here(),
                     seconds_now(), getpid(), start_of(getpid()));
}

TrialMark read_trial_mark(std::istream& from) {
  int32_t state = 0, unfinished = 0, pid = 0;
  std::string place;
  int64_t since = 0;
  uint64_t started = 0;
  from >> state >> unfinished >> place >> since >> pid >> started;
  if (!from || !is_state(state) || unfinished < 0) {
    from.setstate(std::ios::failbit);
    return {};
  }
  TrialMark mark{.state = static_cast<TrialState>(state), .unfinished = unfinished};
  if (mark.state != TrialState::Running) return mark;
  // Elsewhere nobody here can see its process. A container that a trial ends is started again ever less often.
  constexpr int64_t kSecondsMax = 60;
  const int64_t now = seconds_now();
  const bool recent = since > now - kSecondsMax && since < now + kSecondsMax;
  if (place == place_here() ? is_alive(pid, started) : recent) return mark;
  ++mark.unfinished;
  mark.state = mark.unfinished > kUnfinishedTrialsMax ? TrialState::Bad : TrialState::Untried;
  return mark;
}

void warn_of_trial(std::string_view what, std::string_view outcome, std::string_view device, std::string_view reason) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::string line =
      fmt::format("{} is {} on {}: {}; `inflight tune` tries it again", what, outcome, device, reason);
  const std::lock_guard lock(mutex);
  if (warned.insert(line).second) log(LogLevel::Warning, "{}", line);
}

}  // namespace inflight
